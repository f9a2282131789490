//! A copy of the directory, taken while commits go on.
//!
//! It is what the log held at one moment, with a checkpoint from before that moment: such a directory opens by itself, as after
//! a crash. Pages of the log are never written twice, so the files can be read while the last one grows; no lock is held
//! meanwhile. Only emptied files must not be given back, because they would be overwritten: that waits until the copy is taken.
//!
//! Every record is checked on its way, so damage is not copied silently. `FORMAT` comes last: a directory with log files and
//! without it is refused, so a copy that was broken off cannot be taken for a whole one.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use bugle_store::{Backup, BackupError, BackupPiece};
use bytes::Bytes;

use crate::log::{LogFile, checkpoint_name, index_name, log_name, number_in, prints_name};
use crate::record::{PAGE, RECORD_HEADER, RecordHeader};
use crate::recovery::{FORMAT, format_text};
use crate::scan::Scan;
use crate::shared::Shared;
use bugle_disk::{Disk, DiskFile, read_exact};

/// Bytes of a piece, about.
const PIECE: usize = 256 << 10;
/// Checkpoints replace each other; the newest is looked for so often.
const TRIES: usize = 10;

/// While it lives, no log file is given back.
struct Pin(Arc<Shared>);

impl Pin {
    /// Waits for a reclaim that is running. `None` = there is another.
    fn take(shared: &Arc<Shared>) -> Option<Self> {
        let mut pinned = shared.pinned.lock();
        let free = !std::mem::replace(&mut *pinned, true);
        free.then(|| Self(shared.clone()))
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        *self.0.pinned.lock() = false;
    }
}

/// A file to be copied.
enum Source {
    /// As it is: it never changes.
    Whole(String, Arc<dyn DiskFile>),
    /// The index of a sealed file, opened when it is its turn: there may be very many.
    Table(String),
    /// Its records, as far as they were there at the moment.
    Log(Arc<LogFile>),
    /// The format.
    Format,
}

/// Where the copy is in the file that has begun.
enum At {
    Between,
    Whole { file: Arc<dyn DiskFile>, position: u64, end: u64 },
    Log { log: Arc<LogFile>, position: u64, end: u64 },
    Format,
}

/// A copy being taken.
pub(crate) struct Copy {
    pin: Pin,
    sources: VecDeque<Source>,
    at: At,
    /// The last record of the moment.
    last_seq: u64,
}

/// Choose the moment and what must be copied.
pub(crate) fn begin(shared: &Arc<Shared>) -> Result<Copy, BackupError> {
    shared.check().map_err(|e| BackupError::Failed(e.reason))?;
    let pin = Pin::take(shared).ok_or(BackupError::Running)?;
    let failed = |e: io::Error| BackupError::Failed(format!("{}: {e}", shared.disk.describe()));
    let mut sources: VecDeque<Source> =
        newest_checkpoint(&*shared.disk).map_err(failed)?.into_iter().collect();
    // The checkpoint is older than this moment, and nothing it needs can go.
    let (sealed, later, last_seq) = {
        let core = shared.core.read();
        let frozen = core.index.older.frozen.iter().map(|file| file.file.clone());
        let later: Vec<Arc<LogFile>> = frozen.chain([core.index.active.file.clone()]).collect();
        (core.index.older.sealed.clone(), later, core.state.seq)
    };
    for sealed in sealed.iter() {
        let id = sealed.file.id;
        sources.extend([index_name(id), prints_name(id)].map(Source::Table));
        sources.push_back(Source::Log(sealed.file.clone()));
    }
    // Their indexes are not there yet, or would speak of what comes after the moment.
    sources.extend(later.into_iter().map(Source::Log));
    sources.push_back(Source::Format);
    Ok(Copy { pin, sources, at: At::Between, last_seq })
}

