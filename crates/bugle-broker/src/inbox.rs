//! The mover: takes what applications have committed into the inbox and stores it as pushes, if the engine has an inbox.
//!
//! *When.* A transaction that wrote into the inbox announces it at its commit, and the floor's look tells of it. Where neither
//! does, the mover looks by itself, rarely; more often only where hints do not come and somebody asks for messages.
//!
//! *Fairly.* It goes around all lanes that have rows, a bounded part of each at a time. A queue that refuses (it is full, or
//! there is no key to encrypt for it) is passed by for a while, and tried again with growing pauses.
//!
//! *Several servers* may move at once; the store lets one have a lane's rows. Whoever was too late leaves the field for a moment.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until};

use bugle_store::{Inbox, InboxAsk, InboxDepth, InboxLane, LaneName, Queue, Timestamp};

use crate::api::{PushItem, Refused};
use crate::inner::Inner;
use crate::lanes::LaneState;
use crate::meters::BlockedQueue;
use crate::push::{Bundle, Moved, Moving, message};

/// Lanes, rows and bytes moved at a time.
const LANES: usize = 512;
const ROWS: usize = 8192;
const BYTES: usize = 8 << 20;
/// Rows counted for the numbers, and how often while there are any.
const COUNTED: usize = 10_000;
const COUNT_EVERY: Duration = Duration::from_secs(5);
/// Pause after a failure, or of a queue that refuses, and the longest it grows to.
const PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// Queues that refuse and are told by name, those that have longest.
const NAMED: usize = 20;
/// How long the field is left to a faster server, at most.
const BEHIND_MS: u64 = 200;

/// See the module.
pub(crate) struct Mover {
    /// Something may be there.
    now: AtomicBool,
    /// Somebody asked for messages since the last look.
    asked: AtomicBool,
    nudge: Notify,
    looked: Mutex<Instant>,
    blocked: Mutex<HashMap<Arc<str>, Blocked>>,
    depth: Mutex<InboxDepth>,
}

/// A queue that refuses.
struct Blocked {
    since: Instant,
    reason: String,
    until: Instant,
    pause: Duration,
}

impl Default for Mover {
    fn default() -> Self {
        Self {
            // What was committed while no server ran.
            now: AtomicBool::new(true),
            asked: AtomicBool::new(false),
            nudge: Notify::new(),
            looked: Mutex::new(Instant::now()),
            blocked: Mutex::default(),
            depth: Mutex::default(),
        }
    }
}

impl Mover {
    /// There is, or may be, something to move.
    pub(crate) fn look_now(&self) {
        self.now.store(true, Ordering::Release);
        self.nudge.notify_one();
    }

    /// Somebody asks for messages: where no hints come, this is a reason to look soon.
    pub(crate) fn asked(&self) {
        if !self.asked.load(Ordering::Relaxed) && !self.asked.swap(true, Ordering::AcqRel) {
            self.nudge.notify_one();
        }
    }

    /// Somebody has looked for it, and found nothing.
    pub(crate) fn found_empty(&self) {
        *self.looked.lock() = Instant::now();
    }

    /// What was last counted.
    pub(crate) fn depth(&self) -> InboxDepth {
        *self.depth.lock()
    }

    /// How many queues refuse, and those that have longest.
    pub(crate) fn blocked(&self) -> (usize, Vec<BlockedQueue>) {
        let blocked = self.blocked.lock();
        let mut longest: Vec<(&Arc<str>, &Blocked)> = blocked.iter().collect();
        longest.sort_by_key(|(queue, blocked)| (blocked.since, *queue));
        longest.truncate(NAMED);
        let named = longest.into_iter().map(|(queue, blocked)| BlockedQueue {
            queue: queue.clone(),
            reason: blocked.reason.clone(),
            since: blocked.since.elapsed(),
        });
        (blocked.len(), named.collect())
    }

    /// Queues not to be tried now; those whose pause is over are.
    fn passed_by(&self) -> Vec<Arc<str>> {
        let now = Instant::now();
        let blocked = self.blocked.lock();
        blocked.iter().filter(|(_, blocked)| blocked.until > now).map(|(queue, _)| queue.clone()).collect()
    }

    fn next_try(&self) -> Option<Instant> {
        self.blocked.lock().values().map(|blocked| blocked.until).min()
    }

