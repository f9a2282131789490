//! Acknowledgements: from transaction ids to one exchange per cursor.
//!
//! Acks of one request are grouped by (lane, group) into calls. Each cursor has one settlement in flight; calls that
//! arrive meanwhile wait at the cursor and are settled in order, all in one exchange: one commit, whether it
//! acknowledges one message or ten thousand. The rules are in [`crate::semantics::settle`].

mod locate;

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::oneshot;
use uuid::Uuid;

use bugle_store::{Cursor, DeadLetter, Group, LaneId, Load, Message, Queue, Swap, SwapError, Timestamp};

use crate::api::{AckItem, Acked, LeaseToken, Refused, Renewed};
use crate::inner::Inner;
use crate::lanes::LaneState;
use crate::semantics::lease;
use crate::semantics::settle::{self, AckIn, Dead, Verdict};
use crate::waiting::{Channel, Place};

pub(crate) use locate::Located;

/// Exchanges of one cursor that may be lost in a row.
const MAX_TRIES: u32 = 16;

/// Acks of one request for one cursor.
pub(crate) struct AckCall {
    pub(crate) items: Vec<AckItem>,
    pub(crate) lease: Option<LeaseToken>,
    pub(crate) reply: oneshot::Sender<Result<Vec<Acked>, Refused>>,
}

