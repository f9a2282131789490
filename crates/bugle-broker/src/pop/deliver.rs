//! Delivery: from won cursors to an answer, within its bound in bytes.

use std::sync::Arc;

use uuid::Uuid;

use bugle_store::{Cursor, Group, LaneId, Malformed, Message, Offset, Read, Segment, Swap, Timestamp};

use crate::api::{Popped, PoppedLane};
use crate::inner::Inner;
use crate::meters::WakeSource;
use crate::opened::Opened;
use crate::planted::Bug;
use crate::semantics::lease;
use crate::waiting::{Channel, Place};

use super::plan::{MESSAGE_OVERHEAD, Plan};
use super::serve::Open;

/// Pause before a lane whose messages could not be read is tried again.
pub(super) const UNREADABLE_PAUSE: std::time::Duration = std::time::Duration::from_secs(1);

/// A claim that covers more than was sent.
pub(super) struct Cut {
    channel: Arc<Channel>,
    lane: Arc<crate::lanes::LaneState>,
    cursor: Cursor,
    next: Cursor,
}

impl Inner {
    /// A cursor was won: put its messages into the answer. Answers what must be corrected if not all of them fit.
    pub(super) fn won(
        self: &Arc<Self>,
        open: &mut Open,
        mut plan: Plan,
        next: Cursor,
        read: Vec<Segment>,
        lease: Option<(Uuid, Timestamp)>,
        now: Timestamp,
    ) -> Option<Cut> {
        let segments = segments_of(&mut plan, read);
        let (messages, end) = self.fill(open, &plan, &segments);
        let leased = next.lease.is_some();
        self.settle_place(&plan, &next);
        let cut = next.lease.filter(|_| end < plan.to).and_then(|held| {
            let shorter = lease::shrink(&next, held.id, end)?;
            Some(Cut {
                channel: plan.channel.clone(),
                lane: plan.lane.clone(),
                cursor: next.clone(),
                next: shorter,
            })
        });
        if let Some(oldest) = messages.first() {
            let meter = self.meters.queues.of(plan.queue.id);
            meter.delivered(messages.len(), oldest.created_at, now);
            if leased {
                (open.answer.lease_id, open.answer.lease_expires_at) = lease.unzip();
                open.claimed.push((plan.channel.clone(), plan.lane.id));
            } else {
                meter.auto_acked.add(messages.len() as u64);
                self.meters.processed.add(messages.len() as u64);
            }
            open.messages = open.messages.saturating_sub(messages.len() as u64);
            open.answer.lanes.push(PoppedLane {
                queue: plan.queue.name.clone(),
                partition: plan.lane.name.clone(),
                lane: plan.lane.id,
                delivery_attempt: plan.cursor.as_ref().map_or(1, |cursor| lease::attempt(cursor, plan.from)),
                messages,
            });
        }
        cut
    }

    /// Messages that fit into the answer, and where they end.
    fn fill(&self, open: &mut Open, plan: &Plan, segments: &[Segment]) -> (Vec<Popped>, Offset) {
        let mut out = Vec::with_capacity((plan.to - plan.from) as usize);
        let mut end = plan.from;
        for mut popped in messages_in(&self.opened, plan.lane.id, segments, plan.from, plan.to) {
            let size = popped.message.payload.len() + MESSAGE_OVERHEAD;
            let first = out.is_empty() && open.answer.lanes.is_empty();
            if size > open.bytes && !first && !open.job.request.auto_ack {
                break;
            }
            open.bytes = open.bytes.saturating_sub(size);
            end = popped.offset + 1;
            self.open_payload(plan.lane.id, &mut popped.message);
            out.push(popped);
        }
        (out, end)
    }

    /// Decrypt a message for delivery; one that cannot be decrypted says so instead of its payload.
    pub(crate) fn open_payload(&self, lane: LaneId, message: &mut Message) {
        if !message.encrypted {
            return;
        }
        match self.keyring.decrypt(&message.payload, lane.0.as_bytes()) {
            Ok(plain) => {
                message.payload = plain.into();
                message.encrypted = false;
            }
            Err(error) => {
                tracing::warn!(%error, message = %message.id, "payload cannot be decrypted");
                let text = serde_json::json!({ "encrypted": true, "error": error.to_string() });
                message.payload = text.to_string().into();
            }
        }
    }

    /// Where a lane goes after its cursor was exchanged.
    fn settle_place(self: &Arc<Self>, plan: &Plan, next: &Cursor) {
        let mut state = plan.channel.state.lock();
        let entry = state.entry(&plan.lane);
        entry.orphans.clear();
        if entry.knows_better(next.epoch) {
            // Sought, or taken over, before this answer was here.
            drop(state);
            return self.claim_overtaken(plan);
        }
        entry.cursor = Some(next.clone());
        if let Some(lease) = next.lease {
            entry.place = Place::Leased;
            drop(state);
            self.wake_at(&plan.channel, plan.lane.id, lease.until.plus(std::time::Duration::from_millis(2)));
            if Bug::DuplicateLease.is_chosen() {
                self.ring(&plan.channel, plan.lane.id, WakeSource::Local);
            }
            return;
        }
        entry.place = Place::Idle;
        if plan.lane.bounds().0 > next.committed {
            drop(state);
            self.ring(&plan.channel, plan.lane.id, WakeSource::Local);
        }
    }

