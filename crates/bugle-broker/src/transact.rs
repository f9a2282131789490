//! Transactions: pushes and acknowledgements in one atomic commit.
//!
//! The same screening and the same settlement rules as for single requests compute the changes; the store makes all of
//! them or none. A change that was overtaken is computed again, a bounded number of times. Inside a transaction there
//! is no retrying a message: `failed` means dead-lettered, `retry` is refused.

mod beforehand;

use std::collections::HashSet;
use std::sync::Arc;

use tokio::sync::oneshot;

use bugle_store::{AppendError, Commit, CommitError, Guard, NewSegment, QueueId, SwapError};

use crate::ack::{AckCall, Computed, Settling, group_by_cursor};
use crate::api::{
    AckItem, AckStatus, Acked, LeaseToken, Operation, OperationResult, PushItem, Pushed, Refused, Transacted,
};
use crate::dedupe::Ids;
use crate::inner::Inner;
use crate::meters::WakeSource;
use crate::planted::Bug;
use crate::push::{Bundle, Slot, Work, bundle};
use crate::semantics::inherit::inherited;

const MAX_TRIES: u32 = 16;

/// A transaction taken apart: positions are those of the operations.
struct Parts {
    operations: Vec<Operation>,
    push_positions: Vec<usize>,
    ack_positions: Vec<usize>,
}

/// Why a try did not commit.
enum Setback {
    /// Something was overtaken: compute again.
    Again,
    /// The transaction is refused with this reason and text.
    Refused(&'static str, String),
}

/// What the acknowledgements of a transaction do.
struct Settlement {
    settlings: Vec<Settling>,
    computed: Vec<Computed>,
    /// By position.
    acked: Vec<Option<Acked>>,
}

type Try<T> = Result<Result<T, Setback>, Refused>;

impl Inner {
    /// See [`crate::Broker::transact`].
    pub(crate) async fn transact(
        self: &Arc<Self>,
        operations: Vec<Operation>,
        required: Vec<LeaseToken>,
    ) -> Result<Transacted, Refused> {
        if self.board.detours() {
            self.check_detour(&operations)?;
        }
        let parts = Parts::new(operations, &required);
        if let Some(Setback::Refused(reason, error)) = self.refused_beforehand(&parts).await? {
            return Ok(refused(reason, error));
        }
        for attempt in 0..MAX_TRIES {
            match self.try_transact(&parts, attempt).await? {
                Ok(results) => return Ok(Transacted { success: true, error: None, reason: None, results }),
                Err(Setback::Again) => (),
                Err(Setback::Refused(reason, error)) => return Ok(refused(reason, error)),
            }
        }
        Err(self.busy("the transaction's partitions are changed by too many"))
    }

    async fn try_transact(self: &Arc<Self>, parts: &Parts, attempt: u32) -> Try<Vec<OperationResult>> {
        let timeline = self.timeline();
        let (mut works, bundles) = self.transaction_pushes(parts, attempt).await?;
        if let Some(setback) = duplicates(&works) {
            // Who is told that something is there already relies on it.
            self.watch(self.engine.flush().await)?;
            return Ok(if self.engine.timeline() == timeline { Err(setback) } else { Err(Setback::Again) });
        }
        let Settlement { settlings, computed, acked } = match self.settlement(parts).await? {
            Ok(settlement) => settlement,
            Err(setback) => return Ok(Err(setback)),
        };
        let contexts = acked.iter().map(|acked| acked.as_ref().and_then(|acked| acked.context.as_ref()));
        if let Some(context) = inherited(contexts) {
            works.iter_mut().for_each(|work| work.carry(&context));
        }
        let mut sent: Vec<(usize, NewSegment, Ids)> = Vec::new();
        let mut commit = Commit::default();
        for (i, work) in works.iter_mut().enumerate() {
            if let Some(mut append) = self.prepare(work) {
                if append.guard == Guard::Head {
                    append.guard = Guard::Fingerprints;
                }
                sent.push((i, append.segment.clone(), work.ids));
                commit.appends.push(append);
            }
        }
        let swapping: Vec<usize> = (0..computed.len()).filter(|i| computed[*i].swap.is_some()).collect();
        commit.swaps = swapping.iter().filter_map(|i| computed[*i].swap.clone()).collect();
        if Bug::HalfTransaction.strikes() {
            commit.appends.clear();
            sent.clear();
        }
        if !(commit.appends.is_empty() && commit.swaps.is_empty()) {
            let outcome = match self.change(timeline, self.engine.commit(vec![commit])).await {
                Ok(mut outcomes) => self.watch(Ok(outcomes.pop()))?,
                Err(error) => {
                    works.iter().for_each(|w| w.lane.inner.lock().stale = true);
                    self.forget_cursors(&settlings);
                    return Err(self.watch::<()>(Err(error)).expect_err("an error was watched"));
                }
            };
            match outcome {
                Some(Ok(committed)) => {
                    for ((i, segment, ids), appended) in sent.into_iter().zip(committed.appended) {
                        self.appended(&works[i], appended, &segment, ids, timeline);
                    }
                    self.count_transaction(&works, &settlings);
                    for i in swapping {
                        let dead = computed[i].swap.as_ref().map_or(0, |swap| swap.dead.len());
                        if dead > 0 {
                            self.count_dead(settlings[i].channel.queue, dead as u64);
                        }
                        self.meters.queues.of(settlings[i].channel.queue).acked.add(computed[i].acked());
                        if let Some(next) = computed[i].next.clone() {
                            self.consumed(settlings[i].cursor.as_ref(), &next);
                            self.cursor_changed(&settlings[i].channel, &settlings[i].lane, next);
                        }
                    }
                }
                Some(Err(error)) => {
                    self.overtaken(error, &works, &sent, &settlings, &swapping);
                    return Ok(Err(Setback::Again));
                }
                None => return Ok(Err(Setback::Again)),
            }
        }
        Ok(Ok(results(parts, &works, &bundles, acked)))
    }

