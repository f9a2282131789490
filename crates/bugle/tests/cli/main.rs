//! The command line as people and scripts use it: the real program against a real server, on both engines where that matters, and
//! in a pseudo-terminal where it matters who watches.
#![allow(clippy::unwrap_used)]

#[macro_use]
mod support;
mod terminal;

mod ack;
mod bench;
mod completions;
mod config;
mod consume;
mod copy;
mod dlq;
mod docs;
mod errors;
mod groups;
mod help;
mod messages;
mod move_queue;
mod pop;
mod push;
mod queue;
mod queues;
mod tail;
mod top;
mod trace;
