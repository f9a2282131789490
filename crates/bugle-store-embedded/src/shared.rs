//! What the writer, the readers and the background work share.

use std::any::Any;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use bugle_disk::Disk;
use bugle_store::{Timestamp, Unavailable};
use parking_lot::{Condvar, Mutex, RwLock};

use crate::cache::Cache;
use crate::index::{Entry, Index, Sealed};
use crate::log::{FreeFiles, LogFile, prepare};
use crate::options::EmbeddedOptions;
use crate::state::State;

/// State and index: what one record changes together, so that a reader never sees half of it.
pub(crate) struct Core {
    pub(crate) state: State,
    pub(crate) index: Index,
}

/// A sparsely filled file whose live segments are being copied forward.
pub(crate) struct Evacuation {
    pub(crate) from: Arc<Sealed>,
    /// (uid, entry) still to copy.
    pub(crate) rest: Vec<(u64, Entry)>,
}

/// Where a checkpoint's replay begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReplayStart {
    pub(crate) file: u64,
    pub(crate) seq: u64,
}

pub(crate) struct Shared {
    pub(crate) core: RwLock<Core>,
    pub(crate) cache: Mutex<Cache>,
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) options: EmbeddedOptions,
    pub(crate) free: FreeFiles,
    pub(crate) next_file: AtomicU64,
    /// A checkpoint that was asked for.
    pub(crate) wanted: Mutex<Option<ReplayStart>>,
    pub(crate) evacuation: Mutex<Option<Evacuation>>,
    /// A backup is being taken: log files must not be given back. Held while some are.
    pub(crate) pinned: Mutex<bool>,
    /// The threads beside the writer are to end.
    pub(crate) stopping: AtomicBool,
    /// Signalled when a file was sealed.
    pub(crate) sealed: Condvar,
    poison: OnceLock<String>,
    clock: Clock,
    pub(crate) lock: Mutex<Option<Box<dyn Any + Send + Sync>>>,
}

impl Shared {
    pub(crate) fn new(
        core: Core,
        disk: Arc<dyn Disk>,
        options: EmbeddedOptions,
        free: FreeFiles,
        next_file: u64,
        lock: Box<dyn Any + Send + Sync>,
    ) -> Self {
        Self {
            clock: Clock::starting_after(core.state.stamp),
            core: RwLock::new(core),
            cache: Mutex::new(Cache::new(options.cache_bytes)),
            disk,
            options,
            free,
            next_file: AtomicU64::new(next_file),
            wanted: Mutex::default(),
            evacuation: Mutex::default(),
            pinned: Mutex::default(),
            stopping: AtomicBool::new(false),
            sealed: Condvar::new(),
            poison: OnceLock::new(),
            lock: Mutex::new(Some(lock)),
        }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// After a failed write or fsync nothing is known of what the disk holds, and another fsync would not tell: the
    /// engine answers nothing more until it was opened again.
    pub(crate) fn poison(&self, what: &str, error: &io::Error) -> Unavailable {
        let reason = format!("{what}: {error}");
        if self.poison.set(reason.clone()).is_ok() {
            tracing::error!(%reason, "the store stops: open it again after the cause is removed");
        }
        Unavailable::new(reason)
    }

    /// Say that the engine was closed.
    pub(crate) fn mark_closed(&self) {
        let _ = self.poison.set("the store is closed".to_owned());
    }

    pub(crate) fn check(&self) -> Result<(), Unavailable> {
        match self.poison.get() {
            None => Ok(()),
            Some(reason) => Err(Unavailable::new(reason.clone())),
        }
    }

    /// Make the next log file.
    pub(crate) fn prepare_next(&self) -> io::Result<LogFile> {
        let id = self.next_file.fetch_add(1, Ordering::Relaxed);
        prepare(&*self.disk, &self.free, id, self.options.file_size, &self.stopping)
    }
}

/// Wall clock when opened plus monotonic time since: a jump of the host's clock ends no lease early. Never behind a
/// stamp that was stored before.
struct Clock {
    origin: Timestamp,
    started: Instant,
}

impl Clock {
    fn starting_after(stamp: Timestamp) -> Self {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { origin: Timestamp::ZERO.plus(wall).max(stamp), started: Instant::now() }
    }

    fn now(&self) -> Timestamp {
        self.origin.plus(self.started.elapsed())
    }
}
