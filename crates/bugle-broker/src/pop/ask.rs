//! Asking the store: lanes and cursors that memory does not know, in batches for all jobs of a pass.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::OwnedMutexGuard;
use tokio::time::timeout;

use bugle_store::{Cursor, LaneCursor, LaneId, Load, Position, Probe, Queue, Timestamp};

use crate::api::{PopTarget, Refused};
use crate::floor::LOOK_BACK;
use crate::inner::Inner;
use crate::meters::WakeSource;
use crate::semantics::{lease, subscribe};
use crate::waiting::{Channel, Place, Walk};

use super::plan::Plan;
use super::serve::Open;

/// Lanes reported by one probe.
const PROBE_LIMIT: usize = 10_000;
/// Blocked lanes looked at again by one probe.
const RECHECK: usize = 1000;
/// How long to wait for somebody else's walk before one looks at what he has found, and how often: after that he is taken to be stuck.
const TURN: Duration = Duration::from_millis(100);
const TURNS: usize = 20;

/// A question to the store about all lanes of a channel, page by page.
struct Asking {
    channel: Arc<Channel>,
    probe: Probe,
    /// Since when all is known once it was answered.
    began: Timestamp,
    /// It goes on with a walk that was cut short.
    resumed: bool,
    /// How often everything was forgotten before it began.
    forgotten: u64,
}

impl Inner {
    /// Whether asking the store could tell this job something.
    pub(super) fn should_ask(&self, open: &Open) -> bool {
        let direct = matches!(open.job.request.target, PopTarget::Lane { .. });
        // A walk that was cut short goes on for whoever finds nothing, until it has ended.
        let unknown = |channel: &Channel| !channel.state.lock().knows_all();
        if !direct && open.channels.iter().any(|(_, channel)| unknown(channel)) {
            return true;
        }
        if open.job.asked || (self.engine.exclusive() && !direct) {
            return false;
        }
        // Who waits where all is quiet parks without asking; who does not wait always asks.
        let Some(period) = self.period().filter(|_| open.job.deadline.is_some()) else { return true };
        !open.channels.iter().all(|(queue, channel)| {
            let lane = named_lane(&open.job.request.target, queue);
            channel.state.lock().is_quiet(lane, period)
        })
    }

    /// Ask for all `jobs` together and put what is ready into the rings.
    pub(super) async fn ask(self: &Arc<Self>, jobs: &mut [Open]) -> Result<(), Refused> {
        let (mut loads, mut load_for, mut told_of) = (Vec::new(), Vec::new(), Vec::new());
        let mut probe_for: Vec<Arc<Channel>> = Vec::new();
        let period = self.period();
        self.mover.asked();
        for open in jobs.iter_mut() {
            open.job.asked = true;
            for (queue, channel) in &open.channels {
                if let Some(lane) = named_lane(&open.job.request.target, queue) {
                    loads.push(Load::Lane(lane, channel.group.clone()));
                    load_for.push((channel.clone(), lane));
                } else if let Some(told) = told(open, channel, period) {
                    told_of.push(channel.clone());
                    loads.extend(told.iter().map(|lane| Load::Lane(*lane, channel.group.clone())));
                    load_for.extend(told.into_iter().map(|lane| (channel.clone(), lane)));
                } else if !probe_for.iter().any(|c| c.no == channel.no) {
                    probe_for.push(channel.clone());
                }
            }
        }
        if !loads.is_empty() {
            let found = self
                .watch(self.engine.load(loads).await)
                .inspect_err(|_| self.not_looked_at(told_of.iter()))?;
            for ((channel, lane), found) in load_for.iter().zip(found) {
                for found in found {
                    self.learn_cursor(channel, found, WakeSource::Local);
                }
                channel.state.lock().quiet.asked(Some(*lane), period);
            }
        }
        if !probe_for.is_empty() {
            let left_out = self.probe(probe_for, period).await?;
            let is_left_out = |open: &Open| open.channels.iter().any(|(_, c)| left_out.contains(&c.no));
            jobs.iter_mut().filter(|open| is_left_out(open)).for_each(|open| open.job.asked = false);
        }
        Ok(())
    }

