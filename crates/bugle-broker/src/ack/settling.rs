//! Settling: the calls that wait at cursors, computed in order and stored by one exchange per cursor.

use std::sync::Arc;

use uuid::Uuid;

use bugle_store::{
    Cursor, DeadLetter, Group, Load, Message, Queue, Swap, SwapError, Timestamp, TraceContext,
};

use crate::api::{Acked, Refused};
use crate::inner::Inner;
use crate::lanes::LaneState;
use crate::meters::WakeSource;
use crate::planted::Bug;
use crate::semantics::settle::{self, AckIn, Dead, Verdict};
use crate::waiting::{Channel, Place};

use super::locate::{self, Located};
use super::{AckCall, MAX_TRIES, SettleKey};

/// One cursor being settled.
pub(crate) struct Settling {
    pub(crate) channel: Arc<Channel>,
    pub(crate) lane: Arc<LaneState>,
    pub(crate) queue: Option<Arc<Queue>>,
    pub(crate) calls: Vec<AckCall>,
    pub(crate) cursor: Option<Cursor>,
    /// The cursor is from memory, and others may have exchanged it since.
    pub(crate) remembered: bool,
    pub(crate) tries: u32,
}

impl Inner {
    /// Handler of the settle intake.
    pub(crate) async fn settle_batch(self: Arc<Self>, keys: Vec<SettleKey>) {
        let timeline = self.timeline();
        let mut open = Vec::with_capacity(keys.len());
        for (channel, lane) in keys {
            let mut state = channel.state.lock();
            let Some(entry) = state.entries.get_mut(&lane) else { continue };
            let calls = std::mem::take(&mut entry.acks);
            let (lane, cursor) = (entry.lane.clone(), entry.cursor.clone());
            drop(state);
            let queue = self.catalog.queue_by_id(channel.queue);
            let remembered = cursor.is_some() && !self.engine.exclusive();
            open.push(Settling { channel, lane, queue, calls, cursor, remembered, tries: 0 });
        }
        while !open.is_empty() {
            open = match self.settle_round(&mut open, timeline).await {
                Ok(again) => again,
                Err(refused) => {
                    for settling in open {
                        self.refuse_settling(settling, &refused);
                    }
                    return;
                }
            };
        }
    }

    /// One exchange per cursor; answers those that lost it. On error `open` still holds every unanswered one.
    async fn settle_round(
        self: &Arc<Self>,
        open: &mut Vec<Settling>,
        timeline: u64,
    ) -> Result<Vec<Settling>, Refused> {
        self.load_cursors(open).await?;
        let located = self.locate(open.iter().map(Settling::sought).collect()).await?;
        let mut swaps = Vec::new();
        let mut outcomes = Vec::with_capacity(open.len());
        for (settling, located) in open.iter().zip(&located) {
            let mut outcome = self.compute(settling, located);
            if settling.remembered && outcome.needs_proof() {
                outcome.swap = None;
            }
            if let Some(swap) = &outcome.swap {
                swaps.push(swap.clone());
            }
            outcomes.push(outcome);
        }
        let swapped = match swaps.is_empty() {
            true => Vec::new(),
            false => self.watch(self.change(timeline, self.engine.swap(swaps)).await)?,
        };
        let mut stored = swapped.into_iter();
        let mut again = Vec::new();
        for (mut settling, outcome) in std::mem::take(open).into_iter().zip(outcomes) {
            if settling.remembered && outcome.needs_proof() {
                // Nobody is refused on the word of memory, nor told that there is nothing to do.
                (settling.cursor, settling.remembered) = (None, false);
                again.push(settling);
                continue;
            }
            let result = outcome.swap.as_ref().and_then(|_| stored.next()).transpose();
            match result {
                Ok(_) => self.settled(settling, outcome),
                Err(SwapError::Moved(row)) if settling.tries < MAX_TRIES => {
                    (settling.cursor, settling.remembered) = (row, false);
                    settling.tries += 1;
                    again.push(settling);
                }
                Err(SwapError::Moved(_)) => {
                    let busy = self.busy("the partition's cursor is changed by too many");
                    self.refuse_settling(settling, &busy);
                }
                Err(SwapError::NoLane) => {
                    self.lanes.forget(settling.lane.id);
                    self.refuse_settling(settling, &Refused::NotFound("the partition was deleted".into()));
                }
            }
        }
        Ok(again)
    }

