//! Redrive: dead letters go back to the tail of a lane.
//!
//! First the message is stored, then the letter is deleted. Whatever happens in between, the message is stored once: its
//! transaction id names the letter (see [`crate::semantics::redrive`]), and a letter that is still there although its
//! message is stored is found out by that id and only deleted.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use bugle_store::{DeadLetter, DeadLetterFilter, Find, Group, LaneId, Offset, Page, Timestamp, fingerprint};

use crate::api::{
    LetterQuery, PushItem, Pushed, Redrive, RedriveCursor, Redriven, Refused, Replay, Replayed,
};
use crate::inner::Inner;
use crate::semantics::redrive::{self, SLACK};

/// Letters moved at a time. Each brings its payload along, so the number follows the size of those seen.
const FIRST_STEP: usize = 16;
const LARGEST_STEP: usize = 256;
const STEP_BYTES: usize = 4 << 20;
/// What another server stamped may lie this far ahead of the present here.
const AHEAD: Duration = Duration::from_secs(1);

/// A letter on its way.
struct Move {
    letter: Uuid,
    failed_at: Timestamp,
    item: PushItem,
}

impl Inner {
    /// See [`crate::Broker::replay`].
    pub(crate) async fn replay(self: &Arc<Self>, id: Uuid, to: &Replay) -> Result<Replayed, Refused> {
        let filter = DeadLetterFilter { id: Some(id), ..DeadLetterFilter::default() };
        let page = Page { offset: 0, limit: 1 };
        let found = self.watch(self.engine.dead_letters(filter, page).await)?.0.pop();
        self.replay_found(found, to).await
    }

    /// See [`crate::Broker::retry`].
    pub(crate) async fn retry(
        self: &Arc<Self>,
        lane: LaneId,
        transaction_id: &str,
        group: Option<Group>,
        to: &Replay,
    ) -> Result<Replayed, Refused> {
        let found = self.letters_of(lane, transaction_id, group, 1).await?.pop();
        self.replay_found(found, to).await
    }

    async fn replay_found(
        self: &Arc<Self>,
        found: Option<DeadLetter>,
        to: &Replay,
    ) -> Result<Replayed, Refused> {
        let Some(letter) = found else { return Err(Refused::NotFound("Dead letter not found".into())) };
        let moving = self.plan_move(&letter, to).await?;
        let (queue, partition) = (moving.item.queue.clone(), moving.item.partition.clone());
        let pushed = self.move_all(vec![moving]).await?.pop();
        let pushed = pushed.ok_or_else(|| Refused::Unavailable("the replay has no outcome".into()))?;
        Ok(Replayed { letter: letter.id, queue, partition, pushed })
    }

    /// The message that a letter becomes.
    async fn plan_move(self: &Arc<Self>, letter: &DeadLetter, to: &Replay) -> Result<Move, Refused> {
        let unreadable = || Refused::Conflict(format!("dead letter {} cannot be read", letter.id));
        let message = self.message_of(letter).ok_or_else(unreadable)?;
        let payload = match &to.payload {
            Some(payload) => payload.clone(),
            None if !message.encrypted => message.payload,
            None => match self.keyring.decrypt(&message.payload, letter.lane.0.as_bytes()) {
                Ok(plain) => plain.into(),
                Err(error) => return Err(Refused::Conflict(error.to_string())),
            },
        };
        let queue = match &to.queue {
            Some(queue) => queue.clone(),
            None => match self.known_queue_by_id(letter.queue).await {
                Some(queue) => queue.name.clone(),
                None => return Err(Refused::NotFound("the dead letter's queue was deleted".into())),
            },
        };
        let item = PushItem {
            queue,
            partition: to.partition.clone().unwrap_or_else(|| letter.partition.clone()),
            transaction_id: Some(redrive::transaction_id(letter.id).into()),
            trace_id: message.trace_id,
            producer_sub: message.producer_sub,
            context: message.context,
            payload,
        };
        Ok(Move { letter: letter.id, failed_at: letter.failed_at, item })
    }

    /// Store the messages, then delete the letters. One outcome each, in order.
    async fn move_all(self: &Arc<Self>, moves: Vec<Move>) -> Result<Vec<Pushed>, Refused> {
        let letters: Vec<Uuid> = moves.iter().map(|moving| moving.letter).collect();
        let mut outcomes: Vec<Option<Pushed>> = self.moved_before(&moves).await?;
        let (mut places, mut items) = (Vec::new(), Vec::new());
        for (place, moving) in moves.into_iter().enumerate() {
            if outcomes[place].is_none() {
                places.push(place);
                items.push(moving.item);
            }
        }
        if !items.is_empty() {
            for (place, pushed) in places.into_iter().zip(self.push(items).await?) {
                outcomes[place] = Some(pushed);
            }
        }
        let outcomes: Vec<Pushed> = outcomes.into_iter().flatten().collect();
        self.meters.stir();
        self.meters.redriven.add(outcomes.iter().filter(|pushed| !pushed.duplicate).count() as u64);
        self.watch(self.engine.delete_dead_letters(letters).await)?;
        Ok(outcomes)
    }

