//! Appending: what waits in lanes, screened and stored by one call for all of them.
//!
//! A call that fails as a whole says nothing of its lanes: each may be stored, now or in a moment, or not. What is left of
//! it is tried again in halves (see [`super::split`]), and stays exact, because an append is conditional on the head or on
//! the fingerprints above it: of two tries of one segment the store takes the first that reaches it.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::oneshot;
use uuid::Uuid;

use bugle_store::{
    Append, AppendError, Appended, Guard, LaneCursor, Load, Message, NewSegment, Offset, QUEUE_MODE, Segment,
    TraceContext, uuid_v7,
};

use crate::api::{Pushed, Refused};
use crate::dedupe::Ids;
use crate::inner::Inner;
use crate::lanes::LaneState;
use crate::meters::WakeSource;
use crate::planted::{Bug, race};

use super::screen::Slot;
use super::split::{Splits, pinned};
use super::turn::{Turn, guarded};
use super::{PushFailure, PushJob};

/// Most message bytes in one segment; what waits beyond goes into the next.
const SEGMENT_BYTES: usize = 8 << 20;
/// Appends of one lane that may be refused in a row before its pushers are told to come back later.
const MAX_TRIES: u32 = 12;

/// The jobs of one lane that go out together.
pub(crate) struct Work {
    pub(crate) lane: Arc<LaneState>,
    /// The lane's turn to append; a transaction has none.
    turn: Option<Turn>,
    jobs: Vec<PushJob>,
    /// One per message over all jobs.
    pub(crate) slots: Vec<Slot>,
    pub(crate) ids: Ids,
    /// The body of what was prepared last, not compressed: it is remembered so.
    plain: Bytes,
    /// Dedupe window of the lane's queue; `None` = off.
    pub(super) window: Option<std::time::Duration>,
    /// Earlier tries of these very messages may have been stored, at any time: they are looked for by their message ids, and
    /// the append is never unconditional.
    pub(super) once: bool,
    /// Memory covered the lane up to here when it was screened.
    pub(super) screened: u64,
    /// Head on which an append was conditional whose outcome is not known, where nothing else tells.
    pub(super) unsure: Option<Offset>,
    pub(crate) tries: u32,
}

impl Work {
    fn take(turn: Turn, inner: &Inner) -> Self {
        let mut jobs = Vec::new();
        let lane = turn.lane().clone();
        {
            let mut state = lane.inner.lock();
            let mut bytes = 0;
            while bytes < SEGMENT_BYTES {
                let Some(job) = state.waiting.pop_front() else { break };
                bytes += job.messages.iter().map(Message::encoded_len).sum::<usize>();
                jobs.push(job);
            }
        }
        Self { turn: Some(turn), ..Self::new(lane, jobs, inner, 0) }
    }

    fn new(lane: Arc<LaneState>, jobs: Vec<PushJob>, inner: &Inner, tries: u32) -> Self {
        let seconds = inner.catalog.queue_by_id(lane.queue).map_or(3600, |q| q.options.dedup_window_seconds);
        let window = (seconds > 0).then(|| std::time::Duration::from_secs(seconds));
        let (slots, ids, plain) = (Vec::new(), Ids::default(), Bytes::new());
        let once = false;
        Self { lane, turn: None, jobs, slots, ids, plain, window, once, screened: 0, unsure: None, tries }
    }

    /// Work for messages that belong to no waiting request, as a transaction has them.
    pub(crate) fn alone(lane: Arc<LaneState>, messages: Vec<Message>, inner: &Inner, tries: u32) -> Self {
        let (reply, _) = oneshot::channel();
        Self::new(lane, vec![PushJob { messages, reply }], inner, tries)
    }

    /// Work for messages that were taken before, see [`super::once`].
    pub(super) fn once(lane: Arc<LaneState>, messages: Vec<Message>, inner: &Inner) -> Self {
        Self { once: true, ..Self::alone(lane, messages, inner, 0) }
    }

    /// Whether ids are looked for, and the append made conditional on what was seen.
    pub(super) fn screens(&self) -> bool {
        self.window.is_some() || self.once
    }

    /// All messages, in order.
    pub(crate) fn messages(&self) -> impl Iterator<Item = &Message> {
        self.jobs.iter().flat_map(|job| &job.messages)
    }

    /// Messages that belong to no trace belong to this one.
    pub(crate) fn carry(&mut self, context: &Arc<TraceContext>) {
        for message in self.jobs.iter_mut().flat_map(|job| &mut job.messages) {
            message.context.get_or_insert_with(|| context.clone());
        }
    }
}

impl Inner {
    /// Handler of the push intake: append what waits in these lanes.
    pub(crate) async fn append_lanes(self: Arc<Self>, lanes: Vec<Arc<LaneState>>) {
        let turns: Vec<Turn> = lanes.into_iter().map(Turn::new).collect();
        guarded(self.append_turns(turns)).await;
    }

    async fn append_turns(self: &Arc<Self>, turns: Vec<Turn>) {
        let mut splits = Splits::default();
        let mut groups: Vec<Vec<Work>> = vec![turns.into_iter().map(|turn| Work::take(turn, self)).collect()];
        while let Some(group) = groups.pop() {
            groups.extend(self.append_round(group, &mut splits).await);
        }
    }