    pub(crate) async fn load_cursors(self: &Arc<Self>, open: &mut [Settling]) -> Result<(), Refused> {
        let unknown: Vec<usize> = (0..open.len()).filter(|i| open[*i].cursor.is_none()).collect();
        if unknown.is_empty() {
            return Ok(());
        }
        let loads =
            unknown.iter().map(|i| Load::Lane(open[*i].lane.id, open[*i].channel.group.clone())).collect();
        let found = self.watch(self.engine.load(loads).await)?;
        for (i, found) in unknown.into_iter().zip(found) {
            if let Some(found) = found.into_iter().next() {
                if open[i].lane.absorb(&found.lane) {
                    self.lane_written(&open[i].lane, WakeSource::Local);
                }
                open[i].cursor = found.cursor;
            }
        }
        Ok(())
    }

    /// What the calls of one cursor do to it, one after the other.
    pub(crate) fn compute(&self, settling: &Settling, located: &Located) -> Computed {
        let now = self.engine.now();
        let Some(cursor) = &settling.cursor else {
            let answers = settling.calls.iter().map(|call| not_a_consumer(call.items.len())).collect();
            return Computed { swap: None, next: None, answers, stale: false };
        };
        let options = settling.queue.as_ref().map(|q| q.options.clone()).unwrap_or_default();
        let head = settling.lane.bounds().0.max(located.head());
        let (mut next, mut dead, mut answers) = (cursor.clone(), Vec::new(), Vec::new());
        let (mut changed, mut stale) = (false, false);
        for call in &settling.calls {
            let acks: Vec<AckIn<'_>> = call
                .items
                .iter()
                .map(|item| AckIn {
                    offset: located.offset(&item.transaction_id),
                    status: item.status,
                    error: item.error.as_deref(),
                })
                .collect();
            // Who names no lease is not asked whose it is.
            let lease = call.lease.filter(|_| !Bug::StaleAck.is_chosen());
            let settled = settle::settle(&next, lease, &acks, head, &options, now);
            stale |= settled.stale;
            let contexts = acks.iter().map(|ack| located.context(ack.offset));
            answers.push(self.answer(settling, &settled, contexts));
            dead.extend(settled.dead);
            if let Some(after) = settled.next {
                next = after;
                changed = true;
            }
        }
        if !changed {
            return Computed { swap: None, next: None, answers, stale };
        }
        next.epoch = cursor.epoch + 1;
        if next.committed > cursor.committed && Bug::ResurrectedAck.strikes() {
            next.committed -= 1;
        }
        if next.committed > cursor.committed && head > next.committed && Bug::SkippedLateCommit.strikes() {
            next.committed = head;
        }
        let dead = self.buried(
            settling.queue.as_deref(),
            &settling.lane,
            &settling.channel.group,
            dead,
            located,
            now.latest,
        );
        let swap = Swap {
            lane: settling.lane.id,
            group: settling.channel.group.clone(),
            expect: cursor.epoch,
            next: next.clone(),
            read: None,
            dead,
        };
        Computed { swap: Some(swap), next: Some(next), answers, stale }
    }

    fn answer(
        &self,
        settling: &Settling,
        settled: &settle::Settled,
        contexts: impl Iterator<Item = Option<Arc<TraceContext>>>,
    ) -> Vec<Acked> {
        let queue = settling.queue.as_ref().map(|q| q.name.clone());
        settled
            .verdicts
            .iter()
            .zip(contexts)
            .map(|(verdict, context)| {
                let acked = verdict_to_acked(verdict);
                Acked {
                    queue: queue.clone(),
                    partition: Some(settling.lane.name.clone()),
                    lease_released: acked.success && settled.released,
                    context,
                    ..acked
                }
            })
            .collect()
    }

    /// The exchange happened: remember it, free the lane if it did, answer, go on with what came meanwhile.
    fn settled(self: &Arc<Self>, settling: Settling, outcome: Computed) {
        let Settling { channel, lane, calls, cursor, .. } = settling;
        let acked = outcome.acked();
        if let Some(next) = outcome.next {
            self.consumed(cursor.as_ref(), &next);
            self.cursor_changed(&channel, &lane, next);
        }
        let dead = outcome.swap.as_ref().map_or(0, |swap| swap.dead.len());
        if dead > 0 {
            self.count_dead(channel.queue, dead as u64);
        }
        let meter = self.meters.queues.of(channel.queue);
        meter.acked.add(acked);
        meter.ack_requests.add(calls.len() as u64);
        let failed = outcome.answers.iter().flatten().filter(|acked| !acked.success).count();
        if failed > 0 {
            meter.ack_failed.add(failed as u64);
        }
        for (call, answer) in calls.into_iter().zip(outcome.answers) {
            let _ = call.reply.send(Ok(answer));
        }
        self.next_settlement(&channel, &lane);
    }

