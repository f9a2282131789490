//! One file per noun; each handler is read, check, ask, answer.

pub(crate) mod ack;
pub(crate) mod fallback;
pub(crate) mod health;
pub(crate) mod lease;
pub(crate) mod metrics;
pub(crate) mod pop;
pub(crate) mod push;
pub(crate) mod queue;
pub(crate) mod transaction;
