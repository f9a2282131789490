//! Dead letters: listing, deleting, and giving up on a message by hand. Sending them back is in [`crate::redrive`].

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use uuid::Uuid;

use bugle_store::{DeadLetter, DeadLetterFilter, Group, LaneId, Message, Page, QueueId};

use crate::ack::Sought;
use crate::api::{AckItem, AckStatus, Acked, Letter, LetterQuery, Refused};
use crate::inner::Inner;

/// Dead letters read at a time: each brings its payload along.
const AT_ONCE: usize = 100;
/// Bytes of messages after which a list ends.
const MAX_BYTES: usize = 64 << 20;
/// Rounds in which the dead letters of one message are deleted; there is one per group.
const MAX_ROUNDS: usize = 100;

impl Inner {
    /// See [`crate::Broker::dead_letters`].
    pub(crate) async fn dead_letters(
        self: &Arc<Self>,
        query: &LetterQuery,
        page: Page,
    ) -> Result<(Vec<Letter>, u64), Refused> {
        let Some(filter) = self.letter_filter(query).await? else { return Ok((Vec::new(), 0)) };
        let (mut letters, mut bytes) = (Vec::new(), 0);
        let total = loop {
            let limit = (page.limit - letters.len()).min(AT_ONCE);
            let part = Page { offset: page.offset.saturating_add(letters.len()), limit };
            let (some, total) = self.watch(self.engine.dead_letters(filter.clone(), part).await)?;
            let last = some.len() < limit;
            bytes += some.iter().map(|letter| letter.message.len()).sum::<usize>();
            letters.extend(some);
            if last || letters.len() >= page.limit || bytes >= MAX_BYTES {
                break total;
            }
        };
        let names = self.queue_names(letters.iter().map(|letter| letter.queue)).await;
        let mut shown = Vec::with_capacity(letters.len());
        for letter in letters {
            let message = self.message_of(&letter).map(|mut message| {
                self.open_payload(letter.lane, &mut message);
                message
            });
            let queue = names.get(&letter.queue).cloned().unwrap_or_else(|| "".into());
            shown.push(Letter { queue, letter, message });
        }
        Ok((shown, total))
    }

    /// The store's filter for a query; `None` if it names a queue that does not exist.
    pub(crate) async fn letter_filter(
        self: &Arc<Self>,
        query: &LetterQuery,
    ) -> Result<Option<DeadLetterFilter>, Refused> {
        let mut filter = DeadLetterFilter {
            group: query.group.clone(),
            from: query.from,
            to: query.to,
            error: query.error.clone(),
            ..DeadLetterFilter::default()
        };
        match (&query.queue, &query.partition) {
            (None, None) => (),
            (None, Some(_)) => return Err(Refused::Invalid("partition needs a queue".into())),
            (Some(name), partition) => {
                let Some(queue) = self.known_queue(name).await else { return Ok(None) };
                filter.queue = Some(queue.id);
                filter.lane = partition.as_ref().map(|partition| LaneId::derive(queue.id, partition));
            }
        }
        Ok(Some(filter))
    }

    /// Names of queues, as far as they still exist.
    pub(crate) async fn queue_names(
        self: &Arc<Self>,
        ids: impl Iterator<Item = QueueId>,
    ) -> HashMap<QueueId, Arc<str>> {
        let ids: HashSet<QueueId> = ids.collect();
        if ids.iter().any(|id| self.catalog.queue_by_id(*id).is_none()) {
            self.refresh_catalog().await;
        }
        ids.into_iter().filter_map(|id| Some((id, self.catalog.queue_by_id(id)?.name.clone()))).collect()
    }

    /// The message in a dead letter, as it is stored.
    pub(crate) fn message_of(&self, letter: &DeadLetter) -> Option<Message> {
        let message = Message::decode(&mut letter.message.clone());
        message
            .inspect_err(|error| tracing::error!(%error, letter = %letter.id, "unreadable dead letter"))
            .ok()
    }

    /// Dead letters of one message, latest failure first.
    pub(crate) async fn letters_of(
        &self,
        lane: LaneId,
        transaction_id: &str,
        group: Option<Group>,
        limit: usize,
    ) -> Result<Vec<DeadLetter>, Refused> {
        let filter = DeadLetterFilter {
            lane: Some(lane),
            transaction_id: Some(transaction_id.to_owned()),
            group,
            ..DeadLetterFilter::default()
        };
        Ok(self.watch(self.engine.dead_letters(filter, Page { offset: 0, limit }).await)?.0)
    }

    /// See [`crate::Broker::delete_dead_letters_of`].
    pub(crate) async fn delete_dead_letters_of(
        &self,
        lane: LaneId,
        transaction_id: &str,
        group: Option<Group>,
    ) -> Result<u64, Refused> {
        let mut deleted = 0;
        for _ in 0..MAX_ROUNDS {
            let letters = self.letters_of(lane, transaction_id, group.clone(), AT_ONCE).await?;
            let ids: Vec<Uuid> = letters.iter().map(|letter| letter.id).collect();
            let last = ids.len() < AT_ONCE;
            if !ids.is_empty() {
                deleted += self.watch(self.engine.delete_dead_letters(ids).await)?;
            }
            if last {
                break;
            }
        }
        Ok(deleted)
    }

    /// See [`crate::Broker::give_up`].
    pub(crate) async fn give_up(
        self: &Arc<Self>,
        lane: LaneId,
        transaction_id: String,
        group: Group,
        error: Option<String>,
    ) -> Result<Acked, Refused> {
        let Some(found) = self.load_one(lane, &group).await? else { return Err(no_message()) };
        let state = self.learn_lane(&found.lane, crate::meters::WakeSource::Local);
        let sought = Sought { lane: state, cursor: None, ids: vec![transaction_id.clone()] };
        let located = self.locate(vec![sought]).await?.pop().unwrap_or_default();
        let Some(at) = located.offset(&transaction_id).filter(|at| *at >= found.lane.tail) else {
            return Err(no_message());
        };
        let Some(cursor) = found.cursor else {
            return Err(Refused::Conflict("consumer not found".into()));
        };
        // A position is all a group has: settling a later message would pass over the ones before it.
        let next = cursor.committed.max(found.lane.tail);
        if at > next {
            let before = at - next;
            let reason = format!("not the group's next message: {before} come before it");
            return Err(Refused::Conflict(reason));
        }
        let status = AckStatus::Dlq;
        let item = AckItem { transaction_id, lane: Some(lane), status, group, lease: None, error };
        let acked = self.ack(vec![item]).await?.pop().unwrap_or_default();
        match acked.error {
            Some(error) => Err(Refused::Conflict(error)),
            None => Ok(acked),
        }
    }
}

/// The refusal of a message that is not there.
pub(crate) fn no_message() -> Refused {
    Refused::NotFound("Message not found".into())
}