    /// A queue refuses: it is tried again after a pause that grows.
    fn block(&self, queue: &Arc<str>, refused: &Refused) {
        let mut blocked = self.blocked.lock();
        let now = Instant::now();
        match blocked.get_mut(queue) {
            Some(earlier) if earlier.until > now => (),
            Some(earlier) => {
                earlier.reason = refused.to_string();
                earlier.pause = (earlier.pause * 2).min(LONGEST_PAUSE);
                earlier.until = now + earlier.pause;
            }
            None => {
                tracing::warn!(%queue, reason = %refused, "messages of the inbox must wait");
                let reason = refused.to_string();
                let entry = Blocked { since: now, reason, until: now + PAUSE, pause: PAUSE };
                blocked.insert(queue.clone(), entry);
            }
        }
    }

    /// All that could be tried since then was: what did not refuse again has nothing here any more.
    fn tried(&self, since: Instant) {
        self.blocked.lock().retain(|_, blocked| blocked.until > since);
    }

    fn unblock(&self, queue: &Arc<str>) {
        let mut blocked = self.blocked.lock();
        if blocked.get(queue).is_some_and(|blocked| blocked.until <= Instant::now()) {
            blocked.remove(queue);
        }
    }
}

impl Inner {
    /// Background task.
    pub(crate) async fn run_inbox(self: Arc<Self>) {
        let Some(inbox) = self.engine.inbox() else { return };
        let mut switches = self.board.watch();
        let mut pause = PAUSE;
        loop {
            let maintained = switches.borrow_and_update().push_maintenance;
            let nudged = self.mover.nudge.notified();
            if !maintained && self.mover.now.swap(false, Ordering::AcqRel) {
                match self.empty_inbox(inbox).await {
                    Ok(()) => pause = PAUSE,
                    Err(refused) => {
                        self.meters.inbox_failures.one();
                        tracing::warn!(reason = %refused, "the inbox cannot be moved; trying again");
                        tokio::select! {
                            () = sleep(pause) => pause = (pause * 2).min(LONGEST_PAUSE),
                            () = self.stop.cancelled() => return,
                        }
                        self.mover.now.store(true, Ordering::Release);
                    }
                }
                continue;
            }
            tokio::select! {
                () = sleep_until(self.next_look()), if !maintained => self.mover.look_now(),
                () = nudged => (),
                changed = switches.changed() => if changed.is_err() { return },
                () = self.stop.cancelled() => return,
            }
        }
    }

    /// When the mover looks by itself. The floor looks as often while somebody waits, so it goes first.
    fn next_look(&self) -> Instant {
        let (floor, mover) = (&self.config.floor, &self.mover);
        let hasty = mover.asked.load(Ordering::Acquire) && !self.hears();
        let rest = if hasty { floor.max } else { floor.with_carrier + floor.max };
        let next = *mover.looked.lock() + rest;
        mover.next_try().map_or(next, |again| next.min(again))
    }

    /// Move until nothing is left that can be moved.
    async fn empty_inbox(self: &Arc<Self>, inbox: &dyn Inbox) -> Result<(), Refused> {
        let (mut after, mut left) = (None::<LaneName>, false);
        let began = Instant::now();
        let mut counted = began;
        self.mover.asked.store(false, Ordering::Release);
        loop {
            if self.stop.is_cancelled() || self.board.now().push_maintenance {
                return Ok(());
            }
            let ask = InboxAsk {
                after: after.clone(),
                without: self.mover.passed_by(),
                lanes: LANES,
                rows: ROWS,
                bytes: BYTES,
            };
            let front = self.watch(inbox.front(ask).await)?;
            *self.mover.looked.lock() = Instant::now();
            let Some(last) = front.lanes.last() else {
                // Around once more, if lanes were left on the way.
                if !left || after.take().is_none() {
                    break;
                }
                left = false;
                continue;
            };
            after = front.more.then(|| last.name.clone());
            left |= front.more;
            let moved = self.move_lanes(inbox, front.lanes).await?;
            left |= moved.lost > 0 || moved.again > 0;
            if moved.lost > 0 && moved.stored + moved.duplicates == 0 {
                sleep(Duration::from_millis(fastrand::u64(BEHIND_MS / 4..BEHIND_MS))).await;
            }
            if !left {
                break;
            }
            if counted.elapsed() > COUNT_EVERY {
                counted = Instant::now();
                self.count_inbox(inbox).await?;
            }
        }
        self.mover.tried(began);
        self.count_rest(inbox).await
    }

