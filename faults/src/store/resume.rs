//! PostgreSQL goes away while consumers wait, and comes back: from its return to the first delivery to each of them, without
//! a restart of anything.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use async_trait::async_trait;
use bugle_client::{Client, NewMessage, RetryPolicy};
use bugle_history::Terms;
use rustix::process::Signal;
use tokio::task::JoinSet;

use crate::scenario::{Engine, Outcome, Scenario};
use crate::stage::Stage;

/// Consumers that wait, each for a queue of its own.
const CONSUMERS: usize = 20;
/// How long a consumer waits at most, and how often a producer that was refused tries again.
const WAIT: Duration = Duration::from_secs(60);
const AGAIN: Duration = Duration::from_millis(50);

/// See the module.
pub(crate) struct Resume;

#[async_trait]
impl Scenario for Resume {
    fn name(&self) -> &'static str {
        "recovery"
    }

    fn about(&self) -> &'static str {
        "PostgreSQL stopped for 10 s: time from its return to the delivery to each waiting consumer"
    }

    fn engine(&self) -> Engine {
        Engine::Postgres
    }

    fn measures(&self) -> bool {
        true
    }

    async fn run(&self, stage: &mut Stage) -> Result<Outcome> {
        let mut database = stage.database().await?;
        let servers = stage.sharing(&database.address(), 2).await?;
        let clients = servers.iter().map(|s| client(s.url())).collect::<Result<Vec<_>>>()?;
        let mut trial = stage.begin_on(&servers)?;
        let away = Duration::from_secs(if stage.short { 2 } else { 10 });
        let mut times = Vec::new();
        while trial.goes_on() {
            let round = trial.injected;
            let mut waiting = wait(&clients, round);
            trial.traffic(300).await?;
            let signal = if round % 2 == 0 { Signal::INT } else { Signal::QUIT };
            database.stop(signal).await?;
            trial.injected += 1;
            tokio::time::sleep(away).await;
            // Producers that were refused come again and again; they are there before the database is.
            let producing = produce(&clients, round);
            database.begin().await?;
            let back = Instant::now();
            trial.healed();
            while let Some(given) = waiting.join_next().await {
                times.push(given.context("a consumer")??.saturating_duration_since(back));
            }
            drop(producing);
        }
        times.sort_unstable();
        let (median, longest) = (times[times.len() / 2], times[times.len() - 1]);
        trial.figures.push(format!(
            "{} waiting consumers were given a message {:.2} s after the return (median; longest {:.2} s)",
            times.len(),
            median.as_secs_f64(),
            longest.as_secs_f64(),
        ));
        trial.judge(stage, &Terms::default()).await
    }
}

fn client(url: &str) -> Result<Client> {
    Ok(Client::builder(url).retry(RetryPolicy::never()).timeout(Duration::from_secs(10)).build()?)
}

fn queue(round: u64, consumer: usize) -> String {
    format!("waiting-{round}-{consumer}")
}

/// Consumers of both servers, which wait from before the outage on. Each answers when it was given something.
fn wait(clients: &[Client], round: u64) -> JoinSet<Result<Instant>> {
    let mut waiting = JoinSet::new();
    for consumer in 0..CONSUMERS {
        let (client, queue) = (clients[consumer % clients.len()].clone(), queue(round, consumer));
        waiting.spawn(async move {
            let began = Instant::now();
            while began.elapsed() < WAIT {
                let pop = client.pop(&queue).auto_ack().wait(WAIT);
                if pop.send().await.is_ok_and(|batch| !batch.messages.is_empty()) {
                    return Ok(Instant::now());
                }
            }
            ensure!(false, "{queue}: nothing was delivered in {WAIT:?}");
            Ok(began)
        });
    }
    waiting
}

/// A message for each of them, through the other server, as soon as it is taken.
fn produce(clients: &[Client], round: u64) -> JoinSet<()> {
    let mut producing = JoinSet::new();
    for consumer in 0..CONSUMERS {
        let (client, queue) = (clients[(consumer + 1) % clients.len()].clone(), queue(round, consumer));
        producing.spawn(async move {
            loop {
                let message = NewMessage::json(&queue, "resumed").map(|new| new.transaction_id("only"));
                if let Ok(message) = message
                    && client.push(message).await.is_ok()
                {
                    return;
                }
                tokio::time::sleep(AGAIN).await;
            }
        });
    }
    producing
}