/// A cursor with calls waiting.
pub(crate) type SettleKey = (Arc<Channel>, LaneId);

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
    /// See [`crate::Broker::ack`].
    pub(crate) async fn ack(self: &Arc<Self>, items: Vec<AckItem>) -> Result<Vec<Acked>, Refused> {
        let mut answers: Vec<Acked> = vec![Acked::default(); items.len()];
        let mut waiting = Vec::new();
        for (positions, items, lane, lease) in group_by_cursor(items, &mut answers) {
            let group = items[0].group.clone();
            match self.cursor_home(lane, &group).await? {
                Ok((channel, lane)) => {
                    let (reply, answer) = oneshot::channel();
                    self.enqueue_acks(&channel, &lane, AckCall { items, lease, reply })?;
                    waiting.push((positions, answer));
                }
                Err(reason) => {
                    for position in positions {
                        answers[position].error = Some(reason.into());
                    }
                }
            }
        }
        let mut failed = None;
        for (positions, answer) in waiting {
            match answer.await.unwrap_or_else(|_| Err(Refused::Unavailable("the ack was interrupted".into())))
            {
                Ok(acked) => {
                    for (position, acked) in positions.into_iter().zip(acked) {
                        answers[position] = acked;
                    }
                }
                Err(refused) => failed = Some(refused),
            }
        }
        failed.map_or(Ok(answers), Err)
    }

    /// The lane and the channel of its group; the inner error is the protocol's answer.
    pub(crate) async fn cursor_home(
        self: &Arc<Self>,
        lane: LaneId,
        group: &Group,
    ) -> Result<Result<(Arc<Channel>, Arc<LaneState>), &'static str>, Refused> {
        let lane = match self.lanes.get(lane) {
            Some(lane) => lane,
            None => {
                let load = vec![Load::Lane(lane, group.clone())];
                let found = self.watch(self.engine.load(load).await)?.pop().unwrap_or_default();
                match found.into_iter().next() {
                    Some(found) => self.learn_lane(&found.lane),
                    None => return Ok(Err("unresolvable: no such partition")),
                }
            }
        };
        if self.catalog.group(lane.queue, group).is_none() {
            self.refresh_catalog().await;
        }
        let Some(record) = self.catalog.group(lane.queue, group) else {
            return Ok(Err("consumer not found"));
        };
        Ok(Ok((self.channels.get_or_make(&record), lane)))
    }

    fn enqueue_acks(
        self: &Arc<Self>,
        channel: &Arc<Channel>,
        lane: &Arc<LaneState>,
        call: AckCall,
    ) -> Result<(), Refused> {
        let start = {
            let mut state = channel.state.lock();
            let entry = state.entry(lane);
            if entry.acks.len() >= self.config.max_queued {
                return Err(self.busy("too many acknowledgements wait for this partition"));
            }
            entry.acks.push(call);
            !std::mem::replace(&mut entry.settling, true)
        };
        if start && self.settles().offer((channel.clone(), lane.id)).is_err() {
            let mut state = channel.state.lock();
            let entry = state.entry(lane);
            entry.settling = false;
            for call in std::mem::take(&mut entry.acks) {
                let _ = call.reply.send(Err(self.busy("too many acknowledgements wait")));
            }
        }
        Ok(())
    }

    /// Handler of the settle intake.
    pub(crate) async fn settle_batch(self: Arc<Self>, keys: Vec<SettleKey>) {
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
            open = match self.settle_round(&mut open).await {
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
    async fn settle_round(self: &Arc<Self>, open: &mut Vec<Settling>) -> Result<Vec<Settling>, Refused> {
        self.load_cursors(open).await?;
        let located = self.locate(open.iter().map(Settling::sought).collect()).await?;
        let mut swaps = Vec::new();
        let mut outcomes = Vec::with_capacity(open.len());
        for (settling, located) in open.iter().zip(&located) {
            let mut outcome = self.compute(settling, located);
            if settling.remembered && outcome.refuses() {
                outcome.swap = None;
            }
            if let Some(swap) = &outcome.swap {
                swaps.push(swap.clone());
            }
            outcomes.push(outcome);
        }
        let mut stored =
            if swaps.is_empty() { Vec::new() } else { self.watch(self.engine.swap(swaps).await)? }
                .into_iter();
        let mut again = Vec::new();
        for (mut settling, outcome) in std::mem::take(open).into_iter().zip(outcomes) {
            if settling.remembered && outcome.refuses() {
                // Nobody is refused on the word of memory.
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
                self.learn_lane(&found.lane);
                open[i].lane.absorb(&found.lane);
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
            return Computed { swap: None, next: None, answers };
        };
        let options = settling.queue.as_ref().map(|q| q.options.clone()).unwrap_or_default();
        let head = settling.lane.bounds().0.max(located.head());
        let (mut next, mut dead, mut answers) = (cursor.clone(), Vec::new(), Vec::new());
        let mut changed = false;
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
            let settled = settle::settle(&next, call.lease, &acks, head, &options, now);
            answers.push(self.answer(settling, &settled));
            dead.extend(settled.dead);
            if let Some(after) = settled.next {
                next = after;
                changed = true;
            }
        }
        if !changed {
            return Computed { swap: None, next: None, answers };
        }
        next.epoch = cursor.epoch + 1;
        let dead = dead_letters(
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
        Computed { swap: Some(swap), next: Some(next), answers }
    }

    fn answer(&self, settling: &Settling, settled: &settle::Settled) -> Vec<Acked> {
        let queue = settling.queue.as_ref().map(|q| q.name.clone());
        settled
            .verdicts
            .iter()
            .map(|verdict| {
                let base = Acked {
                    queue: queue.clone(),
                    partition: Some(settling.lane.name.clone()),
                    lease_released: Some(settled.released),
                    ..verdict_to_acked(verdict)
                };
                if base.success { base } else { Acked { lease_released: None, ..base } }
            })
            .collect()
    }

    /// The exchange happened: remember it, free the lane if it did, answer, go on with what came meanwhile.
    fn settled(self: &Arc<Self>, settling: Settling, outcome: Computed) {
        let Settling { channel, lane, calls, .. } = settling;
        if let Some(next) = outcome.next {
            self.cursor_changed(&channel, &lane, next);
        }
        for (call, answer) in calls.into_iter().zip(outcome.answers) {
            let _ = call.reply.send(Ok(answer));
        }
        self.next_settlement(&channel, &lane);
    }

    /// A cursor was exchanged by something other than a claim: find its lane's place.
    pub(crate) fn cursor_changed(
        self: &Arc<Self>,
        channel: &Arc<Channel>,
        lane: &Arc<LaneState>,
        next: Cursor,
    ) {
        let free = lease::free_at(&next, self.engine.now());
        let mut state = channel.state.lock();
        let entry = state.entry(lane);
        // Looked at under the lock: a push that comes now finds the lane's new place.
        let more = lane.bounds().0 > next.committed;
        if entry.cursor.as_ref().is_some_and(|known| known.epoch > next.epoch) {
            return;
        }
        entry.cursor = Some(next);
        if matches!(entry.place, Place::Claiming | Place::Ring) {
            return;
        }
        match free {
            Ok(()) => {
                entry.place = Place::Idle;
                self.timers.clear(&(channel.no, lane.id));
                drop(state);
                if more {
                    self.ring(channel, lane.id);
                }
            }
            Err(at) => {
                entry.place = Place::Leased;
                drop(state);
                self.wake_at(channel, lane.id, at);
            }
        }
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
            self.ring(&settling.channel, settling.lane.id);
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

    /// See [`crate::Broker::renew`].
    pub(crate) async fn renew(self: &Arc<Self>, token: LeaseToken, seconds: u64) -> Result<Renewed, Refused> {
        let gone = |error| Ok(Renewed { renewed: 0, expires_at: None, error: Some(error) });
        let LeaseToken::Id(id) = token else { return gone("Lease not found") };
        for _ in 0..MAX_TRIES {
            let held = self.watch(self.engine.load(vec![Load::Lease(id)]).await)?.pop().unwrap_or_default();
            if held.is_empty() {
                return gone("Lease not found");
            }
            let now = self.engine.now();
            let (mut swaps, mut homes) = (Vec::new(), Vec::new());
            for found in held {
                let Some(cursor) = found.cursor else { continue };
                let Some(next) = lease::renew(&cursor, id, seconds, now) else { continue };
                swaps.push(crate::pop::plain_swap(found.lane.id, &found.group, &cursor, next.clone()));
                let channel = self.channels.get(found.lane.queue, &found.group);
                homes.push((channel, self.learn_lane(&found.lane), next));
            }
            if swaps.is_empty() {
                return gone("Lease already expired");
            }
            let outcomes = self.watch(self.engine.swap(swaps).await)?;
            let all = outcomes.iter().all(Result::is_ok);
            let mut ends: Vec<Timestamp> = Vec::new();
            for ((channel, lane, next), outcome) in homes.into_iter().zip(outcomes) {
                if outcome.is_ok() {
                    ends.extend(next.lease.map(|l| l.until));
                    if let Some(channel) = channel {
                        self.cursor_changed(&channel, &lane, next);
                    }
                }
            }
            if all {
                return Ok(Renewed { renewed: ends.len(), expires_at: ends.into_iter().min(), error: None });
            }
        }
        Err(self.busy("the lease is changed by too many"))
    }
}

/// What one settlement would store and answer.
pub(crate) struct Computed {
    pub(crate) swap: Option<Swap>,
    pub(crate) next: Option<Cursor>,
    pub(crate) answers: Vec<Vec<Acked>>,
}

impl Computed {
    fn refuses(&self) -> bool {
        self.answers.iter().flatten().any(|acked| !acked.success)
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

/// Dead letters with their copies of the messages.
pub(crate) fn dead_letters(
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
                message: message.to_bytes(),
                transaction_id: message.transaction().to_owned(),
                error: dead.error,
                attempts: dead.attempts,
                created_at: *created_at,
                failed_at: now,
            })
        })
        .collect()
}

pub(crate) type CursorCall = (Vec<usize>, Vec<AckItem>, LaneId, Option<LeaseToken>);

/// Group a request's acks by lane, group and lease, keeping their order and positions. Acks that name no lane are
/// answered at once.
pub(crate) fn group_by_cursor(items: Vec<AckItem>, answers: &mut [Acked]) -> Vec<CursorCall> {
    let mut calls: Vec<CursorCall> = Vec::new();
    let mut index: HashMap<(LaneId, Group, Option<Uuid>, bool), usize> = HashMap::new();
    for (position, item) in items.into_iter().enumerate() {
        let Some(lane) = item.lane else {
            answers[position].error = Some("unresolvable: partitionId is not a partition's id".into());
            continue;
        };
        let (id, garbage) = match item.lease {
            Some(LeaseToken::Id(id)) => (Some(id), false),
            Some(LeaseToken::Garbage) => (None, true),
            None => (None, false),
        };
        let slot = *index.entry((lane, item.group.clone(), id, garbage)).or_insert_with(|| {
            calls.push((Vec::new(), Vec::new(), lane, item.lease));
            calls.len() - 1
        });
        calls[slot].0.push(position);
        calls[slot].1.push(item);
    }
    calls
}
