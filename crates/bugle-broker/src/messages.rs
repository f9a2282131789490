//! Looking at messages without consuming them: one by its ids, or the newest of some queues.

mod list;

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use bugle_store::{
    Cursor, DeadLetter, Group, LaneCursor, LaneId, Load, Message, Offset, QUEUE_MODE, Queue, QueueId, Start,
    Timestamp,
};

use crate::ack::Sought;
use crate::api::{GroupView, MessageStatus, MessageView, Refused};
use crate::dead::no_message;
use crate::inner::Inner;
use crate::meters::WakeSource;
use crate::semantics::status::{self, Reader};

/// Dead letters of one message that are looked at: one per group.
const MAX_LETTERS: usize = 100;

/// A message found somewhere.
struct Sighting {
    queue: Arc<Queue>,
    partition: Arc<str>,
    lane: LaneId,
    offset: Offset,
    /// The positions of its segment, where that was read.
    segment: Option<Range<Offset>>,
    created_at: Timestamp,
    message: Message,
}

impl Inner {
    /// See [`crate::Broker::message`].
    pub(crate) async fn message(
        self: &Arc<Self>,
        lane: LaneId,
        transaction_id: &str,
    ) -> Result<MessageView, Refused> {
        let loads = vec![Load::Lane(lane, QUEUE_MODE.into()), Load::Cursors(lane)];
        let mut loaded = self.watch(self.engine.load(loads).await)?;
        let cursors = loaded.pop().unwrap_or_default();
        let found = loaded.pop().unwrap_or_default().pop();
        let letters = self.letters_of(lane, transaction_id, None, MAX_LETTERS).await?;
        let alive = match found {
            Some(found) => self.sight(found, transaction_id).await?,
            None => None,
        };
        let only_dead = alive.is_none();
        let sighting = match (alive, letters.first()) {
            (Some(sighting), _) => sighting,
            (None, Some(letter)) => self.sight_dead(letter).await.ok_or_else(no_message)?,
            (None, None) => return Err(no_message()),
        };
        // An id that was pushed again long after its first message failed is another message.
        let letters: Vec<DeadLetter> =
            letters.into_iter().filter(|letter| letter.offset == sighting.offset).collect();
        let readers = self.readers(sighting.queue.id, cursors);
        let dead = |group: &Group| letters.iter().any(|letter| letter.group == *group);
        let mut view = self.describe(sighting, &readers, dead);
        view.failure = letters.first().map(|letter| (letter.error.clone(), letter.attempts));
        // A group that gave up may have been forgotten since.
        if only_dead || (view.failure.is_some() && view.queue_status.is_none()) {
            view.status = MessageStatus::DeadLetter;
        }
        Ok(view)
    }

    /// A message that is kept in its lane.
    async fn sight(
        self: &Arc<Self>,
        found: LaneCursor,
        transaction_id: &str,
    ) -> Result<Option<Sighting>, Refused> {
        let Some(queue) = self.known_queue_by_id(found.lane.queue).await else { return Ok(None) };
        let lane = self.learn_lane(&found.lane, WakeSource::Local);
        let sought = Sought { lane: lane.clone(), cursor: None, ids: vec![transaction_id.to_owned()] };
        let located = self.locate(vec![sought]).await?.pop().unwrap_or_default();
        let offset = located.offset(transaction_id).filter(|at| *at >= found.lane.tail);
        Ok(offset.and_then(|offset| {
            let (message, created_at) = located.message(offset)?.clone();
            let partition = found.lane.name.clone();
            Some(Sighting { queue, partition, lane: lane.id, offset, segment: None, created_at, message })
        }))
    }

    /// The copy in a dead letter, which outlives the message.
    async fn sight_dead(self: &Arc<Self>, letter: &DeadLetter) -> Option<Sighting> {
        Some(Sighting {
            queue: self.known_queue_by_id(letter.queue).await?,
            partition: letter.partition.clone(),
            lane: letter.lane,
            offset: letter.offset,
            segment: None,
            created_at: letter.created_at,
            message: self.message_of(letter)?,
        })
    }

    /// All groups of a queue with their cursors on one lane, by name.
    fn readers(&self, queue: QueueId, cursors: Vec<LaneCursor>) -> Vec<Reader> {
        let found = cursors.into_iter().filter_map(|c| Some((c.group, c.cursor?)));
        let mut cursors: HashMap<Group, Cursor> = found.collect();
        let known = self.catalog.groups(queue);
        let mut readers: Vec<Reader> = known
            .iter()
            .map(|record| Reader {
                group: record.group.clone(),
                start: record.start,
                cursor: cursors.remove(&record.group),
            })
            .collect();
        readers.extend(cursors.into_iter().map(|(group, cursor)| Reader {
            group,
            start: Start::All,
            cursor: Some(cursor),
        }));
        readers.sort_by(|a, b| a.group.cmp(&b.group));
        readers
    }

    fn describe(&self, sighting: Sighting, readers: &[Reader], dead: impl Fn(&Group) -> bool) -> MessageView {
        let now = self.engine.now();
        let Sighting { queue, partition, lane, offset, segment, created_at, mut message } = sighting;
        let groups: Vec<GroupView> = readers
            .iter()
            .map(|reader| status::view(reader, offset, created_at, dead(&reader.group), now))
            .collect();
        let encrypted = message.encrypted;
        self.open_payload(lane, &mut message);
        MessageView {
            status: status::status(&groups),
            queue_status: status::queue_status(&groups),
            queue,
            partition,
            lane,
            offset,
            segment,
            created_at,
            message,
            encrypted,
            groups,
            failure: None,
        }
    }
}
