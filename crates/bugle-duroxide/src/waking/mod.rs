//! Waiting for work without asking for it.
//!
//! A fetch that finds nothing sits down in the waiting room ([`room`]). Whatever makes an item fetchable gets somebody up
//! again: an event on this node, an event on another one ([`tiding`], heard through the bell), or an instant that was
//! known beforehand. Each of them is only a reason to look; what there is to do, the database alone decides. The rules
//! that keep this cheap and complete are in [`watch`].
//!
//! Modules in reading order; each uses only those above it.

pub(crate) mod counters;
pub(crate) mod supervise;
pub(crate) mod work;

pub(crate) mod tiding;

pub(crate) mod room;

pub(crate) mod watch;

pub(crate) mod fetching;
pub(crate) mod tasks;
