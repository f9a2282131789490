//! Waiting: lanes believed ready, pops that wait for them, and the timers of lanes that become ready by the clock.
//!
//! One [`Channel`] per (queue, group). A waiting pop is an entry in it: no task, no connection, no query.

mod channel;
mod pace;
mod quiet;
mod registry;

pub(crate) use channel::{Channel, Entry, Interest, Place, Walk};
pub(crate) use pace::Pace;
pub(crate) use registry::{Channels, TimerKey};
