//! The same cluster without a standby in step: the primary is killed while the others lag. Acknowledged messages are lost, and
//! it is said how many; nothing of what was lost may be served afterwards.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use async_trait::async_trait;
use bugle_client::{Client, NewMessage, PushStatus, Subscription};
use bugle_history::{Pushed, Report, Terms, check};
use rustix::process::Signal;

use super::loss::{Break, Contents, judge, lost};
use super::scene::{Act, Scene};
use crate::scenario::Outcome;
use crate::servers::Server;
use crate::stage::{Stage, gap};

/// Messages in one request.
const BATCH: u32 = 500;

/// See the module.
pub(super) struct Contrast;

#[async_trait]
impl Act for Contrast {
    fn name(&self) -> &'static str {
        "failover-async"
    }

    fn about(&self) -> &'static str {
        "the primary is killed while its standbys lag: what is lost is counted, and must not be served"
    }

    fn in_step(&self) -> bool {
        false
    }

    async fn play(&self, scene: &mut Scene, stage: &mut Stage) -> Result<Outcome> {
        let began = Instant::now();
        let now = || u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
        let trial = stage.begin(&scene.load)?;
        trial.traffic(600).await?;
        let (leader, _) = scene.cluster.leader(None).await?;
        // From now on standbys get nothing, and nobody notices.
        let senders = scene.cluster.nodes[leader].signal_senders(Signal::STOP)?;
        ensure!(senders == 2, "{senders} standbys are sent the log");
        trial.traffic(600).await?;
        let killed = now();
        scene.cluster.nodes[leader].kill();
        scene.cluster.leader(Some(leader)).await?;
        scene.resumed().await?;
        let broken = Break { killed, resumed: now() };
        trial.traffic(1000).await?;
        let history = trial.end(stage).await?;

        let queues = [scene.load.queue.as_str(), scene.load.outputs.as_str()];
        let contents = contents(scene.servers[1].url(), "witness", &queues).await?;
        let gone = lost(&history, broken, &contents);
        let said = check(&history, &Terms::default());
        let mut report = Report { counts: Default::default(), violations: Vec::new(), ..said.clone() };
        judge(&history, broken, &contents, &mut report);
        again(&scene.servers, &gone, &queues).await?;
        let figures = vec![
            format!("{} of {} acknowledged messages lost by the standby", gone.len(), said.pushed),
            format!("the checker of the whole history names {:?}", said.counts),
            "every lost message was stored when it was pushed again".to_owned(),
        ];
        Ok(Outcome { report, injected: 1, gap: gap(&history), figures })
    }
}

/// Push what was lost again, with the ids it had: none of it may be called a duplicate, and all of it must be there then.
async fn again(servers: &[Server], gone: &[Pushed], queues: &[&str]) -> Result<()> {
    ensure!(!gone.is_empty(), "nothing was lost: the standbys did not lag");
    for (server, some) in servers.iter().zip(gone.chunks(gone.len().div_ceil(servers.len()))) {
        let client = Client::new(server.url())?;
        for batch in some.chunks(BATCH as usize) {
            let messages: Vec<NewMessage> = batch.iter().map(message).collect::<Result<_>>()?;
            let answers = client.push_all(&messages).await.context("push again what was lost")?;
            let stored = answers.iter().filter(|answer| answer.status == PushStatus::Queued).count();
            ensure!(stored == batch.len(), "{} lost messages were called duplicates", batch.len() - stored);
        }
    }
    let contents = contents(servers[0].url(), "second-witness", queues).await?;
    let missing = gone.iter().filter(|message| contents.times(&message.id) != 1).count();
    ensure!(missing == 0, "{missing} lost messages are not stored once after they were pushed again");
    Ok(())
}

fn message(lost: &Pushed) -> Result<NewMessage> {
    Ok(NewMessage::json(&lost.queue, &lost.id)?.partition(&lost.partition).transaction_id(&lost.id))
}

/// Everything that is stored, as a group that begins at the beginning is given it.
async fn contents(url: &str, group: &str, queues: &[&str]) -> Result<Contents> {
    let client = Client::new(url)?;
    let mut contents = Contents::default();
    for queue in queues {
        loop {
            let pop = client.pop(*queue).group(group).batch(BATCH).partitions(100).auto_ack();
            let pop = pop.subscribe(Subscription::All).wait(Duration::from_secs(1));
            let batch = pop.send().await.context("read everything")?;
            ensure!(!batch.store_unavailable, "the store is away");
            if batch.messages.is_empty() {
                break;
            }
            for message in &batch.messages {
                let offset = message.offset.context("a message has a position")?;
                contents.add(queue, &message.partition, offset, &message.transaction_id);
            }
        }
    }
    Ok(contents)
}
