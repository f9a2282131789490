//! Claiming: one exchange of cursors for all plans of a pass, and where each lane goes after it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use uuid::Uuid;

use bugle_store::{Cursor, DeadLetter, LaneId, Span, Swap, SwapError, Swapped, Timestamp, lease_id};

use crate::api::Refused;
use crate::inner::Inner;
use crate::meters::WakeSource;
use crate::semantics::lease;
use crate::waiting::{Channel, Place};

use super::deliver::Cut;
use super::plan::Plan;
use super::serve::Open;

/// Claims of one lane with unknown outcomes that are remembered.
const MAX_ORPHANS: usize = 8;

impl Inner {
    /// Exchange the cursors of all plans in one call and hand out what was won.
    pub(super) async fn claim(
        self: &Arc<Self>,
        open: &mut [Open],
        plans: Vec<Plan>,
        timeline: u64,
    ) -> Result<(), Refused> {
        if plans.is_empty() {
            return Ok(());
        }
        let leases = self.leases_for(open, &plans);
        let swap = |plan: &Plan| {
            let (id, until) = leases[&plan.job];
            self.swap_for(&open[plan.job], plan, id, until)
        };
        let swaps: Vec<Swap> = plans.iter().map(swap).collect();
        let meters = &self.meters;
        meters.claim_calls.one();
        meters.claim_jobs.add(leases.len() as u64);
        meters.claim_lanes.add(plans.len() as u64);
        let nexts: Vec<Cursor> = swaps.iter().map(|s| s.next.clone()).collect();
        let began = Instant::now();
        // A call for a timeline that was left is not made, and so nothing of it is in doubt.
        let made = self.engine.timeline() == timeline;
        let answered = self.watch(self.change(timeline, self.engine.swap(swaps)).await);
        let (lease, began) = (began.elapsed(), Instant::now());
        let outcomes = match answered {
            Ok(outcomes) => outcomes,
            Err(refused) => {
                for plan in &plans {
                    self.unknown(plan, leases.get(&plan.job).map(|(id, _)| *id));
                    open[plan.job].in_doubt |= made && open[plan.job].job.request.auto_ack;
                }
                self.recover();
                return Err(refused);
            }
        };
        let cuts = self.take_outcomes(open, plans, nexts, outcomes, &leases);
        open.iter().for_each(|job| self.remember_lease(job));
        self.cut(cuts, timeline).await;
        for job in open.iter_mut() {
            job.answer.phases.lease += lease;
            job.answer.phases.messages += began.elapsed();
        }
        Ok(())
    }

    /// What became of each plan; answers the claims that cover more than was sent.
    fn take_outcomes(
        self: &Arc<Self>,
        open: &mut [Open],
        plans: Vec<Plan>,
        nexts: Vec<Cursor>,
        outcomes: Vec<Result<Swapped, SwapError>>,
        leases: &HashMap<usize, (Uuid, Timestamp)>,
    ) -> Vec<Cut> {
        let mut cuts = Vec::new();
        let before = open.iter().filter(|o| !o.answer.lanes.is_empty()).count();
        let now = self.engine.now().latest;
        for ((plan, next), outcome) in plans.into_iter().zip(nexts).zip(outcomes) {
            match outcome {
                Ok(Swapped { segments }) => {
                    let held = leases.get(&plan.job).copied();
                    if plan.queue.options.keeps_dead_letters() && plan.from > plan.expired_from {
                        self.count_dead(plan.queue.id, plan.from - plan.expired_from);
                    }
                    cuts.extend(self.won(&mut open[plan.job], plan, next, segments, held, now));
                }
                Err(SwapError::Moved(row)) => {
                    open[plan.job].lost += 1;
                    self.meters.claims_lost.one();
                    self.lost(&plan, row);
                }
                Err(SwapError::NoLane) => {
                    self.lanes.forget(plan.lane.id);
                    plan.channel.state.lock().entries.remove(&plan.lane.id);
                }
            }
        }
        let served = open.iter().filter(|o| !o.answer.lanes.is_empty()).count() - before;
        self.meters.claim_served.add(served as u64);
        if served == 0 {
            self.meters.claims_empty.one();
        }
        cuts
    }

    /// Where a store does not find several lanes by their lease at once.
    fn remember_lease(&self, open: &Open) {
        if let Some(lease) =
            open.answer.lease_id.filter(|_| open.claimed.len() > 1 && !self.engine.exclusive())
        {
            let place = |(channel, lane): &(Arc<Channel>, LaneId)| (*lane, channel.group.clone());
            self.held.insert(lease, open.claimed.iter().map(place).collect());
        }
    }

    /// A lease for each job, over all lanes that are planned for it.
    fn leases_for(&self, open: &[Open], plans: &[Plan]) -> HashMap<usize, (Uuid, Timestamp)> {
        let mut leases: HashMap<usize, (Uuid, Timestamp)> = HashMap::with_capacity(plans.len());
        let mut lanes = vec![0_usize; open.len()];
        plans.iter().for_each(|plan| lanes[plan.job] += 1);
        for plan in plans {
            let alone = lanes[plan.job] == 1;
            leases.entry(plan.job).or_insert_with(|| self.lease_for(&open[plan.job], plan, alone));
        }
        leases
    }

