//! The JSON of the `/api/v1` contract: what requests may look like and how answers are spelled.
//!
//! Requests borrow from the body they were read from, so that payloads are never copied here. They are read
//! leniently ([`Field`]): a field of the wrong type is remembered, not refused, because only the caller can name the
//! field by its full path (`items[3].queue must be a string`). `null` means absent everywhere but in payloads.
//!
//! Modules in reading order; each uses only those above it.

mod error;
mod field;
mod payload;
mod text;
mod time;

mod ack;
mod group;
mod letter;
mod message;
mod pop;
mod push;
mod queue;
mod renew;
mod system;
mod trace;
mod transact;

pub use ack::{AckBatchRequest, AckEntry, AckResult};
pub use error::{ErrorBody, Unreadable, read};
pub use field::{Field, List, Object, Raw, Text};
pub use group::{
    DeleteGroupAnswer, GroupPartitionEntry, GroupQueueEntry, SeekAnswer, SeekPartitionAnswer, SeekRequest,
    SubscriptionAnswer, SubscriptionRequest,
};
pub use letter::{
    LetterCount, LetterEntry, LetterList, Pagination, RedriveAnswer, RedriveDestination, RedriveFilter,
    RedriveRequest, ReplayAnswer, ReplayRequest,
};
pub use message::{
    BusStatus, FullMessage, GiveUpRequest, ListedMessage, MessageEntry, MessageGroup, MessageListAnswer,
    MessageOutcome, ModeEntry, QueueConfigEntry,
};
pub use payload::Payload;
pub use pop::{AutopilotTerms, LaneLabel, PopHead, PopMessage, write_pop_end};
pub use push::{BufferedPush, PushEntry, PushRequest, PushResult, PushStatus};
pub use queue::{ConfigureAnswer, ConfigureRequest, DeleteQueueAnswer};
pub use renew::{RenewAnswer, RenewRequest};
pub use system::{BufferStats, ClearAnswer, FailedFiles, MaintenanceAnswer, NotifyRequest, SwitchRequest};
pub use text::write_text;
pub use time::{Millis, write_micros};
pub use trace::{
    NamedTrace, NoSuccess, TraceEntry, TraceList, TraceNameEntry, TraceNameList, TraceRecorded, TraceRequest,
};
pub use transact::{OperationEntry, OperationOutcome, TransactAnswer, TransactRequest};
