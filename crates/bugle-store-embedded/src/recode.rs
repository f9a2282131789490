//! Writing the messages of a directory anew while no server uses it, for the change of an encryption key.
//!
//! Log file by log file: one that holds something to change is copied record by record under a temporary name, with a salt of
//! its own, synced, and renamed over the old one. Every file is whole before and after, and says the same in either state, so a crash
//! leaves a directory that opens; doing it again does the rest. Indexes of a file that was replaced have another salt: opening
//! makes new ones.

use std::sync::Arc;

use bugle_store::{Engine, Recode, Recoded};
use bytes::Bytes;

use crate::log::{LogFile, build_header, index_name, log_name, prints_name};
use crate::options::{EmbeddedOptions, OpenError};
use crate::record::{DEAD_UID, FIRST_UID, Frame, Ops, PAGE, Place, Record, build_record};
use crate::recovery::{LOCK, list, open_log};
use crate::rows::{decode_dead, encode_dead};
use crate::scan::Scan;
use crate::state::State;
use crate::{EmbeddedStore, checkpoint};
use bugle_disk::{Disk, OsDisk, remove_if_there};

/// Bytes between two syncs.
const SYNC_EVERY: u64 = 16 << 20;

/// Why the messages of a directory could not be written anew.
#[derive(Debug, thiserror::Error)]
pub enum RecodeError {
    /// The directory cannot be used.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A segment or dead letter cannot be changed; what was done before it is done.
    #[error("{file} at {offset}: {reason}")]
    Refused {
        /// The log file.
        file: String,
        /// Of the record.
        offset: u64,
        /// Why.
        reason: String,
    },
    /// A server was there in between.
    #[error("the data directory changed meanwhile: stop the server that uses it, and try again")]
    Changed,
}

impl From<std::io::Error> for RecodeError {
    fn from(error: std::io::Error) -> Self {
        Self::Open(error.into())
    }
}

/// Change the messages in a directory that exists and that no server uses. `progress` hears of every log file that is done.
/// With `write` unset messages stay as they are, and what would be changed is counted.
pub async fn recode(
    options: EmbeddedOptions,
    recode: Recode<'_>,
    write: bool,
    progress: &mut (dyn FnMut(Recoded) + Send),
) -> Result<Recoded, RecodeError> {
    if !options.dir.join("FORMAT").is_file() {
        let what = format!("{} is no data directory", options.dir.display());
        return Err(std::io::Error::new(std::io::ErrorKind::NotFound, what).into());
    }
    let disk: Arc<dyn Disk> = Arc::new(OsDisk::new(options.dir.clone()));
    recode_on(disk, options, recode, write, progress).await
}

/// The same on another disk than the operating system's.
pub async fn recode_on(
    disk: Arc<dyn Disk>,
    options: EmbeddedOptions,
    recode: Recode<'_>,
    write: bool,
    progress: &mut (dyn FnMut(Recoded) + Send),
) -> Result<Recoded, RecodeError> {
    // A checkpoint of everything, so that what is alive is known without a replay.
    settle(&disk, &options).await?;
    let mut total = Recoded::default();
    {
        let lock = disk.lock(LOCK).map_err(|_| OpenError::Locked(disk.describe()))?;
        let mut state = State::default();
        let listing = list(&*disk)?;
        let newest = *listing.checkpoints.last().ok_or(RecodeError::Changed)?;
        let loaded = checkpoint::load(&*disk, newest, &mut state)?;
        for id in listing.logs.range(loaded.start.file..) {
            if Scan::new(&*open_log(&*disk, *id)?)?.next()?.is_some() {
                return Err(RecodeError::Changed);
            }
        }
        for id in listing.logs.range(..loaded.start.file) {
            let log = open_log(&*disk, *id)?;
            let work = Work { disk: &*disk, state: &state, recode, log: &log };
            total = work.file(total, write)?;
            progress(total);
        }
        drop(lock);
    }
    if write && total.changed > 0 {
        settle(&disk, &options).await?;
    }
    Ok(total)
}

