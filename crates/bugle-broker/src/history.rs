//! The history of what was counted, kept as messages in a queue of the system's own.
//!
//! Each server has a partition there, in which it puts a record of what it counted in the last minute ([`sample`]); with
//! the queue's retention old ones go by themselves. So the history is as durable as messages are, every server can
//! read that of all ([`read`]), and no store needs to know of it. While nothing is counted nothing is written, and no timer
//! runs. What was counted since the last record is in memory, and is lost with a crash.

mod read;
mod sample;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;

use bugle_store::{LaneId, NewSegment, Offset, Timestamp};

use crate::api::{ServerCounts, Vitals};
use crate::config::BrokerConfig;
use crate::semantics::history::Record;

/// The queue of the records.
pub(crate) const QUEUE: &str = "__system_history";
/// Longest name of a partition.
const MAX_NAME: usize = 200;

/// See the module.
pub(crate) struct Book {
    pub(crate) host: Arc<str>,
    /// This server's name, and that of its partition.
    pub(crate) server: Arc<str>,
    /// Held while a record is stored, and by readers while they look at what is stored and what is not.
    page: Mutex<Page>,
}

/// How far the history goes.
#[derive(Default)]
struct Page {
    /// What the server had counted in all at the end of the last record.
    told: ServerCounts,
    /// When that began which was not told yet; nothing was counted if not known.
    since: Option<Timestamp>,
    /// How late the last timer was, in microseconds.
    delay_us: u64,
    /// A record that is not stored yet, or may not be.
    open: Option<OpenRecord>,
    /// Where records go: the lane and its head.
    home: Option<(LaneId, Offset)>,
}

/// A record on its way.
struct OpenRecord {
    record: Record,
    segment: NewSegment,
    /// Where it may have been stored by a call without an answer.
    unsure: Option<Offset>,
}

impl Book {
    /// The book of a server of this name.
    pub(crate) fn new(config: &BrokerConfig, name: &str) -> Self {
        let mut name = name.replace('\0', "");
        if name.is_empty() {
            "server".clone_into(&mut name);
        }
        name.truncate(name.floor_char_boundary(MAX_NAME));
        // What the process has used before it served anybody does not count.
        let told = with_vitals(ServerCounts::default(), (config.vitals)());
        let page = Page { told, ..Page::default() };
        Self { host: config.hostname.as_str().into(), server: name.into(), page: Mutex::new(page) }
    }
}

fn with_vitals(counts: ServerCounts, vitals: Vitals) -> ServerCounts {
    let micros = |span: Duration| u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
    ServerCounts { user_us: micros(vitals.user), system_us: micros(vitals.system), ..counts }
}
