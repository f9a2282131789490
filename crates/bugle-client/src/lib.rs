//! Push, consume, acknowledge, transact, administer: a client of Bugle servers.
//!
#![doc = include_str!("../README.md")]
//!
//! # Where to look
//!
//! * [`Client`] and [`ClientBuilder`]: servers, credentials, TLS, time-outs, retries.
//! * [`NewMessage`], [`Client::push`], [`Buffer`]: messages in.
//! * [`Client::consume`] and [`Consumer`]: messages out, the usual way. [`Client::pop`], [`Ack`] and [`Client::settle`]: the
//!   same by hand.
//! * [`Client::transaction`]: acknowledgements and pushes, all or nothing.
//! * [`Client::admin`]: queues, groups, dead letters. [`Client::backup`]: a copy of a server's files.
//! * [`Client::read_json`], [`Client::send_json`], [`Client::metrics`]: routes that have no words of their own here.
//! * [`Error`]: what went wrong, and whether anything has happened.

// Modules in reading order; each uses only those above it.

mod error;
mod retry;
mod time;

mod connector;
mod servers;
mod transport;

mod client;

mod message;
mod push;

mod buffer;

mod pop;

mod ack;
mod consume;
mod transact;

mod admin;

mod backup;
mod direct;

pub use ack::{Ack, Acked, Verdict};
pub use admin::{
    Admin, Cleared, Configured, Counts, DeadLetter, DeadLetterFilter, DeadLetters, Depth, Enforced, Group,
    GroupPartition, GroupQueue, Health, PartitionDepth, Queue, QueueDetail, QueueOptions, QueuePartition,
    Redrive, Redriven, Replayed, SeekTo,
};
pub use backup::Backup;
pub use buffer::{Buffer, BufferError, BufferOptions, Refusal};
pub use client::{Client, ClientBuilder};
pub use consume::{Consumed, Consumer};
pub use error::{Cause, Error};
pub use message::{Autopilot, Batch, Lease, Message};
pub use pop::{Pop, Subscription};
pub use push::{NewMessage, PushStatus, Pushed};
pub use retry::RetryPolicy;
pub use tokio_util::sync::CancellationToken;
pub use transact::{Committed, OperationResult, Transaction};