    /// What its acknowledgements do to their cursors as they are now.
    async fn settlement(self: &Arc<Self>, parts: &Parts) -> Try<Settlement> {
        let (mut settlings, positions) = match self.transaction_acks(parts).await? {
            Ok(settlings) => settlings,
            Err(setback) => return Ok(Err(setback)),
        };
        self.load_cursors(&mut settlings).await?;
        let located = self.locate(settlings.iter().map(Settling::sought).collect()).await?;
        let computed: Vec<_> = settlings.iter().zip(&located).map(|(s, l)| self.compute(s, l)).collect();
        let mut acked: Vec<Option<Acked>> = vec![None; parts.operations.len()];
        for (computed, positions) in computed.iter().zip(&positions) {
            for (answer, position) in computed.answers.iter().flatten().zip(positions) {
                acked[*position] = Some(answer.clone());
            }
        }
        if let Some(error) = acked.iter().flatten().find(|a| !a.success) {
            return Ok(Err(ack_refused(error)));
        }
        // Done by whoever has the lane since: a transaction that repeats it and nothing else is harmless, one with more to it would be
        // the second that handles these messages.
        let more = !parts.push_positions.is_empty() || acked.iter().flatten().any(|a| !a.noop);
        if more && computed.iter().any(|computed| computed.stale) {
            let gone = Acked { error: Some("invalid or expired lease".into()), ..Acked::default() };
            return Ok(Err(ack_refused(&gone)));
        }
        Ok(Ok(Settlement { settlings, computed, acked }))
    }

    /// Count a transaction once for every queue that it touched.
    fn count_transaction(&self, works: &[Work], settlings: &[Settling]) {
        let pushed = works.iter().map(|work| work.lane.queue);
        let queues: HashSet<QueueId> = pushed.chain(settlings.iter().map(|s| s.channel.queue)).collect();
        for queue in queues {
            self.meters.queues.of(queue).transactions.one();
        }
    }

    async fn transaction_pushes(
        self: &Arc<Self>,
        parts: &Parts,
        attempt: u32,
    ) -> Result<(Vec<Work>, Vec<Bundle>), Refused> {
        let mut bundles = bundle(parts.pushes().cloned().collect());
        let routes = self.route(&bundles).await?;
        let mut works = Vec::with_capacity(bundles.len());
        for (bundle, (queue, lane)) in bundles.iter_mut().zip(routes) {
            self.check_room(&queue, bundle.messages.len()).await?;
            self.seal(&queue, &lane, &mut bundle.messages)?;
            works.push(Work::alone(lane, std::mem::take(&mut bundle.messages), self, attempt));
        }
        self.catch_up(&mut works).await?;
        self.screen(&mut works).await?;
        Ok((works, bundles))
    }

    /// The acks as settlements of their cursors, one per cursor, with the positions of their operations.
    async fn transaction_acks(self: &Arc<Self>, parts: &Parts) -> Try<(Vec<Settling>, Vec<Vec<usize>>)> {
        let items: Vec<AckItem> = parts
            .ack_positions
            .iter()
            .filter_map(|p| match &parts.operations[*p] {
                Operation::Ack(item) => Some(item.clone()),
                Operation::Push(_) => None,
            })
            .collect();
        if items.iter().any(|item| item.status == AckStatus::Retry) {
            return Ok(Err(Setback::Refused("ack_rejected", "ACK operation failed: Unknown error".into())));
        }
        let mut early = vec![Acked::default(); items.len()];
        let calls = group_by_cursor(items, &mut early);
        if let Some(refused) = early.iter().find(|a| a.error.is_some()) {
            return Ok(Err(ack_refused(refused)));
        }
        let (mut settlings, mut positions): (Vec<Settling>, Vec<Vec<usize>>) = (Vec::new(), Vec::new());
        for (at, items, lane, lease) in calls {
            let (channel, lane) = match self.cursor_home(lane, &items[0].group).await? {
                Ok(home) => home,
                Err(reason) => {
                    let refused = Acked { error: Some(reason.into()), ..Acked::default() };
                    return Ok(Err(ack_refused(&refused)));
                }
            };
            let at = at.into_iter().map(|i| parts.ack_positions[i]);
            let (reply, _) = oneshot::channel();
            let call = AckCall { items, lease, reply };
            let same = settlings.iter().position(|s| s.channel.no == channel.no && s.lane.id == lane.id);
            if let Some(i) = same {
                settlings[i].calls.push(call);
                positions[i].extend(at);
            } else {
                let queue = self.catalog.queue_by_id(channel.queue);
                settlings.push(Settling {
                    channel,
                    lane,
                    queue,
                    calls: vec![call],
                    cursor: None,
                    remembered: false,
                    tries: 0,
                });
                positions.push(at.collect());
            }
        }
        Ok(Ok((settlings, positions)))
    }

