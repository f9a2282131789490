//! kill -9 of an embedded server with a million stored messages: from the start of the next one to its first delivery.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use async_trait::async_trait;
use bugle_client::{Client, NewMessage, RetryPolicy};
use bugle_history::Terms;

use crate::scenario::{Engine, Outcome, Scenario};
use crate::servers::Server;
use crate::stage::Stage;

const QUEUE: &str = "recovery";
/// Messages in one push, and partitions they go to.
const BATCH: usize = 1000;
const PARTITIONS: usize = 1000;
/// A server that delivers nothing by then has lost something.
const PATIENCE: Duration = Duration::from_secs(60);

/// See the module.
pub(crate) struct Recovery;

#[async_trait]
impl Scenario for Recovery {
    fn name(&self) -> &'static str {
        "recovery"
    }

    fn about(&self) -> &'static str {
        "kill -9 under load with 1,000,000 stored messages: time to the first delivery"
    }

    fn engine(&self) -> Engine {
        Engine::Embedded
    }

    fn measures(&self) -> bool {
        true
    }

    async fn run(&self, stage: &mut Stage) -> Result<Outcome> {
        let mut server = stage.embedded().await?;
        let messages = if stage.short { 20_000 } else { 1_000_000 };
        let client = client(&server)?;
        fill(&client, messages).await?;
        let mut trial = stage.begin_on(std::slice::from_ref(&server))?;
        let (mut times, mut starts) = (Vec::new(), Vec::new());
        while trial.goes_on() {
            trial.traffic(300).await?;
            server.kill()?;
            trial.injected += 1;
            let began = Instant::now();
            starts.push(server.begin().await?);
            first_delivery(&client).await?;
            times.push(began.elapsed());
        }
        times.sort_unstable();
        let (median, longest) = (times[times.len() / 2], times[times.len() - 1]);
        let start = starts.iter().max().copied().unwrap_or_default();
        trial.figures.push(format!(
            "{messages} messages stored: first delivery {:.2} s after the start (median; longest {:.2} s, of which {:.2} s until it listens)",
            median.as_secs_f64(),
            longest.as_secs_f64(),
            start.as_secs_f64(),
        ));
        let outcome = trial.judge(stage, &Terms::default()).await?;
        all_there(&client, messages).await?;
        Ok(outcome)
    }
}

fn client(server: &Server) -> Result<Client> {
    Ok(Client::builder(server.url()).retry(RetryPolicy::never()).timeout(Duration::from_secs(10)).build()?)
}

async fn fill(client: &Client, messages: usize) -> Result<()> {
    for first in (0..messages).step_by(BATCH) {
        let message = |n: usize| {
            let new = NewMessage::json(QUEUE, &format!("{n:0100}"))?;
            Ok(new.partition(format!("p{}", n % PARTITIONS)).transaction_id(format!("m{n}")))
        };
        let batch: Result<Vec<NewMessage>> = (first..(first + BATCH).min(messages)).map(message).collect();
        client.push_all(&batch?).await.context("fill the queue")?;
    }
    Ok(())
}

/// Of a message that was stored before, to a group that never read: its cursor is made by this.
async fn first_delivery(client: &Client) -> Result<()> {
    let (began, group) = (Instant::now(), format!("g{:016x}", fastrand::u64(..)));
    while began.elapsed() < PATIENCE {
        let pop = client.pop(QUEUE).group(&group).lease(Duration::from_secs(1));
        if pop.send().await.is_ok_and(|batch| !batch.messages.is_empty()) {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    bail!("nothing was delivered within {PATIENCE:?} after the restart")
}

/// Everything that was stored before all the kills is delivered, once.
async fn all_there(client: &Client, messages: usize) -> Result<()> {
    let mut seen = 0;
    loop {
        let pop = client.pop(QUEUE).group("counter").auto_ack().batch(10_000).partitions(100);
        let batch = pop.send().await.context("count what is stored")?;
        if batch.messages.is_empty() {
            break;
        }
        seen += batch.messages.len();
    }
    ensure!(seen == messages, "{seen} of {messages} stored messages were delivered after the last restart");
    Ok(())
}
