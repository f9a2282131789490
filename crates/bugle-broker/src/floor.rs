//! The floor under all hints: one look into the store for all waiting pops together, so that a hint that was lost, or
//! never sent, costs time and nothing else.
//!
//! It runs only where others write to the store too, and only while somebody waits or pushes are in maintenance. Its interval is [`Pace`]'s. One call
//! tells which lanes were written since the last one, how the lanes are that were held or hidden, and whether queues
//! changed. That is also the check whether anything is pending before anybody claims.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use bugle_store::{LaneId, Survey, Surveyed, Timestamp};

use crate::atomic::AtomicBool;
use crate::config::FloorConfig;
use crate::inner::Inner;
use crate::meters::WakeSource;
use crate::waiting::{Channel, Pace};

/// How far a look goes back before the last one: longer than any transaction may take, since a stamp is given before the
/// commit.
pub(crate) const LOOK_BACK: Duration = Duration::from_secs(60);
/// Written lanes reported by one look; if there are more, everybody asks for himself.
const MAX_WRITTEN: usize = 10_000;
/// Held or hidden lanes looked at again by one look.
const MAX_RECHECK: usize = 2_000;
/// A look that would have to go back further than this is replaced by everybody asking.
const MAX_SPAN: Duration = Duration::from_secs(300);
/// Up to this many keys claim without a look first, while the interval is short.
const FEW_KEYS: usize = 64;

/// The floor's state.
pub(crate) struct Floor {
    pace: Mutex<Pace>,
    /// Store time of the last look that was answered.
    since: Mutex<Timestamp>,
    now: AtomicBool,
    nudge: Notify,
}

impl Floor {
    pub(crate) fn new(config: FloorConfig, now: Timestamp) -> Self {
        Self {
            pace: Mutex::new(Pace::new(config)),
            since: Mutex::new(now),
            now: AtomicBool::new(false),
            nudge: Notify::new(),
        }
    }

    /// Nothing is known of what was written: the next look is for everything.
    pub(crate) fn start_over(&self) {
        *self.since.lock() = Timestamp::ZERO;
    }

    /// Hints may have been missed: look at once.
    pub(crate) fn look_now(&self) {
        self.now.store(true, Ordering::Release);
        self.changed();
    }

    /// Somebody began to wait, or carriers came or went: the interval is another.
    pub(crate) fn changed(&self) {
        self.pace.lock().reset();
        self.nudge.notify_one();
    }

    /// A pop that the floor has dispatched got messages.
    pub(crate) fn found(&self) {
        self.pace.lock().looked(true);
    }

    pub(crate) fn interval(&self, hearing: bool) -> Duration {
        self.pace.lock().interval(hearing)
    }
}

impl Inner {
    /// Background task.
    pub(crate) async fn run_floor(self: Arc<Self>) {
        if self.engine.exclusive() {
            return;
        }
        let mut last = Instant::now();
        loop {
            let nudged = self.floor.nudge.notified();
            // Whoever has messages in the spool waits too: for the end of maintenance.
            let waits = self.waiters.load(Ordering::Acquire) > 0 || self.board.detours();
            if waits && self.floor.now.swap(false, Ordering::AcqRel) {
                last = Instant::now();
                self.look_for_all().await;
                continue;
            }
            let next = last + self.floor.interval(self.hears());
            tokio::select! {
                () = sleep_until(next), if waits => {
                    last = Instant::now();
                    self.look_for_all().await;
                }
                () = nudged => (),
                () = self.stop.cancelled() => return,
            }
        }
    }

