//! What the acknowledgements of one call do to one (lane, group) cursor.
//!
//! A lane has no state per message, only a position. So one call is read as a whole, in offset order: it settles
//! messages up to the first one that must be delivered again, and whatever it says of messages beyond that one is
//! answered as a no-op, because they are delivered again with it. Nothing is ever skipped because of the order in which
//! a client listed its acknowledgements.

use std::cmp::Reverse;

use bugle_store::{Cursor, Enforced, Now, Offset, QueueOptions, Timestamp};

use super::retry;
use crate::api::{AckStatus, LeaseToken};

/// Longest error text kept with a dead letter, in bytes.
const ERROR_MAX: usize = 4096;

/// One acknowledgement, its message looked up.
#[derive(Clone, Debug)]
pub(crate) struct AckIn<'a> {
    /// Where the message is; `None` = there is none by this id.
    pub(crate) offset: Option<Offset>,
    /// What is said of it.
    pub(crate) status: AckStatus,
    /// Why, for dead letters.
    pub(crate) error: Option<&'a str>,
}

/// What a call does.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Settled {
    /// The cursor to store; `None` = nothing changes.
    pub(crate) next: Option<Cursor>,
    /// One per acknowledgement, in the order given.
    pub(crate) verdicts: Vec<Verdict>,
    /// Messages to keep as dead letters, in offset order.
    pub(crate) dead: Vec<Dead>,
    /// The lane is free for the group now.
    pub(crate) released: bool,
    /// It was said under a lease that does not hold the lane: at best it is known to be done already.
    pub(crate) stale: bool,
}

/// What became of one acknowledgement.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Verdict {
    /// It was applied.
    Done,
    /// It is fine but changes nothing: already done, or the message comes again with an earlier one.
    Noop,
    /// The message is a dead letter now.
    DeadLettered,
    /// It was turned down, and why.
    Rejected(String),
}

/// A message that the group gave up on.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Dead {
    /// Which.
    pub(crate) offset: Offset,
    /// Why.
    pub(crate) error: String,
    /// Failed deliveries before this one.
    pub(crate) attempts: u32,
}

