//! A queue is deleted, through another server each time, and created again by the next push, with everything that servers
//! and clients still remember of the old one: leases, cursors, transaction ids, waiting pops.
//!
//! Each life of the queue has a history of its own, with ids of its own: to the checker a message of an earlier life is one that
//! was never pushed, and what this life has acknowledged must be delivered from offset 0 on. Every other life is drained before it
//! ends; the others are deleted with messages in them. Hecklers pop through all of it, also while the queue is deleted: to a
//! pop that began after a deletion was answered nothing of the lives before it may be given.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use async_trait::async_trait;
use bugle_client::{Ack, Batch, Client, RetryPolicy};
use bugle_history::{Load, Report, Rule, Terms};
use tokio::task::JoinSet;

use crate::scenario::{Engine, Outcome, Scenario};
use crate::servers::Server;
use crate::stage::{Stage, judged};

/// See the module.
pub(crate) struct Recreate(pub(crate) Engine);

#[async_trait]
impl Scenario for Recreate {
    fn name(&self) -> &'static str {
        "recreate"
    }

    fn about(&self) -> &'static str {
        "a queue deleted and created again, through another server on PostgreSQL"
    }

    fn engine(&self) -> Engine {
        self.0
    }

    async fn run(&self, stage: &mut Stage) -> Result<Outcome> {
        let (_database, servers) = stage.cast(self.0, 2).await?;
        let clients = servers.iter().map(client).collect::<Result<Vec<_>>>()?;
        let first = stage.load(servers.iter().map(Server::url));
        let hecklers = Hecklers::start(&clients, &first);
        let (until, mut outcome) = (Instant::now() + stage.time, Outcome::default());
        let mut held: Option<Batch> = None;
        for life in 0.. {
            if life >= 2 && Instant::now() >= until {
                break;
            }
            let seed = first.seed.wrapping_add(life);
            let trial = stage.begin(&Load { seed, ..first.clone() })?;
            let more = stage.rng.usize(300..1500);
            trial.traffic(more).await?;
            if let Some(batch) = held.take() {
                stale(&clients[0], &batch, &mut outcome.report).await;
            }
            let ended = if life % 2 == 0 {
                trial.judge(stage, &Terms::default()).await?
            } else {
                let report = judged(stage, &trial.stop().await?, &Terms::default()).await?;
                Outcome { report, ..Outcome::default() }
            };
            outcome.report.merge(ended.report);
            outcome.gap = outcome.gap.max(ended.gap);
            held = hold(&clients, &first).await;
            let through = clients[life as usize % clients.len()].admin();
            for queue in [&first.queue, &first.outputs] {
                through.delete_queue(queue).await.context("delete a queue")?;
            }
            hecklers.deleted(seed);
            outcome.injected += 1;
        }
        outcome.report.merge(hecklers.end().await?);
        Ok(outcome)
    }
}

fn client(server: &Server) -> Result<Client> {
    Ok(Client::builder(server.url()).retry(RetryPolicy::never()).timeout(Duration::from_secs(5)).build()?)
}

/// A lease on something that is in the queue, if anything is, held for longer than the queue will exist.
async fn hold(clients: &[Client], load: &Load) -> Option<Batch> {
    let pop = clients.last()?.pop(&load.queue).group("holder").lease(Duration::from_secs(60));
    pop.send().await.ok().filter(|batch| batch.lease.is_some())
}

/// What was held before the deletion is acknowledged after it: nothing may come of it.
async fn stale(client: &Client, held: &Batch, report: &mut Report) {
    let acks: Vec<Ack> = held.messages.iter().map(Ack::completed).collect();
    let Ok(acked) = client.settle(&acks).await else { return };
    if acked.iter().any(|acked| acked.success && !acked.noop) {
        report.violated(Rule::StaleAck, "taken under a lease on a queue that was deleted since".to_owned());
    }
}

/// Consumers that neither stop for a deletion nor are told of it.
struct Hecklers {
    /// Seed of the oldest life that may be seen by a pop that begins now.
    oldest: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    tasks: JoinSet<Report>,
}

impl Hecklers {
    fn start(clients: &[Client], load: &Load) -> Self {
        let (oldest, stop) = (Arc::new(AtomicU64::new(load.seed)), Arc::new(AtomicBool::new(false)));
        let mut tasks = JoinSet::new();
        for client in clients.iter().chain(clients) {
            let (client, queue, first) = (client.clone(), load.queue.clone(), load.seed);
            let (oldest, stop) = (oldest.clone(), stop.clone());
            tasks.spawn(async move {
                let mut report = Report::default();
                while !stop.load(Ordering::Relaxed) {
                    let allowed = oldest.load(Ordering::SeqCst).wrapping_sub(first);
                    let pop = client.pop(&queue).group("heckler").auto_ack().batch(50);
                    let answer = pop.wait(Duration::from_millis(500)).send().await;
                    report.operations += 1;
                    let messages = answer.map(|batch| batch.messages).unwrap_or_default();
                    report.delivered += messages.len() as u64;
                    for message in messages {
                        let life = life(&message.transaction_id).map(|seed| seed.wrapping_sub(first));
                        if life.is_none_or(|life| life < allowed) {
                            let text = format!("{} came after its queue was deleted", message.transaction_id);
                            report.violated(Rule::Phantom, text);
                        }
                    }
                }
                report
            });
        }
        Self { oldest, stop, tasks }
    }

    /// The deletion of the life with this seed was answered.
    fn deleted(&self, seed: u64) {
        self.oldest.store(seed.wrapping_add(1), Ordering::SeqCst);
    }

    async fn end(mut self) -> Result<Report> {
        self.stop.store(true, Ordering::Relaxed);
        let mut report = Report::default();
        while let Some(ended) = self.tasks.join_next().await {
            report.merge(ended.context("a heckler")?);
        }
        Ok(report)
    }
}

/// The seed that a message's id begins with.
fn life(id: &str) -> Option<u64> {
    u64::from_str_radix(id.split('-').next()?, 16).ok()
}
