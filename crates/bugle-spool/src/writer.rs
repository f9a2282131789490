//! The thread that writes: whatever waits when it is free goes out as one group.

use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use bugle_store::{SpoolError, Spooled};
use tokio::sync::{mpsc, oneshot};

use crate::format::size_of;
use crate::{FileSpool, Shared};

/// Puts that may wait; there are as many as requests, which are bounded too.
const WAITING: usize = 16_384;

/// Records on their way.
pub(crate) struct Put {
    pub(crate) records: Vec<Spooled>,
    pub(crate) reply: oneshot::Sender<Result<(), SpoolError>>,
}

/// The thread, and the way to it.
pub(crate) struct Writer {
    puts: mpsc::Sender<Put>,
    thread: JoinHandle<()>,
}

impl Writer {
    fn start(shared: &Arc<Shared>) -> io::Result<Self> {
        let (puts, waiting) = mpsc::channel(WAITING);
        let shared = shared.clone();
        let thread =
            thread::Builder::new().name("bugle-spool".into()).spawn(move || shared.write(waiting))?;
        Ok(Self { puts, thread })
    }
}

impl FileSpool {
    /// Count the records and hand them to the writer.
    pub(crate) fn send(&self, put: Put) -> Result<(), SpoolError> {
        let mut writer = self.writer.lock();
        let writer = match &mut *writer {
            Some(writer) => writer,
            none => none.insert(Writer::start(&self.shared).map_err(|e| SpoolError::Failed(e.to_string()))?),
        };
        let mut book = self.shared.book.lock();
        let (bytes, max) = (book.counts.bytes, self.shared.options.max_bytes);
        if bytes + size_of(&put.records) > max {
            return Err(SpoolError::Full { bytes, max });
        }
        let permit = writer.puts.try_reserve().map_err(|_| SpoolError::Full { bytes, max })?;
        book.counts.add(&put.records);
        drop(book);
        permit.send(put);
        Ok(())
    }
}

impl Drop for FileSpool {
    /// What was answered is durable; what waits is written before the thread ends.
    fn drop(&mut self) {
        if let Some(Writer { puts, thread }) = self.writer.lock().take() {
            drop(puts);
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn write(&self, mut waiting: mpsc::Receiver<Put>) {
        while let Some(first) = waiting.blocking_recv() {
            let mut bytes = size_of(&first.records);
            let mut puts = vec![first];
            while bytes < self.options.group_bytes
                && let Ok(put) = waiting.try_recv()
            {
                bytes += size_of(&put.records);
                puts.push(put);
            }
            let outcome = self.commit(&puts);
            let mut book = self.book.lock();
            match &outcome {
                Ok(()) => book.failed = None,
                Err(reason) => {
                    tracing::error!(%reason, "messages could not be kept in the spool");
                    book.failed = Some(reason.clone());
                    puts.iter().for_each(|put| book.counts.take(&put.records));
                }
            }
            drop(book);
            for put in puts {
                let _ = put.reply.send(outcome.clone().map_err(SpoolError::Failed));
            }
        }
    }

    /// Make the records of these puts durable, in order.
    fn commit(&self, puts: &[Put]) -> Result<(), String> {
        let mut shelf = self.shelf.lock();
        self.open_shelf(&mut shelf).map_err(|e| e.to_string())?;
        let Some(shelf) = shelf.as_mut() else { return Err("the directory is not open".into()) };
        self.check()?;
        let records = puts.iter().flat_map(|put| &put.records);
        shelf.add(&*self.disk, records, self.options.file_bytes).map_err(|error| self.failed(error))
    }
}
