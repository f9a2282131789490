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

/// Deliveries that are remembered because something was left unsaid of them.
const UNSAID: usize = 8;

/// One consumer of one group.
pub(crate) struct Consumer<'l> {
    load: &'l Load,
    group: &'l str,
    session: Session,
    ids: Ids,
    rng: Rng,
    unsaid: Vec<Work>,
}

impl<'l> Consumer<'l> {
    pub(crate) fn new(load: &'l Load, group: &'l str, session: Session, ids: Ids, rng: Rng) -> Self {
        Self { load, group, session, ids, rng, unsaid: Vec::new() }
    }

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
        self.too_late(&work).await;
        if self.rng.u32(..100) < self.load.careless {
            self.leave(work);
            return Ok(());
        }
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
                self.leave(work);
            }
            18..24 => {
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

    /// Say nothing more of it, until it has come again.
    fn leave(&mut self, work: Work) {
        self.unsaid.truncate(UNSAID - 1);
        self.unsaid.insert(0, work);
    }

    /// What was left and comes again now is said to be done under the lease that was replaced. Nobody may take that.
    async fn too_late(&mut self, work: &Work) {
        let left = std::mem::take(&mut self.unsaid);
        for left in left {
            let late: Vec<_> = left.shared_with(work).into_iter().map(|at| (at, Status::Completed)).collect();
            if late.is_empty() {
                self.unsaid.push(left);
            } else {
                self.session.ack(&left, &late).await;
            }
        }
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