/// Open the store, which repairs and indexes what has to be, and close it again.
async fn settle(disk: &Arc<dyn Disk>, options: &EmbeddedOptions) -> Result<(), RecodeError> {
    let store = EmbeddedStore::open_on(disk.clone(), options.clone())?;
    let closed = store.close().await;
    closed.map_err(|error| std::io::Error::other(error.reason.to_string()).into())
}

/// One log file.
struct Work<'a> {
    disk: &'a dyn Disk,
    state: &'a State,
    recode: Recode<'a>,
    log: &'a LogFile,
}

impl Work<'_> {
    /// Count what is alive in the file and would be changed; then change it.
    fn file(&self, mut total: Recoded, write: bool) -> Result<Recoded, RecodeError> {
        let before = total.changed;
        let mut scan = Scan::new(self.log)?;
        while let Some((record, _)) = scan.next()? {
            for (_, frame) in record.frames.iter().filter(|(_, frame)| self.concerns(frame)) {
                total.count(self.changed(&record, frame)?.is_some());
            }
        }
        if write && total.changed > before {
            self.replace()?;
        }
        Ok(total)
    }

    /// Whether there are messages in a frame that somebody may still read.
    fn concerns(&self, frame: &Frame) -> bool {
        let messages = frame.uid == DEAD_UID || frame.uid >= FIRST_UID;
        messages && self.state.is_live(frame.uid, frame.base, frame.count)
    }

    /// The body that takes the place of a frame's, if it is to be another.
    fn changed(&self, record: &Record, frame: &Frame) -> Result<Option<Bytes>, RecodeError> {
        let refused = |reason: String| RecodeError::Refused {
            file: log_name(self.log.id),
            offset: record.position,
            reason,
        };
        if frame.uid == DEAD_UID {
            let mut letter =
                decode_dead(&frame.body).map_err(|_| refused("a dead letter makes no sense".to_owned()))?;
            let message = (self.recode)(letter.lane, &letter.message).map_err(refused)?;
            return Ok(message.map(|message| {
                letter.message = message;
                encode_dead(&letter)
            }));
        }
        let Some(lane) = self.state.lanes.get(frame.uid) else { return Ok(None) };
        (self.recode)(lane.lane.id, &frame.body).map_err(refused)
    }

    /// Put a changed copy in the place of the file.
    fn replace(&self) -> Result<(), RecodeError> {
        let id = self.log.id;
        let (temporary, salt) = (format!("{}.tmp", log_name(id)), fastrand::u64(..));
        let file = self.disk.create(&temporary)?;
        let (mut position, mut synced, mut buffer) = (PAGE, 0, Vec::new());
        let mut scan = Scan::new(self.log)?;
        while let Some((mut record, _)) = scan.next()? {
            let frames = std::mem::take(&mut record.frames);
            let mut changed = Vec::with_capacity(frames.len());
            for (_, mut frame) in frames {
                if self.concerns(&frame)
                    && let Some(body) = self.changed(&record, &frame)?
                {
                    frame.body = body;
                }
                changed.push(frame);
            }
            let (place, header) = (Place { file: id, salt, position }, record.header);
            build_record(
                place,
                header.seq,
                header.created_at,
                &Ops::encode(&record.ops),
                &changed,
                &mut buffer,
            );
            file.write_at(&buffer, position)?;
            position += buffer.len() as u64;
            if position - synced > SYNC_EVERY {
                file.sync()?;
                synced = position;
            }
        }
        file.write_at(&build_header(id, salt, position), 0)?;
        file.sync()?;
        self.disk.rename(&temporary, &log_name(id))?;
        self.disk.sync_dir()?;
        remove_if_there(self.disk, &index_name(id))?;
        remove_if_there(self.disk, &prints_name(id))?;
        self.disk.sync_dir()?;
        Ok(())
    }
}