    /// Store corrections, before anybody is answered. One that fails leaves a lease that covers too much; it ends by
    /// expiry or acknowledgement like any other.
    pub(super) async fn cut(self: &Arc<Self>, cuts: Vec<Cut>, timeline: u64) {
        if cuts.is_empty() {
            return;
        }
        let swaps =
            cuts.iter().map(|c| plain_swap(c.lane.id, &c.channel.group, &c.cursor, c.next.clone())).collect();
        let swapped = self.change(timeline, self.engine.swap(swaps)).await;
        let Ok(outcomes) = self.watch(swapped) else { return };
        for (cut, outcome) in cuts.into_iter().zip(outcomes) {
            let free = {
                let mut state = cut.channel.state.lock();
                let entry = state.entry(&cut.lane);
                entry.cursor = outcome.is_ok().then_some(cut.next.clone());
                cut.next.lease.is_none() && entry.place != Place::Ring
            };
            if free {
                self.after_nothing(&cut).await;
            }
        }
    }

    /// A claim delivered nothing: its messages were trimmed, so learn the tail, or they cannot be read, so do not try
    /// again at once.
    async fn after_nothing(self: &Arc<Self>, cut: &Cut) {
        if let Ok(Some(found)) = self.load_one(cut.lane.id, &cut.channel.group).await {
            cut.lane.absorb(&found.lane);
        }
        let (head, tail) = cut.lane.bounds();
        if tail > cut.next.committed {
            self.ring(&cut.channel, cut.lane.id, WakeSource::Local);
        } else if head > cut.next.committed {
            self.meters.store_errors.one();
            cut.channel.state.lock().entry(&cut.lane).place = Place::Later;
            self.wake_at(&cut.channel, cut.lane.id, self.engine.now().latest.plus(UNREADABLE_PAUSE));
        }
    }

    /// The client went away: free what was claimed for it, without counting a delivery.
    pub(crate) fn give_back(self: &Arc<Self>, claimed: Vec<(Arc<Channel>, LaneId)>, lease: Uuid) {
        let inner = self.clone();
        tokio::spawn(async move {
            let timeline = inner.timeline();
            let mut swaps = Vec::new();
            let mut which = Vec::new();
            for (channel, lane) in claimed {
                let known = channel.state.lock().entries.get(&lane).and_then(|e| e.cursor.clone());
                let cursor = match known {
                    Some(cursor) => Some(cursor),
                    // Forgotten, for an old answer of the store: the lease is there all the same.
                    None => inner.load_one(lane, &channel.group).await.ok().flatten().and_then(|f| f.cursor),
                };
                let Some(cursor) = cursor else { continue };
                let Some(next) = lease::give_back(&cursor, lease) else { continue };
                swaps.push(plain_swap(lane, &channel.group, &cursor, next.clone()));
                which.push((channel, lane, next));
            }
            if swaps.is_empty() {
                return;
            }
            let swapped = inner.change(timeline, inner.engine.swap(swaps)).await;
            let Ok(outcomes) = inner.watch(swapped) else { return };
            for ((channel, lane, next), outcome) in which.into_iter().zip(outcomes) {
                if outcome.is_ok()
                    && let Some(lane) = inner.lanes.get(lane)
                {
                    inner.cursor_changed(&channel, &lane, next);
                }
            }
        });
    }

    /// The segments of `from..to`, from memory or the store.
    pub(crate) async fn segments(
        &self,
        wanted: Vec<(Arc<crate::lanes::LaneState>, Offset, Offset)>,
    ) -> Result<Vec<Vec<Segment>>, crate::api::Refused> {
        let mut found: Vec<Option<Vec<Segment>>> =
            wanted.iter().map(|(l, from, to)| l.cached(*from, *to)).collect();
        let missing: Vec<usize> = (0..found.len()).filter(|i| found[*i].is_none()).collect();
        if !missing.is_empty() {
            let reads = missing
                .iter()
                .map(|i| &wanted[*i])
                .map(|(lane, from, to)| Read { lane: lane.id, from: *from, to: *to, max_bytes: usize::MAX })
                .collect();
            for (i, segments) in missing.into_iter().zip(self.watch(self.engine.read(reads).await)?) {
                found[i] = Some(segments);
            }
        }
        Ok(found.into_iter().map(Option::unwrap_or_default).collect())
    }
}

/// An exchange that neither reads nor buries.
pub(crate) fn plain_swap(lane: LaneId, group: &Group, cursor: &Cursor, next: Cursor) -> Swap {
    let group = group.clone();
    Swap { lane, group, expect: cursor.epoch, next, read: None, dead: Vec::new() }
}

/// Messages of `from..to` in order, up to the first segment that cannot be decoded: who went on behind it would pass it by.
///
/// Each is opened when its turn comes: whoever stops early has not decompressed the rest.
pub(super) fn messages_in(
    opened: &Opened,
    lane: LaneId,
    segments: &[Segment],
    from: Offset,
    to: Offset,
) -> impl Iterator<Item = Popped> {
    let decoded = segments.iter().map_while(move |segment| {
        let messages = opened.open(lane, segment).and_then(|segment| segment.between(from, to));
        let report = |error: &Malformed| {
            tracing::error!(%error, base = segment.base, "segment cannot be decoded");
        };
        Some((segment, messages.inspect_err(report).ok()?))
    });
    decoded.flat_map(move |(segment, messages)| {
        let (first, created_at) = (segment.base.max(from), segment.created_at);
        (first..).zip(messages).map(move |(offset, message)| Popped { offset, created_at, message })
    })
}

/// The segments a plan delivers from: looked at before, remembered, or read with the exchange.
fn segments_of(plan: &mut Plan, read: Vec<Segment>) -> Vec<Segment> {
    plan.segments.take().or_else(|| plan.lane.cached(plan.from, plan.to)).unwrap_or(read)
}
