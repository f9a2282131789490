//! Push: a message is stored behind all others of its lane, unless its id was stored there inside the window.

use bugle_broker::{PushItem, Pushed};
use uuid::Uuid;

use super::{Check, Message, Naive, ensure, seconds};

impl Naive {
    pub(crate) fn push(&mut self, items: &[PushItem], answer: &[Pushed]) -> Check {
        ensure!(items.len() == answer.len(), "{} answers for {} items", answer.len(), items.len());
        for (i, (item, pushed)) in items.iter().zip(answer).enumerate() {
            self.push_one(item, pushed).map_err(|wrong| format!("item {i}: {wrong}"))?;
        }
        Ok(())
    }

    pub(super) fn push_one(&mut self, item: &PushItem, pushed: &Pushed) -> Check {
        ensure!(!pushed.buffered, "it is said to be buffered");
        let sent = item.transaction_id.as_ref().filter(|id| !id.is_empty());
        ensure!(sent.is_none_or(|id| *id == pushed.transaction_id), "another transaction id is answered");
        let id = String::from_utf8_lossy(&pushed.transaction_id).into_owned();
        let originals = self.originals(item, &id);
        let expected = !originals.is_empty();
        ensure!(pushed.duplicate == expected, "duplicate: {}, expected {expected}", pushed.duplicate);
        if pushed.duplicate {
            ensure!(originals.contains(&pushed.message_id), "the original's message id is not answered");
            return Ok(());
        }
        let fresh = self.queues.values().flat_map(|queue| &queue.lanes).flat_map(|lane| &lane.messages);
        ensure!(fresh.into_iter().all(|other| other.id != pushed.message_id), "a message id is used twice");
        let now = self.now;
        let message = Message {
            id: pushed.message_id,
            transaction_id: id,
            payload: item.payload.to_vec(),
            created_at: now,
        };
        let lane = self.lane(&item.queue, &item.partition);
        ensure!(
            *lane.id.get_or_insert(pushed.lane) == pushed.lane,
            "the partition has another id than before"
        );
        lane.messages.push(message);
        Ok(())
    }

    /// Messages that this one would be a duplicate of.
    pub(super) fn originals(&self, item: &PushItem, id: &str) -> Vec<Uuid> {
        let now = self.now;
        let Some(queue) = self.queues.get(&*item.queue) else { return Vec::new() };
        let window = seconds(queue.options.dedup_window_seconds);
        let lane = queue.lanes.iter().find(|lane| lane.name == *item.partition);
        let messages = lane.into_iter().flat_map(|lane| &lane.messages);
        let same = messages.filter(|m| m.transaction_id == id && window > 0 && m.created_at >= now - window);
        same.map(|message| message.id).collect()
    }
}