    /// One look for everybody who waits.
    async fn look_for_all(self: &Arc<Self>) {
        let config = &self.config.floor;
        let began = self.engine.now().earliest;
        let since = *self.floor.since.lock();
        let interval = self.floor.interval(self.hears());
        let keys = self.channels.keys();
        let few = interval < config.pending_check_from && keys <= FEW_KEYS;
        if !config.pending_check || few || began.since(since) > MAX_SPAN {
            if self.keep_catalog_fresh() {
                self.stale_catalog();
            }
            *self.floor.since.lock() = began;
            self.floor.pace.lock().looked(false);
            self.mover.asked();
            return self.ask_for_all();
        }
        let period = self.period();
        let wanted = self.channels.wanted();
        let recheck = rechecks(&wanted);
        self.meters.surveys.one();
        self.meters.pending_checks.add(keys as u64);
        let survey = Survey {
            since: since.minus(LOOK_BACK),
            recheck,
            limit: MAX_WRITTEN,
            announce: self.bell.take_ping(),
        };
        match self.watch(self.engine.survey(survey).await) {
            Ok(surveyed) => {
                *self.floor.since.lock() = began;
                if self.surveyed(surveyed, &wanted) {
                    // Known as of now, whatever was missed before.
                    wanted.iter().for_each(|channel| channel.state.lock().quiet.confirm(period));
                }
            }
            Err(_) => {
                // No answer is no reason to let anybody sleep.
                self.meters.survey_errors.one();
                self.meters.pending_hits.add(keys as u64);
                self.recover();
            }
        }
    }

    /// Follow what a look has found. `false` = it was too much, so that everybody asks for himself.
    fn surveyed(self: &Arc<Self>, surveyed: Surveyed, wanted: &[Arc<Channel>]) -> bool {
        if surveyed.catalog != self.catalog.version() {
            self.stale_catalog();
        }
        self.catalog.looked();
        if surveyed.inbox {
            self.mover.look_now();
        } else {
            self.mover.found_empty();
        }
        if surveyed.more {
            self.ask_for_all();
            return false;
        }
        let mut looks = Vec::new();
        for written in surveyed.written {
            let head = self.lanes.get(written.id).map(|lane| lane.bounds().0);
            let known = |channel: &Arc<Channel>| {
                head.is_some_and(|head| head >= written.head) && channel.state.lock().knows(written.id)
            };
            let channels = self.channels.of_queue(written.queue);
            if channels.is_empty() || !channels.iter().all(known) {
                self.heard_written(written.queue, written.id, WakeSource::Floor, &mut looks);
            }
        }
        let mut hit: HashSet<u64> = looks.iter().map(|look| look.channel.no).collect();
        for found in surveyed.rechecked {
            let Some(channel) = self.channels.get(found.lane.queue, &found.group) else { continue };
            if self.learn_cursor(&channel, found, WakeSource::Floor) {
                hit.insert(channel.no);
            }
        }
        self.count_checks(wanted, &hit);
        self.floor.pace.lock().looked(!hit.is_empty());
        self.looks().offer_urgent(looks);
        true
    }

    /// Each key that is waited for was checked: a hit, if its channel is in `hit`, or a miss.
    fn count_checks(&self, wanted: &[Arc<Channel>], hit: &HashSet<u64>) {
        let (mut hits, mut keys) = (0, 0);
        for channel in wanted {
            let mut state = channel.state.lock();
            let all = state.keys();
            keys += all;
            if hit.contains(&channel.no) {
                hits += all;
                state.empty_checks = 0;
            } else {
                state.empty_checks = state.empty_checks.saturating_add(1);
            }
        }
        self.meters.pending_hits.add(hits as u64);
        self.meters.pending_misses.add((keys - hits) as u64);
    }

    /// Everybody who waits asks for himself, once.
    pub(crate) fn ask_for_all(self: &Arc<Self>) {
        self.channels.all().iter().for_each(|channel| channel.state.lock().quiet.doubt());
        self.ask_again(self.channels.unpark_all(), WakeSource::Floor);
    }
}

/// Held or hidden lanes of channels somebody waits at.
fn rechecks(wanted: &[Arc<Channel>]) -> Vec<(LaneId, bugle_store::Group)> {
    let mut recheck = Vec::new();
    for channel in wanted {
        let room = MAX_RECHECK - recheck.len();
        if room == 0 {
            break;
        }
        let blocked = channel.state.lock().blocked(room);
        recheck.extend(blocked.into_iter().map(|lane| (lane, channel.group.clone())));
    }
    recheck
}
