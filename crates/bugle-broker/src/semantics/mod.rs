//! The rules of a queue, as pure functions over plain data: no IO, no clock, no locks.
//!
//! They are written once, here, so that two engines cannot disagree about them and every rule can be tested without a
//! store. Time is always passed in. `settle` uses `retry`, `seek` uses `lease`; otherwise the modules know nothing of each
//! other.

pub(crate) mod backlog;
pub(crate) mod configure;
pub(crate) mod history;
pub(crate) mod hold;
pub(crate) mod inherit;
pub(crate) mod lease;
pub(crate) mod packing;
pub(crate) mod priority;
pub(crate) mod redrive;
pub(crate) mod retention;
pub(crate) mod retry;
pub(crate) mod seek;
pub(crate) mod settle;
pub(crate) mod status;
pub(crate) mod subscribe;
pub(crate) mod visible;