    /// Which of these were stored by an earlier try that the dedupe window has forgotten.
    async fn moved_before(&self, moves: &[Move]) -> Result<Vec<Option<Pushed>>, Refused> {
        let now = self.engine.now().latest;
        let mut by_lane: HashMap<LaneId, Vec<usize>> = HashMap::new();
        for (place, moving) in moves.iter().enumerate() {
            let Some(queue) = self.catalog.queue(&moving.item.queue) else { continue };
            let window = Duration::from_secs(queue.options.dedup_window_seconds);
            if redrive::outlives_window(moving.failed_at, window, now) {
                by_lane.entry(LaneId::derive(queue.id, &moving.item.partition)).or_default().push(place);
            }
        }
        let mut outcomes: Vec<Option<Pushed>> = moves.iter().map(|_| None).collect();
        if by_lane.is_empty() {
            return Ok(outcomes);
        }
        let id_of = |place: usize| moves[place].item.transaction_id.clone().unwrap_or_default();
        let asked: Vec<(LaneId, Vec<usize>)> = by_lane.into_iter().collect();
        let find = |(lane, places): &(LaneId, Vec<usize>)| Find {
            lane: *lane,
            fingerprints: places.iter().map(|place| fingerprint(&id_of(*place))).collect(),
            from: 0,
            to: Offset::MAX >> 1,
            since: places.iter().map(|p| moves[*p].failed_at).min().unwrap_or_default().minus(SLACK),
        };
        let found = self.watch(self.engine.find(asked.iter().map(find).collect()).await)?;
        let wanted: Vec<(LaneId, Offset)> = asked
            .iter()
            .zip(&found)
            .flat_map(|((lane, _), found)| found.iter().map(|hit| (*lane, hit.offset)))
            .collect();
        let messages = self.messages_at(&wanted).await?;
        for ((lane, places), found) in asked.iter().zip(found) {
            for hit in found {
                let (place, id) = (places[hit.index], id_of(places[hit.index]));
                let stored = messages.get(&(*lane, hit.offset)).filter(|(m, _)| m.transaction_id == id);
                if let Some((message, _)) = stored {
                    let (lane, message_id) = (*lane, message.id);
                    let (duplicate, buffered) = (true, false);
                    outcomes[place] =
                        Some(Pushed { transaction_id: id, message_id, lane, duplicate, buffered });
                }
            }
        }
        Ok(outcomes)
    }

    /// See [`crate::Broker::redrive`].
    pub(crate) async fn redrive(self: &Arc<Self>, request: Redrive) -> Result<Redriven, Refused> {
        let filter = self.redrive_filter(&request.filter).await?;
        let ahead = if self.engine.exclusive() { Duration::ZERO } else { AHEAD };
        let until = request.cursor.map_or(self.engine.now().latest.plus(ahead), |cursor| cursor.until);
        let filter = DeadLetterFilter { to: Some(filter.to.map_or(until, |to| to.min(until))), ..filter };
        let from = request.cursor.map(|cursor| cursor.after.0);
        let open = DeadLetterFilter { from: filter.from.max(from), ..filter.clone() };
        let none = Page { offset: 0, limit: 0 };
        let matched = self.watch(self.engine.dead_letters(open, none).await)?.1;
        let mut done = Redriven { matched, remaining: matched, ..Redriven::default() };
        if request.dry_run {
            return Ok(done);
        }
        let mut after = request.cursor.map(|cursor| cursor.after);
        let (mut left, mut step) = (request.limit, FIRST_STEP);
        while left > 0 {
            match self.redrive_some(&filter, &request.to, &mut after, left.min(step), &mut done).await {
                Ok((0, _)) => return Ok(Redriven { remaining: 0, cursor: None, ..done }),
                Ok((count, bytes)) => {
                    left -= count;
                    step = if bytes < STEP_BYTES { step * 2 } else { step / 2 }.clamp(1, LARGEST_STEP);
                }
                Err(refused) if done.redriven + done.skipped == 0 => return Err(refused),
                Err(refused) => {
                    done.error = Some(refused.to_string());
                    break;
                }
            }
            done.remaining = done.matched.saturating_sub(done.redriven + done.skipped);
            done.cursor = after.filter(|_| done.remaining > 0).map(|after| RedriveCursor { until, after });
        }
        Ok(done)
    }

    async fn redrive_filter(self: &Arc<Self>, query: &LetterQuery) -> Result<DeadLetterFilter, Refused> {
        let Some(name) = &query.queue else {
            return Err(Refused::Invalid("filter.queue is required".into()));
        };
        let filter = self.letter_filter(query).await?;
        filter.ok_or_else(|| Refused::NotFound(format!("there is no queue {name:?}")))
    }

    /// Move the next letters; answers how many were looked at, and their bytes. `after` moves on when all of them are done with.
    async fn redrive_some(
        self: &Arc<Self>,
        filter: &DeadLetterFilter,
        to: &Replay,
        after: &mut Option<(Timestamp, Uuid)>,
        limit: usize,
        done: &mut Redriven,
    ) -> Result<(usize, usize), Refused> {
        let found = self.engine.dead_letters_after(filter.clone(), *after, limit).await;
        let mut letters = self.watch(found)?;
        let (count, bytes) = (letters.len(), letters.iter().map(|letter| letter.message.len()).sum());
        let last = letters.last().map(|letter| (letter.failed_at, letter.id));
        redrive::restore_order(&mut letters);
        let mut moves = Vec::with_capacity(count);
        let mut left_alone = 0;
        for letter in &letters {
            match self.plan_move(letter, to).await {
                Ok(moving) => moves.push(moving),
                Err(refused @ (Refused::Unavailable(_) | Refused::Maintenance(_) | Refused::Busy { .. })) => {
                    return Err(refused);
                }
                Err(reason) => {
                    tracing::warn!(%reason, letter = %letter.id, "dead letter is left where it is");
                    left_alone += 1;
                }
            }
        }
        drop(letters);
        let moved = if moves.is_empty() { Vec::new() } else { self.move_all(moves).await? };
        let duplicates = moved.iter().filter(|pushed| pushed.duplicate).count() as u64;
        done.redriven += moved.len() as u64 - duplicates;
        done.skipped += duplicates + left_alone;
        *after = last.or(*after);
        Ok((count, bytes))
    }
}