    fn lease_for(&self, open: &Open, plan: &Plan, alone: bool) -> (Uuid, Timestamp) {
        let asked = open.job.request.lease_seconds.filter(|s| *s > 0);
        let seconds = asked.unwrap_or(match plan.queue.options.lease_time {
            0 => 60,
            seconds => seconds,
        });
        let now = self.engine.now().latest;
        (lease_id(now, alone.then_some(plan.lane.id)), now.plus(std::time::Duration::from_secs(seconds)))
    }

    pub(super) fn swap_for(&self, open: &Open, plan: &Plan, lease: Uuid, until: Timestamp) -> Swap {
        let cursor = plan.cursor.as_ref().expect("resolved before the claim");
        let now = self.engine.now();
        let claim = if open.job.request.auto_ack || plan.from == plan.to {
            lease::deliver_and_commit(cursor, plan.from, plan.to, now)
        } else {
            lease::claim(cursor, plan.from, plan.to, lease, until, now)
        };
        let cached = plan.segments.is_some() || plan.lane.cached(plan.from, plan.to).is_some();
        self.meters.claims_cached.add(u64::from(cached));
        let read = (!cached).then_some(Span { from: plan.from, to: plan.to, max_bytes: open.bytes });
        let dead = self.expired(plan);
        Swap {
            lane: plan.lane.id,
            group: plan.channel.group.clone(),
            expect: cursor.epoch,
            next: claim.next,
            read,
            dead,
        }
    }

    /// Dead letters for what expired in front of a claim.
    pub(super) fn expired(&self, plan: &Plan) -> Vec<DeadLetter> {
        if plan.from == plan.expired_from || !plan.queue.options.keeps_dead_letters() {
            return Vec::new();
        }
        let now = self.engine.now().latest;
        let segments = plan.segments.as_deref().unwrap_or_default();
        super::deliver::messages_in(&self.opened, plan.lane.id, segments, plan.expired_from, plan.from)
            .map(|popped| DeadLetter {
                id: Uuid::now_v7(),
                queue: plan.queue.id,
                lane: plan.lane.id,
                partition: plan.lane.name.clone(),
                group: plan.channel.group.clone(),
                offset: popped.offset,
                transaction_id: popped.message.transaction().to_owned(),
                message: self.keyring.copy(&popped.message, plan.lane.id.0.as_bytes()),
                error: "expired: older than the queue's ttl".into(),
                attempts: plan.cursor.as_ref().map_or(0, |c| c.attempts),
                created_at: popped.created_at,
                failed_at: now,
            })
            .collect()
    }

    /// Somebody else changed the cursor: take over theirs.
    pub(super) fn lost(self: &Arc<Self>, plan: &Plan, row: Option<Cursor>) {
        let free = row.as_ref().map_or(Ok(()), |c| lease::free_at(c, self.engine.now()));
        // A row that is gone, or from before, is believed: only what came after this plan and after the row is better.
        let epoch_of = |cursor: &Option<Cursor>| cursor.as_ref().map_or(0, |c| c.epoch);
        let epoch = epoch_of(&row).max(epoch_of(&plan.cursor));
        {
            let mut state = plan.channel.state.lock();
            let entry = state.entry(&plan.lane);
            if !entry.knows_better(epoch) {
                entry.cursor = row;
            }
        }
        match free {
            Ok(()) => {
                if self.put(plan, Place::Idle, epoch) {
                    self.ring(&plan.channel, plan.lane.id, WakeSource::Local);
                }
            }
            Err(at) => {
                if self.put(plan, Place::Leased, epoch) {
                    self.wake_at(&plan.channel, plan.lane.id, at);
                }
            }
        }
    }

    /// The outcome of an exchange is not known: the cursor must be loaded before the next one.
    pub(super) fn unknown(&self, plan: &Plan, lease: Option<Uuid>) {
        let mut state = plan.channel.state.lock();
        let entry = state.entry(&plan.lane);
        entry.cursor = None;
        // If the claim did happen nobody holds its lease: whoever comes next may take it over.
        if entry.orphans.len() < MAX_ORPHANS {
            entry.orphans.extend(lease);
        }
        // Nobody is woken: recovery dispatches everybody once the store is back.
        state.put_in_ring(plan.lane.id);
    }

    /// A claim ends without the lane, because of a cursor of this epoch: put the lane where it belongs. `false` = the cursor
    /// was exchanged meanwhile, by somebody who left the lane's place to this claim, so that theirs decides.
    pub(super) fn put(self: &Arc<Self>, plan: &Plan, place: Place, epoch: u64) -> bool {
        let mut state = plan.channel.state.lock();
        let entry = state.entry(&plan.lane);
        if entry.place == Place::Claiming {
            if entry.knows_better(epoch) {
                drop(state);
                self.claim_overtaken(plan);
                return false;
            }
            entry.place = place;
        }
        if entry.cursor.is_none() {
            entry.cursor = plan.cursor.clone().filter(|c| c.epoch > 0);
        }
        true
    }

    /// The cursor was exchanged while a claim was under way that has come to nothing: do for it what was left to the claim.
    pub(super) fn claim_overtaken(self: &Arc<Self>, plan: &Plan) {
        let newer = {
            let mut state = plan.channel.state.lock();
            let entry = state.entry(&plan.lane);
            entry.place = Place::Idle;
            entry.cursor.clone()
        };
        match newer {
            Some(newer) => self.cursor_changed(&plan.channel, &plan.lane, newer),
            None => self.ring(&plan.channel, plan.lane.id, WakeSource::Local),
        }
    }
}