    /// A cursor was exchanged for `next`: count what the group is done with by that.
    pub(crate) fn consumed(&self, cursor: Option<&Cursor>, next: &Cursor) {
        let before = cursor.map_or(0, |cursor| cursor.consumed);
        self.meters.processed.add(next.consumed.saturating_sub(before));
    }

    fn refuse_settling(self: &Arc<Self>, settling: Settling, refused: &Refused) {
        let blocked = {
            let mut state = settling.channel.state.lock();
            let entry = state.entry(&settling.lane);
            entry.cursor = None;
            matches!(entry.place, Place::Leased | Place::Later | Place::Idle)
        };
        if blocked {
            // The lane may have been freed after all: the next claim loads the truth.
            self.ring(&settling.channel, settling.lane.id, WakeSource::Local);
        }
        for call in settling.calls {
            let _ = call.reply.send(Err(refused.clone()));
        }
        self.next_settlement(&settling.channel, &settling.lane);
    }

    fn next_settlement(self: &Arc<Self>, channel: &Arc<Channel>, lane: &Arc<LaneState>) {
        let more = {
            let mut state = channel.state.lock();
            let entry = state.entry(lane);
            entry.settling = !entry.acks.is_empty();
            entry.settling
        };
        if more {
            self.settles().offer_urgent([(channel.clone(), lane.id)]);
        }
    }
}

/// What one settlement would store and answer.
pub(crate) struct Computed {
    pub(crate) swap: Option<Swap>,
    pub(crate) next: Option<Cursor>,
    pub(crate) answers: Vec<Vec<Acked>>,
    /// Some of it is, see [`settle::Settled::stale`].
    pub(crate) stale: bool,
}

impl Computed {
    /// Messages that it settles.
    pub(crate) fn acked(&self) -> u64 {
        self.answers.iter().flatten().filter(|acked| acked.success && !acked.noop).count() as u64
    }

    /// Whether an exchange would not show that the cursor it was computed from is the stored one.
    fn needs_proof(&self) -> bool {
        self.swap.is_none() || self.answers.iter().flatten().any(|acked| !acked.success)
    }
}

impl Settling {
    pub(crate) fn sought(&self) -> locate::Sought {
        let ids = self.calls.iter().flat_map(|c| &c.items).map(|i| i.transaction_id.clone()).collect();
        locate::Sought { lane: self.lane.clone(), cursor: self.cursor.clone(), ids }
    }
}

fn not_a_consumer(count: usize) -> Vec<Acked> {
    vec![Acked { error: Some("consumer not found".into()), ..Acked::default() }; count]
}

/// The protocol's words for a verdict.
pub(crate) fn verdict_to_acked(verdict: &Verdict) -> Acked {
    match verdict {
        Verdict::Done => Acked { success: true, ..Acked::default() },
        Verdict::Noop => Acked { success: true, noop: true, ..Acked::default() },
        Verdict::DeadLettered => Acked { success: true, dlq: true, ..Acked::default() },
        Verdict::Rejected(reason) => Acked { error: Some(reason.clone()), ..Acked::default() },
    }
}

impl Inner {
    /// Dead letters with their copies of the messages.
    fn buried(
        &self,
        queue: Option<&Queue>,
        lane: &LaneState,
        group: &Group,
        dead: Vec<Dead>,
        located: &Located,
        now: Timestamp,
    ) -> Vec<DeadLetter> {
        dead.into_iter()
            .filter_map(|dead| {
                let (message, created_at): &(Message, Timestamp) = located.message(dead.offset)?;
                Some(DeadLetter {
                    id: Uuid::now_v7(),
                    queue: queue.map_or(lane.queue, |q| q.id),
                    lane: lane.id,
                    partition: lane.name.clone(),
                    group: group.clone(),
                    offset: dead.offset,
                    message: self.keyring.copy(message, lane.id.0.as_bytes()),
                    transaction_id: message.transaction().to_owned(),
                    error: dead.error,
                    attempts: dead.attempts,
                    created_at: *created_at,
                    failed_at: now,
                })
            })
            .collect()
    }
}
