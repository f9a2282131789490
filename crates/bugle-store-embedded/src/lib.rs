//! The embedded engine: a store in one directory, with nothing to set up.
//!
//! An append-only log is the write-ahead log and the store at once. One record per group commit carries message bodies,
//! cursors, trims and catalog changes; it is written once and synced once, then everything in it is visible and
//! answered. `docs/format.md` describes the files.
//!
//! Modules in reading order; each uses only those above it.

mod backup;
mod cache;
mod catalog;
mod checkpoint;
mod codec;
mod doctor;
mod evaluate;
mod fingerprints;
#[cfg(test)]
mod golden_tests;
mod index;
mod log;
mod maintenance;
mod op;
mod options;
mod read;
mod recode;
mod record;
mod recovery;
mod rows;
mod scan;
mod shared;
mod slots;
mod state;
mod store;
mod table;
mod tally;
mod writer;

#[cfg(feature = "fuzz")]
pub mod fuzz;

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use bugle_disk::{Disk, OsDisk};
use bugle_store::Unavailable;
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};

pub use doctor::examine;
pub use options::{EmbeddedOptions, OpenError};
pub use recode::{RecodeError, recode, recode_on};

use evaluate::Evaluation;
use log::LogFile;
use record::PAGE;
use recovery::Recovered;
use shared::Shared;
use writer::{Background, Message, Writer};

/// A store in one directory. A single process owns it.
pub struct EmbeddedStore {
    shared: Arc<Shared>,
    /// `None` only while being dropped.
    calls: Option<mpsc::Sender<Message>>,
    writer: Mutex<Option<JoinHandle<()>>>,
}

impl EmbeddedStore {
    /// Open the directory, creating it if needed. Reads what a restart must, so it takes a while after a crash.
    pub fn open(options: EmbeddedOptions) -> Result<Arc<Self>, OpenError> {
        let disk = Arc::new(OsDisk::new(&options.dir));
        Self::open_on(disk, options)
    }

    /// Open on another disk than the operating system's (`options.dir` is not looked at).
    pub fn open_on(disk: Arc<dyn Disk>, options: EmbeddedOptions) -> Result<Arc<Self>, OpenError> {
        let Recovered { shared, file, since_checkpoint } = recovery::open(disk, options)?;
        let shared = Arc::new(shared);
        let background = if shared.options.background { Some(start_background(&shared)?) } else { None };
        let (calls, waiting) = mpsc::channel(shared.options.pending_calls);
        let writer = Writer {
            shared: shared.clone(),
            background,
            file,
            position: PAGE,
            since_checkpoint,
            buffer: Vec::new(),
        };
        let thread = thread::Builder::new().name("bugle-log".into()).spawn(move || writer.run(waiting))?;
        Ok(Arc::new(Self { shared, calls: Some(calls), writer: Mutex::new(Some(thread)) }))
    }

    /// Calls that wait for the writer; for metrics.
    pub fn waiting_calls(&self) -> usize {
        self.calls.as_ref().map_or(0, |calls| calls.max_capacity() - calls.capacity())
    }

    /// Let the writer judge and make a change, and answer when it is durable. `alone`: judged against durable state in
    /// a record of its own.
    async fn change<T: Send + 'static>(
        &self,
        bytes: usize,
        alone: bool,
        judge: impl FnOnce(&mut Evaluation<'_>) -> Result<T, Unavailable> + Send + 'static,
    ) -> Result<T, Unavailable> {
        self.shared.check()?;
        let (reply, answer) = oneshot::channel();
        let work: writer::Work = Box::new(move |evaluation| {
            let outcome = judge(evaluation);
            Box::new(move |durable| {
                let _ = reply.send(durable.and(outcome));
            })
        });
        self.send(Message::Change { bytes, alone, work }).await?;
        answer.await.map_err(|_| self.gone())?
    }

    async fn send(&self, message: Message) -> Result<(), Unavailable> {
        let calls = self.calls.as_ref().ok_or_else(|| self.gone())?;
        calls.send(message).await.map_err(|_| self.gone())
    }

    fn gone(&self) -> Unavailable {
        self.shared.check().err().unwrap_or_else(|| Unavailable::new("the log writer has stopped"))
    }

    /// Look something up, on a thread that may wait for the disk if `on_disk`.
    async fn look_up<T: Send + 'static>(
        &self,
        on_disk: bool,
        look: impl FnOnce(&Shared) -> io::Result<T> + Send + 'static,
    ) -> Result<T, Unavailable> {
        self.shared.check()?;
        let found = if on_disk {
            let shared = self.shared.clone();
            let task = tokio::task::spawn_blocking(move || look(&shared));
            task.await.map_err(|e| Unavailable::new(format!("reading: {e}")))?
        } else {
            look(&self.shared)
        };
        found.map_err(|e| Unavailable::new(format!("reading: {e}")))
    }

    /// Whether a look-up in the index may have to read files.
    fn index_on_disk(&self) -> bool {
        !self.shared.core.read().index.older.sealed.is_empty()
    }
}

impl Drop for EmbeddedStore {
    /// Without [`bugle_store::Engine::close`]: what was answered is durable, the next opening replays it.
    fn drop(&mut self) {
        self.calls = None;
        if let Some(writer) = self.writer.lock().take() {
            let _ = writer.join();
        }
        self.shared.mark_closed();
        self.shared.lock.lock().take();
    }
}

fn start_background(shared: &Arc<Shared>) -> io::Result<Background> {
    // Without room in the channel, one file is always ready and no more.
    let (ready, files) = sync_channel(0);
    let (poke, pokes) = sync_channel(1);
    let (for_files, for_rest) = (shared.clone(), shared.clone());
    let preparing =
        thread::Builder::new().name("bugle-files".into()).spawn(move || prepare_files(&for_files, &ready))?;
    let maintaining =
        thread::Builder::new().name("bugle-maintain".into()).spawn(move || maintain(&for_rest, &pokes))?;
    let _ = poke.try_send(());
    Ok(Background { files, poke, threads: vec![preparing, maintaining] })
}

fn prepare_files(shared: &Shared, ready: &SyncSender<io::Result<LogFile>>) {
    loop {
        let next = shared.prepare_next();
        let failed = next.is_err();
        if ready.send(next).is_err() || failed {
            return;
        }
    }
}

fn maintain(shared: &Shared, pokes: &Receiver<()>) {
    while pokes.recv().is_ok() && shared.check().is_ok() {
        if let Err(e) = maintenance::run(shared) {
            shared.poison("maintenance", &e);
        }
    }
}
