//! The spool on disk: what a server keeps in a directory of its own while pushes must not reach the store.
//!
//! Puts that wait together are one group: written by one write, made durable by one fsync, then answered. Groups are read in
//! order, checked by their checksums, and a small file says up to where they are done with. The directory is made by the first
//! put: a server that never needs it has none. `docs/format.md` describes the files.
//!
//! Modules in reading order; each uses only those above it.

mod backup;
mod book;
mod format;
mod recovery;
mod shelf;
mod writer;

mod doctor;

#[cfg(feature = "fuzz")]
pub mod fuzz;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use bugle_disk::{Disk, OsDisk};
use bugle_store::{
    BackupAnswer, BackupError, NoFiles, Spool, SpoolAnswer, SpoolBatch, SpoolError, SpoolState, Spooled,
};
use parking_lot::Mutex;
use tokio::sync::oneshot;

pub use doctor::examine;
pub use recovery::OpenError;

use book::Book;
use shelf::{Shelf, ShelfError};
use writer::{Put, Writer};

/// Settings of a spool.
#[derive(Clone, Debug)]
pub struct SpoolOptions {
    /// The directory.
    pub dir: PathBuf,
    /// Most bytes of records; more are refused.
    pub max_bytes: u64,
    /// Size at which a file is not added to any more.
    pub file_bytes: u64,
    /// Bytes at which a group takes no further puts along.
    pub group_bytes: u64,
}

impl SpoolOptions {
    /// The defaults, in this directory.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self { dir: dir.into(), max_bytes: 1 << 30, file_bytes: 64 << 20, group_bytes: 4 << 20 }
    }
}

/// See the module.
pub struct FileSpool {
    shared: Arc<Shared>,
    /// Started by the first put.
    writer: Mutex<Option<Writer>>,
}

/// What the callers and the writer's thread share. The shelf's lock may be held while the book's is taken.
pub(crate) struct Shared {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) options: SpoolOptions,
    pub(crate) book: Mutex<Book>,
    /// `None` until the directory is needed.
    pub(crate) shelf: Mutex<Option<Shelf>>,
}

impl FileSpool {
    /// Open the directory if there is one. Reads all that is in it.
    pub fn open(options: SpoolOptions) -> Result<Arc<Self>, OpenError> {
        Self::open_on(Arc::new(OsDisk::new(&options.dir)), options)
    }

    /// Open on another disk than the operating system's (`options.dir` is not looked at).
    pub fn open_on(disk: Arc<dyn Disk>, options: SpoolOptions) -> Result<Arc<Self>, OpenError> {
        let exists = disk.exists();
        let shared = Arc::new(Shared { disk, options, book: Mutex::default(), shelf: Mutex::default() });
        if exists {
            shared.open_shelf(&mut shared.shelf.lock())?;
        }
        Ok(Arc::new(Self { shared, writer: Mutex::default() }))
    }

    /// Do something with the files on a thread that may wait for the disk.
    async fn with_shelf<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Shared, &mut Shelf) -> Result<T, ShelfError> + Send + 'static,
    ) -> Result<Option<T>, SpoolError> {
        let shared = self.shared.clone();
        let task = tokio::task::spawn_blocking(move || {
            let mut shelf = shared.shelf.lock();
            let Some(shelf) = shelf.as_mut() else { return Ok(None) };
            let done = shared.check().and_then(|()| work(&shared, shelf).map_err(|e| shared.failed(e)));
            done.map(Some).map_err(|text| {
                shared.book.lock().failed = Some(text.clone());
                SpoolError::Failed(text)
            })
        });
        task.await.unwrap_or_else(|e| Err(SpoolError::Failed(e.to_string())))
    }
}

impl Shared {
    /// Open the directory, made if it is not there.
    pub(crate) fn open_shelf(&self, shelf: &mut Option<Shelf>) -> Result<(), OpenError> {
        if shelf.is_none() {
            let (found, counts) = recovery::open(&*self.disk)?;
            self.book.lock().counts.join(counts);
            *shelf = Some(found);
        }
        Ok(())
    }
}

impl Shared {
    /// Whether anything may be confirmed.
    pub(crate) fn check(&self) -> Result<(), String> {
        match &self.book.lock().poisoned {
            None => Ok(()),
            Some(reason) => Err(reason.clone()),
        }
    }

    /// What to say of a failure. After a failed sync, all that follows is refused.
    pub(crate) fn failed(&self, error: ShelfError) -> String {
        let (error, goes_on) = error.parts();
        let text = format!("{}: {error}", self.disk.describe());
        if !goes_on {
            let reason =
                format!("{text}; nothing more is taken or drained until the server is started again");
            tracing::error!(%reason, "the spool stops");
            self.book.lock().poisoned = Some(reason);
        }
        text
    }
}

impl Spool for FileSpool {
    fn put(&self, records: Vec<Spooled>) -> SpoolAnswer<'_, ()> {
        let (reply, answer) = oneshot::channel();
        let sent = self.send(Put { records, reply });
        Box::pin(async move {
            sent?;
            answer.await.unwrap_or_else(|_| Err(SpoolError::Failed("the writer has stopped".into())))
        })
    }

    fn front(&self, max_bytes: usize) -> SpoolAnswer<'_, SpoolBatch> {
        Box::pin(async move {
            let batch = self.with_shelf(move |shared, shelf| {
                let records = shelf.read(max_bytes).map_err(ShelfError::Write)?;
                let mut book = shared.book.lock();
                book.failed = None;
                let last = book.counts.records == records.len() as u64;
                Ok(SpoolBatch { end: shelf.taken.map_or(0, |place| place.seq), last, records })
            });
            Ok(batch.await?.unwrap_or(SpoolBatch { last: true, ..SpoolBatch::default() }))
        })
    }

    fn done(&self, batch: SpoolBatch) -> SpoolAnswer<'_, ()> {
        Box::pin(async move {
            let done = self.with_shelf(move |shared, shelf| {
                if shelf.taken.map(|place| place.seq) != Some(batch.end) {
                    return Err(ShelfError::Write(io::Error::other("another batch was taken since")));
                }
                shelf.done(&*shared.disk)?;
                shared.book.lock().counts.take(&batch.records);
                Ok(())
            });
            done.await.map(drop)
        })
    }

    fn holds(&self, lane: u64) -> bool {
        self.shared.book.lock().counts.holds(lane)
    }

    fn backup(&self) -> BackupAnswer<'_> {
        Box::pin(async move {
            let copy = self.with_shelf(|_, shelf| Ok(backup::Copy::of(shelf))).await;
            match copy.map_err(|e| BackupError::Failed(e.to_string()))? {
                Some(copy) => Ok(Box::new(copy) as _),
                None => Ok(Box::new(NoFiles) as _),
            }
        })
    }

    fn state(&self) -> SpoolState {
        let book = self.shared.book.lock();
        SpoolState {
            records: book.counts.records,
            bytes: book.counts.bytes,
            max_bytes: self.shared.options.max_bytes,
            failed: book.failed.clone(),
        }
    }
}