    /// Answers the numbers of channels it did not ask about, because somebody else has found something there.
    async fn probe(
        self: &Arc<Self>,
        mut channels: Vec<Arc<Channel>>,
        period: Option<u64>,
    ) -> Result<Vec<u64>, Refused> {
        let (_turns, left_out) = turns(&mut channels).await;
        let now = self.engine.now().earliest;
        let mut open: Vec<Asking> = channels.into_iter().map(|c| self.first_probe(c, now)).collect();
        while !open.is_empty() {
            let batch = open.iter().map(|asking| asking.probe.clone()).collect();
            let answers = self.watch(self.engine.probe(batch).await)?;
            let mut again = Vec::new();
            for (mut asking, answer) in open.into_iter().zip(answers) {
                let (channel, began) = (asking.channel.clone(), asking.began);
                let rest = answer.lanes.last().filter(|_| answer.more).map(|l| Walk { began, at: l.lane.id });
                for found in fair_order(answer.lanes) {
                    self.learn_cursor(&channel, found, WakeSource::Local);
                }
                if !self.probed(&asking, rest, period) {
                    asking.probe.after = rest.map(|walk| walk.at);
                    again.push(asking);
                } else if rest.is_none() && asking.resumed && !self.engine.exclusive() {
                    // The end of a walk that began earlier: others may have written behind it.
                    again.push(self.first_probe(channel, now));
                }
            }
            open = again;
        }
        Ok(left_out)
    }

    /// What to ask for. A walk that was cut short goes on where it was: from the beginning it would pass what was read since again
    /// each time, and lanes at its end would wait for all others.
    fn first_probe(&self, channel: Arc<Channel>, now: Timestamp) -> Asking {
        let (since, recheck, walk, forgotten) = {
            let state = channel.state.lock();
            let known = state.knows_all();
            let since = known.then(|| state.watermark.min(now).minus(LOOK_BACK));
            let recheck = if known { state.blocked(RECHECK) } else { Vec::new() };
            (since, recheck, state.overflow, state.forgotten)
        };
        let probe = Probe {
            queue: channel.queue,
            group: channel.group.clone(),
            since,
            recheck,
            after: walk.map(|walk| walk.at),
            limit: PROBE_LIMIT.min(self.config.max_cached_lanes),
        };
        let began = walk.map_or(now, |walk| walk.began);
        Asking { channel, probe, began, resumed: walk.is_some(), forgotten }
    }

    /// A page of a probe was taken over, and there is more to walk if there is a `rest`. `false` = walk it now.
    fn probed(&self, asking: &Asking, rest: Option<Walk>, period: Option<u64>) -> bool {
        let mut state = asking.channel.state.lock();
        // The pages before are forgotten: whoever finds nothing begins anew.
        if state.forgotten != asking.forgotten {
            return true;
        }
        let most = self.config.max_cached_lanes;
        // Nobody needs to write for what was read to be forgotten.
        state.shrink(most);
        // Nor is it cut short before it has found something: lanes that others hold are none of it.
        let goes_on = rest.is_some() && (state.entries.len() < most || state.front().is_none());
        if !goes_on || asking.probe.since.is_none() {
            // Should another one have to go on with a walk, he need not begin anew.
            state.overflow = rest;
        }
        if goes_on {
            return false;
        }
        state.seeded = true;
        if rest.is_none() {
            state.watermark = state.watermark.max(asking.began);
        }
        state.quiet.asked(None, period);
        true
    }

    /// Take over a lane and cursor as the store has them, and find the lane's place. `true` = it is ready now and was
    /// not before.
    pub(crate) fn learn_cursor(
        self: &Arc<Self>,
        channel: &Arc<Channel>,
        found: LaneCursor,
        source: WakeSource,
    ) -> bool {
        let lane = self.learn_lane(&found.lane, source);
        let now = self.engine.now();
        let mut state = channel.state.lock();
        let entry = state.entry(&lane);
        if entry.place == Place::Claiming {
            return false;
        }
        // An epoch below the one known here is an old answer, or another incarnation of the lane: ask before claiming.
        let stored = found.cursor.as_ref().map_or(0, |c| c.epoch);
        let newer = entry.cursor.as_ref().is_none_or(|known| known.epoch <= stored);
        entry.cursor = found.cursor.filter(|_| newer);
        let (head, tail) = lane.bounds();
        let committed = entry.cursor.as_ref().map_or(tail, |c| c.committed.max(tail));
        if head <= committed {
            if entry.place != Place::Ring {
                entry.place = Place::Idle;
            }
            return false;
        }
        match entry.cursor.as_ref().map_or(Ok(()), |c| lease::free_at(c, now)) {
            Ok(()) if matches!(entry.place, Place::Idle | Place::Leased) => {
                drop(state);
                self.ring(channel, lane.id, source);
                true
            }
            Ok(()) => false,
            Err(at) => {
                entry.place = Place::Leased;
                drop(state);
                self.wake_at(channel, lane.id, at);
                false
            }
        }
    }

