//! Group commit: one thread takes everything that waits, makes one record of it, writes it, syncs it, makes it visible
//! and answers. Nothing is answered or seen before it is durable.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, SyncSender};
use std::thread::JoinHandle;
use std::time::Duration;

use bugle_store::{Segment, Unavailable};
use tokio::sync::{mpsc, oneshot};

use crate::evaluate::Evaluation;
use crate::index::MemFile;
use crate::log::LogFile;
use crate::maintenance;
use crate::op::Op;
use crate::record::{FIRST_UID, Frame, Ops, PAGE, Place, build_record};
use crate::shared::{ReplayStart, Shared};

/// Bytes copied forward per commit, so that emptying old files never slows a commit much.
const EVACUATE_BYTES: usize = 128 << 10;
/// Positions in a file are 32 bits; no call comes near.
const LARGEST_RECORD: usize = 1 << 30;
/// Files waiting to be sealed before the writer waits too: their indexes are in memory.
const MOST_FROZEN: usize = 8;

/// Tells a caller how it went, once that is known.
pub(crate) type Deliver = Box<dyn FnOnce(Result<(), Unavailable>) + Send>;
/// Judges a call and stages its changes.
pub(crate) type Work = Box<dyn FnOnce(&mut Evaluation<'_>) -> Deliver + Send>;

/// What the writer is sent.
pub(crate) enum Message {
    /// A call that changes something.
    Change {
        /// About how much it adds to a record.
        bytes: usize,
        /// Judged against durable state only, in a record of its own.
        alone: bool,
        work: Work,
    },
    /// Finish, checkpoint and stop.
    Close(oneshot::Sender<Result<(), Unavailable>>),
}

/// The threads beside the writer.
pub(crate) struct Background {
    /// Prepared files, one ahead.
    pub(crate) files: Receiver<io::Result<LogFile>>,
    pub(crate) poke: SyncSender<()>,
    pub(crate) threads: Vec<JoinHandle<()>>,
}

/// The writer thread's own.
pub(crate) struct Writer {
    pub(crate) shared: Arc<Shared>,
    pub(crate) background: Option<Background>,
    pub(crate) file: Arc<LogFile>,
    pub(crate) position: u64,
    pub(crate) since_checkpoint: u64,
    pub(crate) buffer: Vec<u8>,
}

impl Writer {
    /// Serve until closed or abandoned.
    pub(crate) fn run(mut self, mut calls: mpsc::Receiver<Message>) {
        while let Some(first) = calls.blocking_recv() {
            let mut closing = None;
            let (mut together, mut alone) = (Vec::new(), Vec::new());
            let (mut gathered, mut count) = (0, 0);
            let mut next = Some(first);
            while let Some(message) = next {
                match message {
                    Message::Change { bytes, alone: by_itself, work } => {
                        gathered += bytes;
                        count += 1;
                        if by_itself { alone.push(work) } else { together.push(work) }
                    }
                    Message::Close(reply) => {
                        closing = Some(reply);
                        break;
                    }
                }
                let room =
                    gathered < self.shared.options.commit_bytes && count < self.shared.options.pending_calls;
                next = if room { calls.try_recv().ok() } else { None };
            }
            self.commit(together);
            // Calls that were waiting at the same time may take effect in any order.
            alone.into_iter().for_each(|work| self.commit(vec![work]));
            if let Some(reply) = closing {
                calls.close();
                let _ = reply.send(self.close());
                return;
            }
        }
        self.stop_background();
    }

    fn commit(&mut self, works: Vec<Work>) {
        if works.is_empty() {
            return;
        }
        let shared = self.shared.clone();
        let mut evaluation = Evaluation::new(&shared);
        let deliveries: Vec<Deliver> = works.into_iter().map(|work| work(&mut evaluation)).collect();
        let (ops, frames) = (evaluation.ops, evaluation.frames);
        let outcome = self.shared.check().and_then(|()| self.write(ops, frames));
        deliveries.into_iter().for_each(|deliver| deliver(outcome.clone()));
        if outcome.is_ok() {
            let _ = self.after_commit();
        }
    }

    fn write(&mut self, ops: Vec<Op>, mut frames: Vec<Frame>) -> Result<(), Unavailable> {
        if ops.is_empty() && frames.is_empty() {
            return Ok(());
        }
        let evacuated = self.add_evacuees(&mut frames);
        let encoded = Ops::encode(&ops);
        let len = encoded.record_len(&frames);
        if len > LARGEST_RECORD {
            return Err(Unavailable::new(format!("a call of {len} bytes is too large")));
        }
        let full = {
            let core = self.shared.core.read();
            core.index.active.len() >= self.shared.options.file_segments
                || core.index.active.prints_len() >= self.shared.options.file_fingerprints
        };
        if self.position > PAGE && (full || self.position + len as u64 > self.file.size) {
            self.rotate()?;
        }
        let place = Place { file: self.file.id, salt: self.file.salt, position: self.position };
        let seq = self.shared.core.read().state.seq + 1;
        let starts = build_record(place, seq, self.shared.now(), &encoded, &frames, &mut self.buffer);
        let written =
            self.file.file.write_at(&self.buffer, self.position).and_then(|()| self.file.file.sync());
        written.map_err(|e| self.shared.poison("writing the log", &e))?;
        self.publish(seq, ops, frames, &starts);
        self.position += self.buffer.len() as u64;
        self.since_checkpoint += self.buffer.len() as u64;
        self.finish_evacuation(evacuated);
        if self.buffer.capacity() > 4 * self.shared.options.commit_bytes {
            self.buffer = Vec::new();
        }
        Ok(())
    }

    /// Make a durable record visible.
    fn publish(&mut self, seq: u64, ops: Vec<Op>, frames: Vec<Frame>, starts: &[u32]) {
        {
            let mut cache = self.shared.cache.lock();
            for frame in frames.iter().filter(|frame| frame.uid >= FIRST_UID) {
                let Frame { uid, base, count, id, created_at, ref body, .. } = *frame;
                cache.add(uid, Segment { base, count, created_at, id, body: body.clone() });
            }
        }
        let mut core = self.shared.core.write();
        ops.into_iter().for_each(|op| core.state.apply(op));
        for (frame, start) in frames.iter().zip(starts) {
            core.index.active.add(frame, self.position as u32 + start);
            core.state.apply_segment(frame).expect("the writer assigns offsets without gaps");
        }
        core.state.seq = seq;
    }

    /// Go on in a new file.
    fn rotate(&mut self) -> Result<(), Unavailable> {
        let next = match &self.background {
            Some(background) => background
                .files
                .recv()
                .unwrap_or_else(|_| Err(io::Error::other("the thread that prepares log files has ended"))),
            None => self.shared.prepare_next(),
        };
        let file = Arc::new(next.map_err(|e| self.shared.poison("preparing a log file", &e))?);
        {
            let mut core = self.shared.core.write();
            let full = std::mem::replace(&mut core.index.active, MemFile::new(file.clone()));
            core.index.older.frozen.push(Arc::new(full));
        }
        self.file = file;
        self.position = PAGE;
        self.wait_for_sealing();
        Ok(())
    }

    fn wait_for_sealing(&self) {
        if self.background.is_none() {
            return;
        }
        let mut wanted = self.shared.wanted.lock();
        while self.shared.check().is_ok() {
            self.poke();
            if self.shared.core.read().index.older.frozen.len() <= MOST_FROZEN {
                return;
            }
            self.shared.sealed.wait_for(&mut wanted, Duration::from_millis(100));
        }
    }

    fn after_commit(&mut self) -> Result<(), Unavailable> {
        let due = self.since_checkpoint >= self.shared.options.checkpoint_every;
        if due && self.shared.wanted.lock().is_none() {
            // Replay begins with a file, so the checkpoint does too.
            self.rotate()?;
            let seq = self.shared.core.read().state.seq + 1;
            *self.shared.wanted.lock() = Some(ReplayStart { file: self.file.id, seq });
            self.since_checkpoint = 0;
            self.poke();
        }
        match &self.background {
            Some(_) => Ok(()),
            None => maintenance::run(&self.shared).map_err(|e| self.shared.poison("maintenance", &e)),
        }
    }

    /// There is something to do for the thread beside the writer. Nobody else wakes it: after most commits there is nothing.
    fn poke(&self) {
        if let Some(background) = &self.background {
            let _ = background.poke.try_send(());
        }
    }

    /// Take along some of what still lives in a file that is to be emptied. Answers how many entries were dealt with.
    fn add_evacuees(&self, frames: &mut Vec<Frame>) -> usize {
        let mut slot = self.shared.evacuation.lock();
        let Some(evacuation) = slot.as_ref() else { return 0 };
        let (mut dealt, mut bytes) = (0, 0);
        for (uid, entry) in evacuation.rest.iter().rev() {
            if bytes > 0 && bytes + entry.len as usize > EVACUATE_BYTES {
                break;
            }
            dealt += 1;
            if !self.shared.core.read().state.is_live(*uid, entry.base, entry.count) {
                continue;
            }
            match evacuation.from.file.frame(entry.position, entry.len) {
                Ok(frame) => frames.push(frame),
                Err(e) => {
                    // The file stays. What was copied already is there twice, which does no harm.
                    evacuation.from.give_up(&e);
                    *slot = None;
                    return 0;
                }
            }
            bytes += entry.len as usize;
        }
        dealt
    }

    fn finish_evacuation(&self, dealt: usize) {
        let mut slot = self.shared.evacuation.lock();
        let Some(evacuation) = slot.as_mut() else { return };
        let left = evacuation.rest.len().saturating_sub(dealt);
        evacuation.rest.truncate(left);
        if left == 0 {
            evacuation.from.evacuated.store(true, Ordering::Release);
            *slot = None;
        }
    }

    fn stop_background(&mut self) {
        let Some(Background { files, poke, threads }) = self.background.take() else { return };
        self.shared.stopping.store(true, Ordering::Relaxed);
        drop((files, poke));
        for thread in threads {
            let _ = thread.join();
        }
    }

    /// Leave a directory that opens without replay.
    fn close(&mut self) -> Result<(), Unavailable> {
        self.stop_background();
        let outcome = self.shared.check().and_then(|()| {
            {
                let mut core = self.shared.core.write();
                let empty = MemFile::new(self.file.clone());
                let last = std::mem::replace(&mut core.index.active, empty);
                core.index.older.frozen.push(Arc::new(last));
                let start = ReplayStart { file: self.file.id + 1, seq: core.state.seq + 1 };
                *self.shared.wanted.lock() = Some(start);
            }
            maintenance::run(&self.shared).map_err(|e| self.shared.poison("closing", &e))
        });
        self.shared.mark_closed();
        self.shared.lock.lock().take();
        outcome
    }
}
