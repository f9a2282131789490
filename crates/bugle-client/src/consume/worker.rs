//! One worker of a consumer.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::handler::{Handler, Hold};
use super::keeper::Keeper;
use super::tally::Consumed;
use crate::ack::Ack;
use crate::client::Client;
use crate::error::{Cause, Error, Verdict};
use crate::message::Batch;
use crate::pop::{self, Terms};
use crate::retry::RetryPolicy;
use crate::servers::Server;

/// A waiting pop that is answered empty sooner than this was not waiting: the server ends, or its store is away.
const QUICK: Duration = Duration::from_secs(1);

pub(crate) struct Worker<H> {
    pub(crate) client: Client,
    pub(crate) terms: Terms,
    pub(crate) pauses: RetryPolicy,
    pub(crate) stop: CancellationToken,
    pub(crate) handler: Arc<H>,
}

impl<H: Handler> Worker<H> {
    /// Until stopped or refused.
    pub(crate) async fn run(self) -> (Consumed, Result<(), Error>) {
        let mut consumed = Consumed::default();
        let mut failures = 0u32;
        loop {
            match self.pop().await {
                Popped::Stopped => return (consumed, Ok(())),
                Popped::Refused(error) => return (consumed, Err(error)),
                Popped::Messages(batch) => {
                    failures = 0;
                    consumed += self.work(batch).await;
                }
                Popped::Nothing => failures = 0,
                Popped::Quick => {
                    failures += 1;
                    self.pause(self.pauses.pause(failures, None, fastrand::f64())).await;
                }
                Popped::Failed(server, cause) => {
                    failures += 1;
                    // Seldom enough not to fill a log, often enough to be seen in it.
                    if u32::is_power_of_two(failures) {
                        tracing::warn!(failures, error = %cause, "no messages for now");
                    }
                    let transport = &self.client.transport;
                    self.pause(transport.pause_length(&self.pauses, failures, server, &cause)).await;
                }
            }
        }
    }

    async fn pop(&self) -> Popped<'_> {
        let transport = &self.client.transport;
        let (call, server, asked) = (self.terms.call(), transport.servers.current(), Instant::now());
        // Dropped when stopped: the server takes back what it was about to deliver.
        let answer = tokio::select! {
            biased;
            () = self.stop.cancelled() => return Popped::Stopped,
            answer = transport.attempt(&call, server) => answer,
        };
        let answer = match answer {
            Ok(answer) => answer,
            Err(cause) if cause.verdict() == Verdict::Refused => {
                return Popped::Refused(cause.into_error(1, false));
            }
            Err(cause) => return Popped::Failed(server, cause),
        };
        match pop::batch(&answer) {
            Err(error) => Popped::Refused(error),
            Ok(batch) if !batch.messages.is_empty() => Popped::Messages(batch),
            Ok(batch) if batch.store_unavailable => Popped::Quick,
            Ok(_) if asked.elapsed() < QUICK.min(self.terms.wait.unwrap_or_default() / 2) => Popped::Quick,
            Ok(_) => Popped::Nothing,
        }
    }

    async fn pause(&self, length: Duration) {
        tokio::select! {
            () = self.stop.cancelled() => {}
            () = sleep(length) => {}
        }
    }

    /// Handle a delivery and say what became of it. The lease is kept until that is said.
    async fn work(&self, mut batch: Batch) -> Consumed {
        let keeper = Keeper::new(&self.client, batch.lease);
        batch.messages.iter_mut().for_each(|message| message.lost = Some(keeper.lost.clone()));
        let hold = Hold { stop: &self.stop, lost: &keeper.lost };
        let acks = self.handler.handle(batch.messages, &hold).await;
        let failed = acks.iter().filter(|ack| ack.status == "failed").count() as u64;
        let mut consumed = Consumed { failed, ..Consumed::default() };
        match self.client.settle(&acks).await {
            Ok(outcomes) => {
                for (ack, acked) in acks.iter().zip(outcomes) {
                    consumed.completed += u64::from(acked.success && ack.status == "completed");
                    consumed.dead_lettered += u64::from(acked.dead_lettered);
                    // What was given back is free in any case.
                    consumed.rejected += u64::from(!acked.success && ack.status != "retry");
                }
            }
            Err(error) => {
                tracing::warn!(count = acks.len(), %error, "what became of messages could not be said");
                consumed.unanswered = acks.iter().filter(|ack: &&Ack| ack.status != "retry").count() as u64;
            }
        }
        if consumed.rejected > 0 {
            tracing::warn!(count = consumed.rejected, "messages were handled too late and come again");
        }
        consumed
    }
}

/// How a pop went.
enum Popped<'a> {
    Messages(Batch),
    Nothing,
    Quick,
    Failed(&'a Server, Cause),
    Refused(Error),
    Stopped,
}