    /// One append per lane; answers the lanes that must try again, those together that may go together.
    async fn append_round(self: &Arc<Self>, mut open: Vec<Work>, splits: &mut Splits) -> Vec<Vec<Work>> {
        let timeline = self.timeline();
        if let Err(refused) = self.catch_up(&mut open).await {
            return self.refuse_all(open, &refused);
        }
        open = self.drop_uncertain(open);
        if let Err(refused) = self.screen(&mut open).await {
            return self.refuse_all(open, &refused);
        }
        let (mut sending, mut batch, mut known) = (Vec::new(), Vec::new(), Vec::new());
        for mut work in open {
            match self.prepare(&mut work) {
                Some(append) => {
                    batch.push(pinned(append, &work));
                    sending.push(work);
                }
                None => known.push(work),
            }
        }
        let mut again = self.finish_known(known, timeline).await;
        if batch.is_empty() {
            return if again.is_empty() { Vec::new() } else { vec![again] };
        }
        let sent: Vec<(NewSegment, Ids, Offset)> =
            batch.iter().zip(&sending).map(|(a, w)| (a.segment.clone(), w.ids, a.known_head)).collect();
        let repeatable: Vec<bool> = batch.iter().zip(&sending).map(|(a, w)| w.repeatable(a.guard)).collect();
        let outcomes = match self.watch(self.change(timeline, self.engine.append(batch)).await) {
            Ok(outcomes) => outcomes,
            Err(refused) => {
                for (work, (_, _, head)) in sending.iter_mut().zip(&sent) {
                    work.lane.inner.lock().stale = true;
                    work.unsure = work.window.is_none().then_some(*head);
                }
                let mut groups = self.split(sending, repeatable, &refused, splits).await;
                groups.extend((!again.is_empty()).then_some(again));
                return groups;
            }
        };
        for ((mut work, outcome), (segment, ids, _)) in sending.into_iter().zip(outcomes).zip(sent) {
            match outcome {
                Ok(appended) => {
                    self.appended(&work, appended, &segment, ids, timeline);
                    self.finish(work);
                }
                Err(AppendError::Moved(lane)) => {
                    work.lane.correct(&lane, work.tries > 1);
                    self.lane_written(&work.lane, WakeSource::Local);
                    work.tries += 1;
                    if work.tries < MAX_TRIES {
                        again.push(work);
                    } else {
                        self.refuse(work, &self.busy("the partition is written to by too many servers"));
                    }
                }
                Err(AppendError::NoLane) => self.lane_gone(work),
            }
        }
        if again.is_empty() { Vec::new() } else { vec![again] }
    }

    /// Lanes that every message is already in. Where others write to the store too, memory cannot know that the lane was
    /// deleted meanwhile, and a duplicate of something deleted would be a lost message; so would be one of something that is not
    /// durable yet. Answers those of a timeline that was left, where nothing is known any more.
    async fn finish_known(self: &Arc<Self>, known: Vec<Work>, timeline: u64) -> Vec<Work> {
        for work in &known {
            self.meters.queues.of(work.lane.queue).push_requests.add(work.jobs.len() as u64);
        }
        if known.is_empty() || self.engine.exclusive() {
            known.into_iter().for_each(|work| self.finish(work));
            return Vec::new();
        }
        match self.lanes_of(&known.iter().collect::<Vec<_>>()).await {
            Ok(_) if self.engine.timeline() != timeline => return known,
            Ok(found) => {
                for (work, found) in known.into_iter().zip(found) {
                    if found.is_empty() { self.lane_gone(work) } else { self.finish(work) }
                }
            }
            Err(refused) => drop(self.refuse_all(known, &refused)),
        }
        Vec::new()
    }

    /// Lanes as they are now, when everything seen of them is durable.
    pub(super) async fn lanes_of(&self, works: &[&Work]) -> Result<Vec<Vec<LaneCursor>>, Refused> {
        self.watch(self.engine.flush().await)?;
        let batch = works.iter().map(|work| Load::Lane(work.lane.id, QUEUE_MODE.into())).collect();
        self.watch(self.engine.load(batch).await)
    }

    /// Load lanes whose head is uncertain, and read what others wrote where it is worth it.
    pub(crate) async fn catch_up(self: &Arc<Self>, open: &mut [Work]) -> Result<(), Refused> {
        let stale: Vec<usize> = (0..open.len()).filter(|i| open[*i].lane.inner.lock().stale).collect();
        if !stale.is_empty() {
            let batch = stale.iter().map(|i| Load::Lane(open[*i].lane.id, QUEUE_MODE.into())).collect();
            for (i, found) in stale.iter().zip(self.watch(self.engine.load(batch).await)?) {
                match found.first() {
                    // What an unanswered append has left behind is there for consumers too.
                    Some(found) if open[*i].lane.absorb(&found.lane) => self.lane_committed(&open[*i].lane),
                    Some(_) => (),
                    None => open[*i].lane.inner.lock().stale = false,
                }
            }
        }
        self.read_gaps(open).await
    }

