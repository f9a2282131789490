//! A consumer: takes messages and does with them whatever a consumer may do, mostly the right thing.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bugle_client::Error;
use fastrand::Rng;

use crate::load::Load;
use crate::producer::Ids;
use crate::record::Status;
use crate::session::{Pop, Session, Work};

/// How long a pop waits for messages.
const WAIT: Duration = Duration::from_millis(200);
/// Longer than this after its end no lease lasts.
const AFTER: Duration = Duration::from_millis(500);

/// One consumer of one group.
pub(crate) struct Consumer<'l> {
    pub(crate) load: &'l Load,
    pub(crate) group: &'l str,
    pub(crate) session: Session,
    pub(crate) ids: Ids,
    pub(crate) rng: Rng,
}

impl Consumer<'_> {
    /// Consume until `stop`.
    pub(crate) async fn consume(mut self, stop: &AtomicBool) -> Result<(), Error> {
        let load = self.load;
        while !stop.load(Ordering::Relaxed) {
            let queue = if self.rng.u8(..4) == 0 { &load.outputs } else { &load.queue };
            let (batch, partitions) = (self.rng.u32(1..20), self.rng.u32(1..4));
            let lease = (self.group != load.quick).then_some(load.lease);
            let pop = Pop { queue, group: self.group, batch, partitions, lease, wait: WAIT };
            if let (Some(work), _) = self.session.pop(&pop).await {
                self.work(work).await?;
            }
        }
        Ok(())
    }

    async fn work(&mut self, work: Work) -> Result<(), Error> {
        let all = |status| (0..work.messages.len()).map(|at| (at, status)).collect::<Vec<_>>();
        let Some(last) = work.messages.len().checked_sub(1) else { return Ok(()) };
        match self.rng.u8(..100) {
            // One of them fails, and what lies before it in its lane is done.
            0..10 => {
                let mut said = all(Status::Completed);
                said[self.rng.usize(..=last)].1 = Status::Failed;
                self.session.ack(&work, &said).await;
            }
            10..14 => self.session.ack(&work, &all(Status::Retry)).await,
            14..16 => self.session.ack(&work, &[(0, Status::Dlq)]).await,
            // Some are done, the others come again when the lease ends.
            16..18 => {
                let some: Vec<_> = all(Status::Completed).drain(..=last / 2).collect();
                self.session.ack(&work, &some).await;
            }
            // Nothing is said at all.
            18 => (),
            19..24 => {
                self.session.renew(&work, self.load.lease * 2).await;
                self.session.ack(&work, &all(Status::Completed)).await;
            }
            24..45 => {
                let count = self.rng.usize(1..4);
                let outputs = (0..count)
                    .map(|_| self.ids.message(&self.load.outputs, self.load, &mut self.rng))
                    .collect();
                self.session.transact(&work, outputs).await?;
            }
            // One after the other.
            45..55 => {
                for said in all(Status::Completed) {
                    self.session.ack(&work, &[said]).await;
                }
            }
            _ => self.session.ack(&work, &all(Status::Completed)).await,
        }
        Ok(())
    }

    /// Take out what is left of a queue. Answers whether that was all.
    pub(crate) async fn drain(&mut self, queue: &str) -> bool {
        let end = Instant::now() + self.load.drain_limit;
        let lease = (self.group != self.load.quick).then_some(self.load.lease);
        // Leases may have been made longer.
        let wait = self.load.lease * 2 + AFTER + self.load.settle;
        while Instant::now() < end {
            let pop = Pop { queue, group: self.group, batch: 500, partitions: 100, lease, wait };
            match self.session.pop(&pop).await {
                (_, true) => {
                    self.session.drained(queue, self.group);
                    return true;
                }
                (Some(work), _) => {
                    let all: Vec<_> = (0..work.messages.len()).map(|at| (at, Status::Completed)).collect();
                    self.session.ack(&work, &all).await;
                }
                (None, _) => (),
            }
        }
        false
    }
}
