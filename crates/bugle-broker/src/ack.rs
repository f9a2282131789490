//! Acknowledgements: from transaction ids to one exchange per cursor.
//!
//! Acks of one request are grouped by (lane, group) into calls. Each cursor has one settlement in flight; calls that
//! arrive meanwhile wait at the cursor and are settled in order, all in one exchange: one commit, whether it
//! acknowledges one message or ten thousand. The rules are in [`crate::semantics::settle`].

mod locate;
mod renew;
mod settling;

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::oneshot;
use uuid::Uuid;

use bugle_store::{Cursor, Group, LaneId};

use crate::api::{AckItem, Acked, LeaseToken, Refused};
use crate::inner::Inner;
use crate::lanes::LaneState;
use crate::meters::WakeSource;
use crate::news::News;
use crate::semantics::lease;
use crate::waiting::{Channel, Place};

pub(crate) use locate::Sought;
pub(crate) use settling::{Computed, Settling};

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
            None => match self.load_one(lane, group).await? {
                Some(found) => self.learn_lane(&found.lane, WakeSource::Local),
                None => return Ok(Err("unresolvable: no such partition")),
            },
        };
        if self.catalog.group(lane.queue, group).is_none() {
            self.refresh_catalog().await;
        }
        let Some(channel) = self.channel(lane.queue, group) else {
            return Ok(Err("consumer not found"));
        };
        Ok(Ok((channel, lane)))
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

    /// A cursor was exchanged by something other than a claim: find its lane's place.
    pub(crate) fn cursor_changed(
        self: &Arc<Self>,
        channel: &Arc<Channel>,
        lane: &Arc<LaneState>,
        next: Cursor,
    ) {
        let free = lease::free_at(&next, self.engine.now());
        let mut state = channel.state.lock();
        if state.closed {
            // Those who wait now do so at its successor.
            drop(state);
            if let Some(successor) = self.channels.get(channel.queue, &channel.group) {
                self.cursor_changed(&successor, lane, next);
            }
            return;
        }
        let entry = state.entry(lane);
        // Looked at under the lock: a push that comes now finds the lane's new place.
        let more = lane.bounds().0 > next.committed;
        if entry.cursor.as_ref().is_some_and(|known| known.epoch > next.epoch) {
            return;
        }
        entry.cursor = Some(next);
        if more {
            let (queue, lane, group) = (channel.queue, lane.id, channel.group.clone());
            self.tell(News::Moved { queue, lane, group });
        }
        if matches!(entry.place, Place::Claiming | Place::Ring) {
            return;
        }
        match free {
            Ok(()) => {
                entry.place = Place::Idle;
                self.timers.clear(&(channel.no, lane.id));
                drop(state);
                if more {
                    self.ring(channel, lane.id, WakeSource::Local);
                }
            }
            Err(at) => {
                entry.place = Place::Leased;
                drop(state);
                self.wake_at(channel, lane.id, at);
            }
        }
    }
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