    /// The append for one lane, or nothing if every message of it is a duplicate.
    pub(crate) fn prepare(&self, work: &mut Work) -> Option<Append> {
        let mut fresh: Vec<Message> = work
            .messages()
            .zip(&work.slots)
            .filter(|(_, s)| matches!(s, Slot::Fresh | Slot::Ask(_)))
            .map(|(m, _)| m.clone())
            .collect();
        if fresh.is_empty() {
            return None;
        }
        if fresh.len() > 1 && Bug::DroppedMessage.strikes() {
            fresh.pop();
        }
        if fresh.len() > 1 && Bug::ReorderedLane.strikes() {
            fresh.reverse();
        }
        work.ids = Ids::default();
        for id in fresh.iter().filter_map(|m| uuid_v7(&m.transaction_id)) {
            work.ids.add(id);
        }
        let mut segment = NewSegment::build(fastrand::u64(..), &fresh);
        work.plain = segment.body.clone();
        self.pack(work.lane.queue, &fresh, &mut segment);
        let inner = work.lane.inner.lock();
        // Screening looked at what was covered then; whatever came since is for the store to check.
        let known_head = work.screened;
        let guard = match work.screens() {
            false => Guard::Free,
            true if inner.contended || known_head != inner.lane.head => Guard::Fingerprints,
            true => Guard::Head,
        };
        Some(Append { lane: work.lane.id, known_head, guard, segment, now: self.engine.now().latest })
    }

    /// A segment is stored: remember it and wake consumers, before anybody is answered.
    pub(crate) fn appended(
        self: &Arc<Self>,
        work: &Work,
        appended: Appended,
        segment: &NewSegment,
        ids: Ids,
        timeline: u64,
    ) {
        let count = segment.count();
        if race("ring before the lane has grown") {
            self.lane_committed(&work.lane);
        }
        // Asked under the lane's lock, under which memory is emptied: nothing of a timeline that was left comes after.
        let counts = || self.engine.timeline() == timeline;
        {
            let mut inner = work.lane.inner.lock();
            if counts() {
                inner.grow(appended, segment);
                if work.screens() {
                    inner.recent.insert(appended.base, &segment.fingerprints, ids, appended.created_at);
                    self.bound_dedupe(&mut inner.recent);
                }
            }
        }
        let stored = Segment {
            base: appended.base,
            count,
            created_at: appended.created_at,
            id: segment.id,
            body: work.plain.clone(),
        };
        self.lanes.remember(&work.lane, stored, counts);
        if !race("ring before the lane has grown") {
            self.lane_committed(&work.lane);
        }
        self.meters.ingested.add(u64::from(count));
        let meter = self.meters.queues.of(work.lane.queue);
        meter.pushed.add(u64::from(count));
        if work.turn.is_some() {
            meter.push_requests.add(work.jobs.len() as u64);
        }
    }

    /// Answer a lane's jobs and start it again if more waits.
    fn finish(&self, work: Work) {
        let Work { turn, lane, jobs, slots, .. } = work;
        let mut ids: Vec<(Uuid, bool)> = Vec::with_capacity(slots.len());
        for (message, slot) in jobs.iter().flat_map(|j| &j.messages).zip(&slots) {
            ids.push(match slot {
                Slot::Fresh | Slot::Ask(_) => (message.id, false),
                // Its own id: an earlier try of this very push was stored although its outcome was not known.
                Slot::Known(original) => (*original, *original != message.id),
                Slot::SameAs(earlier) => (ids[*earlier].0, true),
            });
        }
        let mut ids = ids.into_iter();
        for job in jobs {
            let answer = job
                .messages
                .iter()
                .zip(ids.by_ref())
                .map(|(m, (message_id, duplicate))| Pushed {
                    transaction_id: m.transaction_id.clone(),
                    message_id,
                    lane: lane.id,
                    duplicate,
                    buffered: false,
                })
                .collect();
            let _ = job.reply.send(Ok(answer));
        }
        self.next_in_lane(turn);
    }

    fn next_in_lane(&self, turn: Option<Turn>) {
        if let Some(lane) = turn.and_then(Turn::end) {
            self.pushes().offer_urgent([lane]);
        }
    }

    pub(super) fn refuse_all(&self, open: Vec<Work>, refused: &Refused) -> Vec<Vec<Work>> {
        for work in open {
            self.refuse(work, refused);
        }
        Vec::new()
    }

    pub(super) fn refuse(&self, work: Work, refused: &Refused) {
        for job in work.jobs {
            let _ = job.reply.send(Err(PushFailure::Refused(refused.clone())));
        }
        self.next_in_lane(work.turn);
    }

    fn lane_gone(self: &Arc<Self>, work: Work) {
        self.lanes.forget(work.lane.id);
        let mut jobs = work.jobs;
        // Whoever still holds this lane and pushes to it later must be told the same.
        jobs.extend(work.turn.into_iter().flat_map(Turn::end_all));
        for job in jobs {
            let _ = job.reply.send(Err(PushFailure::Gone(job.messages)));
        }
        self.stale_catalog();
    }
}