/// Apply the acknowledgements of one call to `cursor`. `head` is the lane's; `lease` is what the client named, if
/// anything: acknowledgements without one are not checked against the holder.
pub(crate) fn settle(
    cursor: &Cursor,
    lease: Option<LeaseToken>,
    acks: &[AckIn<'_>],
    head: Offset,
    options: &QueueOptions,
    now: Now,
) -> Settled {
    if !may_settle(cursor, lease, now) {
        let verdicts = acks.iter().map(|ack| judge_without_lease(cursor, lease, ack)).collect();
        return Settled { next: None, verdicts, dead: Vec::new(), released: false, stale: true };
    }
    // Under a lease only what it delivered can be settled; beyond it lie messages nobody has seen.
    let delivered = lease.and(cursor.lease).map_or(head, |l| l.end.min(head));
    let mut verdicts = Vec::with_capacity(acks.len());
    let mut open = Vec::with_capacity(acks.len());
    for (index, ack) in acks.iter().enumerate() {
        verdicts.push(judge_alone(cursor, ack, delivered).unwrap_or_else(|offset| {
            open.push(Open { offset, index });
            Verdict::Noop
        }));
    }
    // The strongest statement about an offset comes first; among equals the first one given.
    open.sort_unstable_by_key(|o| (o.offset, Reverse(rank(acks[o.index].status)), o.index));
    let walk = walk(cursor, acks, &open, options, &mut verdicts);
    let next = advance(cursor, &walk, options, now);
    let lease = next.as_ref().map_or(cursor.lease, |c| c.lease);
    let released = lease.is_none_or(|l| l.until <= now.earliest);
    Settled { next, verdicts, dead: walk.dead, released, stale: false }
}

/// A named lease must be the one that holds the lane now. The doubt about the time is the holder's benefit: whoever
/// takes the lane over changes the epoch, and then the compare-and-set refuses this settlement anyway.
fn may_settle(cursor: &Cursor, lease: Option<LeaseToken>, now: Now) -> bool {
    match lease {
        None => true,
        Some(LeaseToken::Garbage) => false,
        Some(LeaseToken::Id(id)) => cursor.lease.is_some_and(|l| l.id == id && now.earliest < l.until),
    }
}

/// A message that is done already stays done: an acknowledgement repeated because its answer was lost is harmless, also
/// after the lease has gone.
fn judge_without_lease(cursor: &Cursor, lease: Option<LeaseToken>, ack: &AckIn<'_>) -> Verdict {
    let repeated = ack.status == AckStatus::Completed && ack.offset.is_some_and(|at| at < cursor.committed);
    if repeated && lease != Some(LeaseToken::Garbage) {
        Verdict::Noop
    } else {
        Verdict::Rejected("invalid or expired lease".into())
    }
}

/// The verdict, where it needs no look at the others of the call; otherwise the offset.
fn judge_alone(cursor: &Cursor, ack: &AckIn<'_>, delivered: Offset) -> Result<Verdict, Offset> {
    let committed = cursor.committed;
    match ack.offset {
        None => Ok(Verdict::Rejected("unresolvable: no such message".into())),
        Some(offset) if offset >= delivered => Ok(Verdict::Rejected("unresolvable: no such message".into())),
        Some(offset) if offset >= committed => Err(offset),
        Some(_) if ack.status == AckStatus::Completed => Ok(Verdict::Noop),
        Some(offset) => Ok(Verdict::Rejected(format!(
            "already committed: offset {offset} is below the cursor at {committed}"
        ))),
    }
}

/// An acknowledgement of a message that is not settled yet.
struct Open {
    offset: Offset,
    index: usize,
}

/// Which of several statements about one message counts.
fn rank(status: AckStatus) -> u8 {
    match status {
        AckStatus::Completed => 0,
        AckStatus::Retry => 1,
        AckStatus::Failed => 2,
        AckStatus::Dlq => 3,
    }
}

/// How far a call gets.
struct Walk {
    committed: Offset,
    /// Why it got no further: `Retry` or `Failed`.
    stop: Option<AckStatus>,
    /// A message failed, whether it comes again or not.
    failed: bool,
    dead: Vec<Dead>,
}

/// Go through the open acknowledgements in offset order up to the first message that must be delivered again. Those
/// beyond it keep the `Noop` they came with.
fn walk(
    cursor: &Cursor,
    acks: &[AckIn<'_>],
    open: &[Open],
    options: &QueueOptions,
    verdicts: &mut [Verdict],
) -> Walk {
    let mut walk = Walk { committed: cursor.committed, stop: None, failed: false, dead: Vec::new() };
    // The charges on the cursor are those of what lies at `committed`, and of what failed together with it. A message
    // behind one that this call completes has not been charged yet.
    let mut attempts = cursor.attempts;
    for same in open.chunk_by(|a, b| a.offset == b.offset) {
        let offset = same[0].offset;
        let status = acks[same[0].index].status;
        let exhausted = u64::from(attempts) >= options.retry_limit;
        walk.failed |= status == AckStatus::Failed;
        let verdict = match status {
            AckStatus::Retry => None,
            AckStatus::Failed if !exhausted => None,
            AckStatus::Completed => {
                attempts = 0;
                Some(Verdict::Done)
            }
            AckStatus::Failed | AckStatus::Dlq if options.keeps_dead_letters() => {
                let error = error_text(same.iter().map(|o| &acks[o.index]), status);
                walk.dead.push(Dead { offset, error, attempts });
                Some(Verdict::DeadLettered)
            }
            AckStatus::Failed | AckStatus::Dlq => Some(Verdict::Done),
        };
        for o in same {
            verdicts[o.index] = match &verdict {
                Some(verdict) => verdict.clone(),
                // Outvoted: the message comes again although this one calls it done.
                None if acks[o.index].status == AckStatus::Completed => Verdict::Noop,
                None => Verdict::Done,
            };
        }
        if verdict.is_none() {
            walk.stop = Some(status);
            break;
        }
        walk.committed = offset + 1;
    }
    walk
}

/// The text to keep with a dead letter: the first one given with the status that counts.
fn error_text<'a>(mut same: impl Iterator<Item = &'a AckIn<'a>>, status: AckStatus) -> String {
    let given = same.find_map(|ack| ack.error.filter(|e| ack.status == status && !e.is_empty()));
    // PostgreSQL cannot store NUL in text.
    let text = given.unwrap_or_default().replace('\0', "");
    match status {
        _ if !text.is_empty() => text[..text.floor_char_boundary(ERROR_MAX)].to_owned(),
        AckStatus::Dlq => "Dead-lettered by consumer".to_owned(),
        _ => "Retries exhausted".to_owned(),
    }
}

/// The cursor after `walk`, or `None` if it stays as it is.
fn advance(cursor: &Cursor, walk: &Walk, options: &QueueOptions, now: Now) -> Option<Cursor> {
    let moved = walk.committed > cursor.committed;
    if !moved && walk.stop.is_none() {
        return None;
    }
    let mut next = cursor.clone();
    let lease_end = cursor.lease.map_or(0, |l| l.end);
    if moved {
        next.committed = walk.committed;
        next.consumed = cursor.consumed.saturating_add(walk.committed - cursor.committed);
        next.attempts = 0;
        // What lies at the new position was handed out with this lease, or not at all yet.
        next.deliveries = u32::from(walk.committed < lease_end);
        next.not_before = Timestamp::ZERO;
    }
    if walk.stop == Some(AckStatus::Failed) {
        // One charge per call, however many of its messages failed: they failed together.
        next.attempts = next.attempts.saturating_add(1);
        next.not_before = if options.enforces(Enforced::RetryDelay) {
            now.latest.plus(retry::backoff(options.retry_delay, next.attempts))
        } else {
            Timestamp::ZERO
        };
    }
    // A consumer that reports a failure drops the rest of its batch, without knowing whether the message comes again:
    // keeping the lease for it would hold that rest back until the lease ends.
    if walk.stop.is_some() || walk.failed || walk.committed >= lease_end {
        next.lease = None;
    }
    if next == *cursor {
        return None;
    }
    next.epoch += 1;
    Some(next)
}

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
