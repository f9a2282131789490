//! Where clients write down what they see.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::record::{History, Op, Record};

/// One order and one clock for all clients of a run; clones share it.
#[derive(Clone)]
pub struct Recorder(Arc<Book>);

struct Book {
    started: Instant,
    moments: AtomicU64,
    records: Mutex<Vec<Record>>,
}

/// A request that has begun.
pub struct Begun {
    moment: u64,
    at: u64,
}

impl Default for Recorder {
    fn default() -> Self {
        let (moments, records) = (AtomicU64::new(0), Mutex::default());
        Self(Arc::new(Book { started: Instant::now(), moments, records }))
    }
}

impl Recorder {
    /// To be called before a request is sent.
    pub fn begin(&self) -> Begun {
        let at = self.now();
        Begun { moment: self.moment(), at }
    }

    /// To be called when its outcome is known, or that there will be none.
    pub fn end(&self, begun: Begun, op: Op) {
        let (ended, ended_at) = (self.moment(), self.now());
        let record = Record { began: begun.moment, ended, began_at: begun.at, ended_at, op };
        self.0.records.lock().push(record);
    }

    /// Requests written down so far.
    pub fn len(&self) -> usize {
        self.0.records.lock().len()
    }

    /// Whether nothing was written down yet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The time of its clock, by which requests are dated.
    pub fn elapsed(&self) -> Duration {
        self.0.started.elapsed()
    }

    /// Everything written down so far; the book is empty then.
    pub fn take(&self) -> History {
        History { records: std::mem::take(&mut *self.0.records.lock()) }
    }

    fn moment(&self) -> u64 {
        self.0.moments.fetch_add(1, Ordering::SeqCst)
    }

    fn now(&self) -> u64 {
        self.0.started.elapsed().as_micros() as u64
    }
}