    /// Load the cursors that plans lack; a group's first contact with a lane starts where it subscribed.
    pub(super) async fn resolve(self: &Arc<Self>, plans: &mut [Plan]) -> Result<(), Refused> {
        let unknown: Vec<usize> = (0..plans.len()).filter(|i| plans[*i].cursor.is_none()).collect();
        if unknown.is_empty() {
            return Ok(());
        }
        let batch =
            unknown.iter().map(|i| Load::Lane(plans[*i].lane.id, plans[*i].channel.group.clone())).collect();
        let found = self.watch(self.engine.load(batch).await)?;
        let (mut positions, mut position_for) = (Vec::new(), Vec::new());
        for (i, found) in unknown.into_iter().zip(found) {
            let plan = &mut plans[i];
            // A lane that is gone yields a fresh cursor; the exchange will say so.
            let Some(found) = found.into_iter().next() else {
                plan.cursor = Some(Cursor::fresh(0));
                continue;
            };
            if plan.lane.absorb(&found.lane) {
                self.lane_written(&plan.lane, WakeSource::Local);
            }
            plan.cursor = plan.without_orphan(found.cursor);
            if plan.cursor.is_some() {
                continue;
            }
            match subscribe::begins_after(plan.channel.record.start, &found.lane) {
                Some(at) => {
                    positions.push(Position { lane: plan.lane.id, at });
                    position_for.push(i);
                }
                None => plan.cursor = Some(Cursor::fresh(found.lane.tail)),
            }
        }
        if !positions.is_empty() {
            let offsets = self.watch(self.engine.position(positions).await)?;
            for (i, offset) in position_for.into_iter().zip(offsets) {
                plans[i].cursor = Some(Cursor::fresh(offset));
            }
        }
        Ok(())
    }
}

/// Lanes to look at where hints have told all that happened since somebody asked, for who waits: what he would have been told had he been
/// waiting already. Asking for all would cost what was written in the last minute.
fn told(open: &Open, channel: &Channel, period: Option<u64>) -> Option<Vec<LaneId>> {
    let period = period.filter(|_| open.job.deadline.is_some())?;
    channel.state.lock().take_told(period)
}

/// Take turns in walking over all lanes: others would read the same pages, and pass by what was read meanwhile. With a million lanes most of
/// what the database did was that. Channels in which somebody else has found something are taken out and their numbers answered.
async fn turns(channels: &mut Vec<Arc<Channel>>) -> (Vec<OwnedMutexGuard<()>>, Vec<u64>) {
    let (mut turns, mut ready) = (Vec::new(), Vec::new());
    // Somebody else may walk over several too: all take their turns in one order.
    channels.sort_unstable_by_key(|channel| channel.no);
    for channel in channels.iter() {
        for _ in 0..TURNS {
            if channel.state.lock().knows_all() {
                break;
            }
            let turn = timeout(TURN, channel.walk.clone().lock_owned()).await;
            if channel.state.lock().front().is_some() {
                ready.push(channel.no);
                break;
            }
            if let Ok(turn) = turn {
                turns.push(turn);
                break;
            }
        }
    }
    channels.retain(|channel| !ready.contains(&channel.no));
    (turns, ready)
}

/// The lane a pop names, if it names one.
pub(super) fn named_lane(target: &PopTarget, queue: &Queue) -> Option<LaneId> {
    match target {
        PopTarget::Lane { partition, .. } => Some(LaneId::derive(queue.id, partition)),
        _ => None,
    }
}

/// Least recently served first; among equals in an order of this server's own, so that servers do not race for the
/// same lanes.
fn fair_order(mut lanes: Vec<LaneCursor>) -> Vec<LaneCursor> {
    fastrand::shuffle(&mut lanes);
    lanes.sort_by_key(|found| found.cursor.as_ref().map_or(Timestamp::ZERO, |c| c.served_at));
    lanes
}