/// Open the newest checkpoint, if there is one.
fn newest_checkpoint(disk: &dyn Disk) -> io::Result<Option<Source>> {
    let mut tries = 0;
    loop {
        let names = disk.list()?;
        let newest = names.iter().filter_map(|name| number_in(name, "checkpoint-", ".snap")).max();
        let Some(name) = newest.map(checkpoint_name) else { return Ok(None) };
        match disk.open(&name) {
            Ok(file) => return Ok(Some(Source::Whole(name, file))),
            // A newer one has taken its place meanwhile.
            Err(e) if e.kind() == io::ErrorKind::NotFound && tries < TRIES => tries += 1,
            Err(e) => return Err(e),
        }
    }
}

impl Copy {
    fn begin_next(&mut self) -> io::Result<Option<BackupPiece>> {
        let Some(source) = self.sources.pop_front() else { return Ok(None) };
        let (name, size) = match source {
            Source::Table(name) => {
                let file = self.pin.0.disk.open(&name)?;
                let end = file.size()?;
                self.at = At::Whole { file, position: 0, end };
                (name, end)
            }
            Source::Whole(name, file) => {
                let end = file.size()?;
                self.at = At::Whole { file, position: 0, end };
                (name, end)
            }
            Source::Log(log) => {
                let (name, end) = (log_name(log.id), end_of(&log, self.last_seq)?);
                self.at = At::Log { log, position: 0, end };
                (name, end)
            }
            Source::Format => {
                self.at = At::Format;
                (FORMAT.to_owned(), format_text().len() as u64)
            }
        };
        Ok(Some(BackupPiece::File { name, size }))
    }
}

impl Backup for Copy {
    fn next(&mut self) -> io::Result<Option<BackupPiece>> {
        let piece = match &mut self.at {
            At::Between => return self.begin_next(),
            At::Format => {
                self.at = At::Between;
                return Ok(Some(BackupPiece::Bytes(format_text().into())));
            }
            At::Whole { position, end, .. } | At::Log { position, end, .. } if *position >= *end => {
                self.at = At::Between;
                return self.begin_next();
            }
            At::Whole { file, position, end } => {
                let mut bytes = vec![0; PIECE.min((*end - *position) as usize)];
                read_exact(&**file, &mut bytes, *position)?;
                *position += bytes.len() as u64;
                bytes
            }
            At::Log { log, position, end } => records(log, position, *end)?,
        };
        Ok(Some(BackupPiece::Bytes(Bytes::from(piece))))
    }
}

/// Where the records up to `last_seq` end. What an earlier life of a recycled file left behind carries another file's id.
fn end_of(log: &LogFile, last_seq: u64) -> io::Result<u64> {
    let mut position = PAGE;
    let mut header = [0; RECORD_HEADER];
    while log.file.read_at(&mut header, position)? == header.len()
        && let Some(found) = RecordHeader::peek(&header)
        && found.file == log.id
        && found.seq <= last_seq
    {
        position += u64::from(found.len).next_multiple_of(PAGE);
    }
    Ok(position)
}

/// The next whole records, checked, as they are in the file; before the first one, its header.
fn records(log: &LogFile, position: &mut u64, end: u64) -> io::Result<Vec<u8>> {
    let mut out = Vec::new();
    if *position == 0 {
        out.resize(PAGE as usize, 0);
        read_exact(&*log.file, &mut out, 0)?;
        *position = PAGE;
    }
    let mut scan = Scan::new(log)?;
    scan.position = *position;
    while scan.position < end && out.len() < PIECE {
        let damaged = |at: u64| {
            let what = format!("damaged: {} at {at}: a record is not what was written", log_name(log.id));
            io::Error::new(io::ErrorKind::InvalidData, what)
        };
        let at = scan.position;
        let next = scan.next().map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e.to_string()))?;
        let (_, bytes) = next.filter(|_| scan.position <= end).ok_or_else(|| damaged(at))?;
        out.extend_from_slice(&bytes);
        out.resize(out.len().next_multiple_of(PAGE as usize), 0);
    }
    *position = scan.position;
    Ok(out)
}