    /// How much is left when everything was moved that can be: nothing, unless queues refuse.
    async fn count_rest(&self, inbox: &dyn Inbox) -> Result<(), Refused> {
        if self.mover.next_try().is_some() {
            return self.count_inbox(inbox).await;
        }
        *self.mover.depth.lock() = InboxDepth::default();
        Ok(())
    }

    async fn count_inbox(&self, inbox: &dyn Inbox) -> Result<(), Refused> {
        let depth = self.watch(inbox.depth(COUNTED).await)?;
        *self.mover.depth.lock() = depth;
        if depth.rows == 0 {
            // Another server may have moved what was refused here.
            self.mover.blocked.lock().clear();
        }
        Ok(())
    }

    /// Move these rows.
    async fn move_lanes(
        self: &Arc<Self>,
        inbox: &dyn Inbox,
        lanes: Vec<InboxLane>,
    ) -> Result<Moved, Refused> {
        if self.keep_catalog_fresh() {
            Box::pin(self.catch_up_with_catalog()).await;
        }
        let oldest = lanes.iter().flat_map(|lane| &lane.rows).map(|row| row.written_at).min();
        let (mut bundles, mut rows) = (Vec::with_capacity(lanes.len()), Vec::with_capacity(lanes.len()));
        for lane in lanes {
            rows.push(lane.rows.iter().map(|row| row.id).collect::<Vec<u64>>());
            bundles.push(bundle(lane));
        }
        let routes = self.route(&bundles).await?;
        let (mut moving, mut cut) = (Vec::with_capacity(bundles.len()), 0);
        for ((bundle, rows), (queue, lane)) in bundles.into_iter().zip(rows).zip(routes) {
            let wanted = rows.len();
            if let Some(admitted) = self.admitted(bundle, rows, &queue, lane).await? {
                cut += u64::from(admitted.rows.len() < wanted);
                moving.push(admitted);
            }
        }
        if moving.is_empty() {
            return Ok(Moved::default());
        }
        let moved = self.store_taken(inbox, moving).await?;
        self.count_moved(moved, oldest);
        Ok(Moved { again: moved.again + cut, ..moved })
    }

    /// As many rows of a lane as its queue takes now, from the first; nothing if it takes none.
    async fn admitted(
        &self,
        mut bundle: Bundle,
        mut rows: Vec<u64>,
        queue: &Queue,
        lane: Arc<LaneState>,
    ) -> Result<Option<Moving>, Refused> {
        let room = loop {
            match self.check_room(queue, rows.len()).await {
                Err(Refused::Busy { .. }) if rows.len() > 1 => rows.truncate(rows.len() / 2),
                other => break other,
            }
        };
        bundle.messages.truncate(rows.len());
        match room.and_then(|()| self.seal(queue, &lane, &mut bundle.messages)) {
            Ok(()) => {
                self.mover.unblock(&queue.name);
                let name = (bundle.queue, bundle.partition);
                Ok(Some(Moving { name, rows, lane, messages: bundle.messages }))
            }
            Err(unavailable @ Refused::Unavailable(_)) => Err(unavailable),
            Err(refused) => {
                self.mover.block(&queue.name, &refused);
                Ok(None)
            }
        }
    }

    fn count_moved(&self, moved: Moved, oldest: Option<Timestamp>) {
        self.meters.inbox_stored.add(moved.stored);
        self.meters.inbox_duplicates.add(moved.duplicates);
        if moved.stored + moved.duplicates == 0 {
            return;
        }
        self.meters.stir();
        if let Some(oldest) = oldest {
            self.meters.inbox_delay.record(self.engine.now().latest.since(oldest));
        }
    }
}

fn bundle(lane: InboxLane) -> Bundle {
    let (queue, partition) = lane.name;
    let item = |transaction_id, payload| PushItem {
        queue: queue.clone(),
        partition: partition.clone(),
        transaction_id: Some(transaction_id),
        trace_id: None,
        producer_sub: None,
        context: None,
        payload,
    };
    let messages = lane.rows.into_iter().map(|row| message(item(row.transaction_id, row.payload))).collect();
    Bundle { queue, partition, positions: Vec::new(), messages }
}
