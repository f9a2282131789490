//! What one node does so that every node knows when to look.
//!
//! The rules, from which it follows that nothing that can be fetched waits for longer than a hint travels:
//!
//! 1. After an event, as many as there is to do get up on the node where it happened. Other nodes are told only if too few
//!    sat there; otherwise one look on each node would follow every event.
//! 2. A look that finds nothing learns the next instant at which there may be something: a message becomes visible, a
//!    lease ends. The node looks again then.
//! 3. So a node must be told of an instant only if it has not looked since that instant was fixed. A node that claims
//!    something or sets a timer tells the others to look at that instant, unless they were already told to look at an
//!    earlier one that is still to come: that look will tell them the rest. A busy node tells about once per lease.
//! 4. Whenever something may have been missed (a gap, a new connection, another state of health) everybody looks once.
//!    While nobody is heard a fetch looks ten times a second, and every so often the fallback looks in any case.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bugle_pg::Pool;
use bugle_wake::{Audience, Bell};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::waking::counters::count;
use crate::waking::room::{Cause, Room};
use crate::waking::tiding::Hint;
use crate::waking::work::{Queue, Work};

/// A process that fetched this lately is one that stays.
const STAYS: Duration = Duration::from_secs(60);

/// The earliest instants told to the others, by queue.
#[derive(Default)]
struct Told {
    orchestrations: Option<i64>,
    activities: Option<i64>,
}

/// One node's part in waking.
pub(crate) struct Watch {
    pub(crate) room: Arc<Room>,
    pub(crate) bell: Bell<Hint>,
    pool: Pool,
    told: Mutex<Told>,
    begun: Instant,
    /// Milliseconds after `begun` of the last fetch; 0: none.
    fetched: AtomicU64,
}

impl Watch {
    pub(crate) fn new(room: Arc<Room>, bell: Bell<Hint>, pool: Pool) -> Self {
        let (told, begun) = (Mutex::default(), Instant::now());
        Self { room, bell, pool, told, begun, fetched: AtomicU64::new(0) }
    }

    /// `units` of this can be fetched now.
    pub(crate) fn ready(&self, work: Work, units: u64) {
        if units > 0 && self.room.wake(work, units, Cause::Local) < units {
            self.ring(Hint::Now(work));
        }
    }

    /// Something of this queue can be fetched from this instant on: a timer, or a lease that may not be renewed.
    pub(crate) fn ready_at(&self, queue: Queue, at: i64) {
        self.room.expect(queue, self.instant(at));
        self.tell_at(queue, at);
    }

    /// Something of this queue was claimed here until `at`. This node will look by itself when it must.
    pub(crate) fn tell_at(&self, queue: Queue, at: i64) {
        if self.bell.audience() == Audience::Nobody {
            return;
        }
        let now = self.pool.clock().now().earliest;
        let mut told = self.told.lock();
        let told = match queue {
            Queue::Orchestrations => &mut told.orchestrations,
            Queue::Activities => &mut told.activities,
        };
        if told.is_none_or(|t| t <= now || t > at) {
            *told = Some(at);
            self.ring(Hint::At(queue, at));
        }
    }

    /// There is something in this queue that nobody here will take.
    pub(crate) fn tell_now(&self, queue: Queue) {
        self.ring(Hint::At(queue, 0));
    }

    fn ring(&self, hint: Hint) {
        if self.bell.audience() != Audience::Nobody {
            count(&self.room.counters.hints);
            self.bell.ring(hint);
        }
    }

    /// A hint to publish with the statement that makes something fetchable, `at` an instant or now: for a process that may
    /// be gone before its bell has rung. `None`: not needed.
    pub(crate) fn unsigned(&self, work: Work, at: Option<i64>) -> Option<String> {
        let stays = self.stays();
        let quiet = match self.bell.audience() {
            Audience::Nobody => true,
            Audience::Somebody => stays,
            Audience::NotKnownYet => false,
        };
        if quiet || self.room.awaits(work) {
            return None;
        }
        count(&self.room.counters.hints);
        unsigned(work, at)
    }

    /// Hear a hint of another node.
    pub(crate) fn heard(&self, hint: Hint) {
        match hint {
            Hint::Now(work) => {
                self.room.wake(work, 1, Cause::Remote);
            }
            Hint::At(queue, at) => self.room.expect(queue, self.instant(at)),
        }
    }

    /// A fetch is under way.
    pub(crate) fn fetching(&self) {
        let millis = self.begun.elapsed().as_millis() as u64;
        self.fetched.store(millis.max(1), Ordering::Relaxed);
    }

    fn stays(&self) -> bool {
        let fetched = self.fetched.load(Ordering::Relaxed);
        fetched > 0 && self.begun + Duration::from_millis(fetched) + STAYS > Instant::now()
    }

    /// Whether every hint of every node comes through.
    pub(crate) fn hears(&self) -> bool {
        self.bell.hearing().covered
    }

    /// When it will be `at` for sure, by the database's clock.
    pub(crate) fn instant(&self, at: i64) -> Instant {
        let wait = at.saturating_sub(self.pool.clock().now().earliest);
        Instant::now() + Duration::from_micros(u64::try_from(wait).unwrap_or(0)).min(FAR)
    }
}

/// Instants farther away than this are looked at again then.
const FAR: Duration = Duration::from_secs(30 * 86_400);

/// A hint that needs no bell.
pub(crate) fn unsigned(work: Work, at: Option<i64>) -> Option<String> {
    Bell::unsigned(&[at.map_or(Hint::Now(work), |at| Hint::At(work.queue(), at))])
}