    /// Learn from a refused commit what to compute anew.
    fn overtaken(
        self: &Arc<Self>,
        error: CommitError,
        works: &[Work],
        sent: &[(usize, NewSegment, Ids)],
        settlings: &[Settling],
        swapping: &[usize],
    ) {
        match error {
            CommitError::Append(i, AppendError::Moved(lane)) => {
                works[sent[i].0].lane.correct(&lane, works[sent[i].0].tries > 1);
                self.lane_written(&works[sent[i].0].lane, WakeSource::Local);
            }
            CommitError::Append(i, AppendError::NoLane) => self.lanes.forget(works[sent[i].0].lane.id),
            CommitError::Swap(i, SwapError::NoLane) => self.lanes.forget(settlings[swapping[i]].lane.id),
            CommitError::Swap(..) => (),
        }
        self.forget_cursors(settlings);
    }

    fn forget_cursors(&self, settlings: &[Settling]) {
        for settling in settlings {
            if let Some(entry) = settling.channel.state.lock().entries.get_mut(&settling.lane.id) {
                entry.cursor = None;
            }
        }
    }
}

impl Parts {
    fn new(mut operations: Vec<Operation>, required: &[LeaseToken]) -> Self {
        let (mut push_positions, mut ack_positions) = (Vec::new(), Vec::new());
        for (i, operation) in operations.iter_mut().enumerate() {
            match operation {
                Operation::Push(_) => push_positions.push(i),
                Operation::Ack(ack) => {
                    ack_positions.push(i);
                    if ack.status == AckStatus::Failed {
                        ack.status = AckStatus::Dlq;
                    }
                    if ack.lease.is_none() && required.len() == 1 {
                        ack.lease = required.first().copied();
                    }
                }
            }
        }
        Self { operations, push_positions, ack_positions }
    }

    fn pushes(&self) -> impl Iterator<Item = &PushItem> {
        self.push_positions.iter().filter_map(|position| match &self.operations[*position] {
            Operation::Push(item) => Some(item),
            Operation::Ack(_) => None,
        })
    }
}

fn refused(reason: &'static str, error: String) -> Transacted {
    Transacted { success: false, error: Some(error), reason: Some(reason), results: Vec::new() }
}

/// A push whose id is already stored undoes the transaction.
fn duplicates(works: &[Work]) -> Option<Setback> {
    for work in works {
        for (message, slot) in work.messages().zip(&work.slots) {
            if matches!(slot, Slot::Known(_)) {
                let id = message.transaction();
                return Some(Setback::Refused("duplicate", format!("duplicate transactionId {id:?}")));
            }
        }
    }
    None
}

fn ack_refused(acked: &Acked) -> Setback {
    let text = match acked.error.as_deref() {
        Some(error) if error.contains("lease") => "Invalid or expired lease",
        Some(error) if error.contains("unresolvable") || error.contains("not found") => "Message not found",
        Some(error) => error,
        None => "Unknown error",
    };
    Setback::Refused("ack_rejected", format!("ACK operation failed: {text}"))
}

fn results(
    parts: &Parts,
    works: &[Work],
    bundles: &[Bundle],
    mut acked: Vec<Option<Acked>>,
) -> Vec<OperationResult> {
    let mut pushed: Vec<Option<(Pushed, Arc<str>)>> = vec![None; parts.push_positions.len()];
    for (work, bundle) in works.iter().zip(bundles) {
        let ids: Vec<_> = work.messages().map(|m| m.id).collect();
        for (i, (message, slot)) in work.messages().zip(&work.slots).enumerate() {
            let original = match slot {
                Slot::SameAs(earlier) => Some(ids[*earlier]),
                _ => None,
            };
            let answer = Pushed {
                transaction_id: message.transaction_id.clone(),
                message_id: original.unwrap_or(message.id),
                lane: work.lane.id,
                duplicate: original.is_some(),
                buffered: false,
            };
            pushed[bundle.positions[i]] = Some((answer, bundle.queue.clone()));
        }
    }
    let mut pushed = pushed.into_iter();
    parts
        .operations
        .iter()
        .enumerate()
        .filter_map(|(i, operation)| match operation {
            Operation::Push(_) => pushed.next().flatten().map(|(p, queue)| OperationResult::Push(p, queue)),
            Operation::Ack(ack) => {
                let acked = acked[i].take().unwrap_or_default();
                Some(OperationResult::Ack(ack.transaction_id.clone(), acked))
            }
        })
        .collect()
}
