//! The broker's verbs for those who look after queues rather than push and pop: dead letters, messages, traces.

use uuid::Uuid;

use bugle_store::{Group, LaneId, Page, PutSwitches, SpoolState, Switches, Timestamp, Trace, TraceName};

use crate::Broker;
use crate::api::{
    Acked, Cleared, Letter, LetterQuery, MessageList, MessageQuery, MessageView, NewTrace, Redrive, Redriven,
    Refused, Replay, Replayed, TraceView,
};
use crate::backup::BackupPieces;
use crate::inner::to_its_end;
use crate::semantics::subscribe;

/// Read an ISO 8601 time, with an offset or else in UTC; a date alone is its first moment. The error names `field`.
pub fn read_time(field: &str, text: &str) -> Result<Timestamp, Refused> {
    let wrong = || Refused::Invalid(format!("{field} must be an ISO 8601 timestamp"));
    subscribe::timestamp(text.trim()).ok_or_else(wrong)
}

impl Broker {
    /// Set switches for all servers of the store. Answers all of them.
    pub async fn switch(&self, change: PutSwitches) -> Result<Switches, Refused> {
        let inner = self.0.clone();
        to_its_end(async move { inner.switch(change).await }).await
    }

    /// The switches as they are in the store now; if it does not answer soon, as this server follows them.
    pub async fn latest_switches(&self) -> Switches {
        self.0.latest_switches().await
    }

    /// The switches as this server follows them.
    pub fn switches(&self) -> Switches {
        self.0.board.now()
    }

    /// Begin a backup of what this server keeps in files, or of its spool alone. It is given up when nobody takes it.
    pub async fn backup(&self, spool_only: bool) -> Result<BackupPieces, Refused> {
        self.0.backup(spool_only).await
    }

    /// How the spool of this server is.
    pub fn spool(&self) -> SpoolState {
        self.0.spooling.state()
    }

    /// Remove all messages of a queue, or of one of its partitions. Whoever works on some goes on; their acknowledgement finds
    /// nothing. What is still in a spool is not touched.
    pub async fn clear_queue(&self, name: &str, partition: Option<&str>) -> Result<Cleared, Refused> {
        let (inner, name, partition) = (self.0.clone(), name.to_owned(), partition.map(str::to_owned));
        to_its_end(async move { inner.clear_queue(&name, partition.as_deref()).await }).await
    }

    /// Somebody says that something was written to a queue: who waits for it looks, here and on other servers.
    pub fn notify(&self, queue: &str, partition: Option<&str>) {
        self.0.notified(queue, partition);
    }

    /// Dead letters, latest failure first, and how many match in all. Fewer than asked for come where they are large.
    pub async fn dead_letters(&self, query: &LetterQuery, page: Page) -> Result<(Vec<Letter>, u64), Refused> {
        self.0.dead_letters(query, page).await
    }

    /// Send one dead letter back to a queue, once however often it is asked for.
    pub async fn replay(&self, letter: Uuid, to: &Replay) -> Result<Replayed, Refused> {
        self.0.replay(letter, to).await
    }

    /// Send the latest dead letter of a message back, of one group or of any.
    pub async fn retry(
        &self,
        lane: LaneId,
        transaction_id: &str,
        group: Option<Group>,
        to: &Replay,
    ) -> Result<Replayed, Refused> {
        self.0.retry(lane, transaction_id, group, to).await
    }

    /// Send many dead letters back, oldest failure first. May be repeated, interrupted, and run on several servers at
    /// once: each letter goes back once.
    pub async fn redrive(&self, request: Redrive) -> Result<Redriven, Refused> {
        self.0.redrive(request).await
    }

    /// Delete the dead letters of a message, of one group or of all. Answers how many there were.
    pub async fn delete_dead_letters_of(
        &self,
        lane: LaneId,
        transaction_id: &str,
        group: Option<Group>,
    ) -> Result<u64, Refused> {
        self.0.delete_dead_letters_of(lane, transaction_id, group).await
    }

    /// Give up on the next message of a group without being its consumer. A message that others come before is refused:
    /// they would be passed over.
    pub async fn give_up(
        &self,
        lane: LaneId,
        transaction_id: String,
        group: Group,
        error: Option<String>,
    ) -> Result<Acked, Refused> {
        self.0.give_up(lane, transaction_id, group, error).await
    }

    /// One message, or the copy in its latest dead letter if it is not kept any more.
    pub async fn message(&self, lane: LaneId, transaction_id: &str) -> Result<MessageView, Refused> {
        self.0.message(lane, transaction_id).await
    }

    /// Messages, newest first.
    pub async fn messages(&self, query: &MessageQuery) -> Result<MessageList, Refused> {
        self.0.messages(query).await
    }

    /// Record a trace. `None` = there is no such message.
    pub async fn record_trace(&self, trace: NewTrace) -> Result<Option<Uuid>, Refused> {
        self.0.record_trace(trace).await
    }

    /// Traces of a message, oldest first, and how many there are.
    pub async fn traces_of(
        &self,
        lane: LaneId,
        transaction_id: String,
        page: Page,
    ) -> Result<(Vec<Trace>, u64), Refused> {
        self.0.traces_of(lane, transaction_id, page).await
    }

    /// Traces with a name, newest first, and how many there are.
    pub async fn traces_named(&self, name: String, page: Page) -> Result<(Vec<TraceView>, u64), Refused> {
        self.0.traces_named(name, page).await
    }

    /// Names of traces, latest first, and how many there are.
    pub async fn trace_names(&self, page: Page) -> Result<(Vec<TraceName>, u64), Refused> {
        self.0.trace_names(page).await
    }
}
