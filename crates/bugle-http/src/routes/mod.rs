//! One file per noun; each handler is read, check, ask, answer.

pub(crate) mod ack;
pub(crate) mod analytics;
pub(crate) mod backup;
pub(crate) mod dlq;
pub(crate) mod events;
pub(crate) mod fallback;
pub(crate) mod group_list;
pub(crate) mod groups;
pub(crate) mod health;
pub(crate) mod lease;
pub(crate) mod messages;
pub(crate) mod metrics;
pub(crate) mod pop;
pub(crate) mod push;
pub(crate) mod queue;
pub(crate) mod queue_status;
pub(crate) mod resources;
pub(crate) mod status;
pub(crate) mod system;
pub(crate) mod traces;
pub(crate) mod transaction;
pub(crate) mod waiting;
