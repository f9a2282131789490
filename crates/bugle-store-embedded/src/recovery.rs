//! Opening a directory: lock, format, checkpoint, indexes below it, replay of the log from it on.
//!
//! Only the last record of the log can be unfinished, because there is one in flight at a time. So the first invalid
//! record ends the log if nothing valid follows it, the next file goes on with the next number, and the log reaches as
//! far as the checkpoint saw it. Anything else is damage and is refused.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use bugle_disk::{Disk, remove_if_there, write_whole};
use bytes::Bytes;

use crate::checkpoint;
use crate::index::{Index, MemFile, Older, Sealed};
use crate::log::{
    FORMAT_VERSION, FreeFiles, LogFile, free_name, index_name, log_name, number_in, prepare, prints_name,
};
use crate::options::{EmbeddedOptions, OpenError};
use crate::record::PAGE;
use crate::scan::Scan;
use crate::shared::{Core, ReplayStart, Shared};
use crate::state::State;

pub(crate) const FORMAT: &str = "FORMAT";
pub(crate) const LOCK: &str = "LOCK";
const FORMAT_NAME: &str = "bugle-embedded";
/// Size of the file begun when opening, at most: opening is quick, and many restarts do not fill the disk.
const FIRST_FILE: u64 = 8 << 20;
/// With more files than this replayed, the next commit asks for a checkpoint.
const MANY_FILES: usize = 3;

/// What the directory contains.
pub(crate) struct Listing {
    pub(crate) logs: BTreeSet<u64>,
    tables: BTreeSet<u64>,
    pub(crate) checkpoints: BTreeSet<u64>,
    free: BTreeSet<u64>,
    temporary: Vec<String>,
}

/// An opened directory.
pub(crate) struct Recovered {
    pub(crate) shared: Shared,
    pub(crate) file: Arc<LogFile>,
    pub(crate) since_checkpoint: u64,
}

pub(crate) fn open(disk: Arc<dyn Disk>, options: EmbeddedOptions) -> Result<Recovered, OpenError> {
    check_options(&options)?;
    disk.prepare()
        .map_err(|e| io::Error::new(e.kind(), format!("data directory {}: {e}", disk.describe())))?;
    let lock = disk.lock(LOCK).map_err(|e| match e.kind() {
        io::ErrorKind::WouldBlock => OpenError::Locked(disk.describe()),
        _ => e.into(),
    })?;
    let listing = list(&*disk)?;
    // After a kill, names may be visible that are not durable; what follows removes others because of them.
    disk.sync_dir()?;
    check_format(&*disk, &listing)?;
    listing.temporary.iter().try_for_each(|name| remove_if_there(&*disk, name))?;
    let mut state = State::default();
    let (start, end_seq) = match listing.checkpoints.last() {
        Some(number) => {
            let loaded = checkpoint::load(&*disk, *number, &mut state)?;
            (loaded.start, loaded.end_seq)
        }
        None => (ReplayStart { file: 0, seq: 1 }, 0),
    };
    let sealed = open_sealed(&*disk, &listing, start, options.filter_bytes)?;
    let mut replay = Replay::new(&*disk, state);
    for id in listing.logs.range(start.file..) {
        replay.file(*id)?;
    }
    replay.finish(end_seq)?;
    let Replay { state, frozen, empty, bytes, .. } = replay;
    let free = collect_free(&*disk, &options, &listing, &empty)?;
    let newest = listing.logs.last().copied().unwrap_or(0);
    let next = start.file.max(newest + 1);
    let size = options.file_size.min(FIRST_FILE);
    let file = Arc::new(prepare(&*disk, &FreeFiles::default(), next, size, &AtomicBool::new(false))?);
    let due = frozen.len() > MANY_FILES;
    let since_checkpoint = if due { options.checkpoint_every } else { bytes };
    let older = Older { frozen, sealed: Arc::new(sealed) };
    let core = Core { state, index: Index { active: MemFile::new(file.clone()), older } };
    let shared = Shared::new(core, disk, options, free, next + 1, lock);
    Ok(Recovered { shared, file, since_checkpoint })
}

fn check_options(options: &EmbeddedOptions) -> Result<(), OpenError> {
    let size = options.file_size;
    if size < 4 * PAGE || !size.is_multiple_of(PAGE) || size > 2 << 30 {
        return Err(OpenError::Option(format!("file_size must be whole pages of {PAGE}, 4 pages to 2 GiB")));
    }
    if options.pending_calls == 0 || options.commit_bytes == 0 {
        return Err(OpenError::Option("pending_calls and commit_bytes must be above 0".to_owned()));
    }
    Ok(())
}

pub(crate) fn list(disk: &dyn Disk) -> io::Result<Listing> {
    let names = disk.list()?;
    let numbers =
        |prefix: &str, suffix: &str| names.iter().filter_map(|n| number_in(n, prefix, suffix)).collect();
    let mut tables: BTreeSet<u64> = numbers("log-", ".idx");
    tables.extend(names.iter().filter_map(|n| number_in(n, "log-", ".fps")));
    Ok(Listing {
        logs: numbers("log-", ".log"),
        tables,
        checkpoints: numbers("checkpoint-", ".snap"),
        free: numbers("free-", ".free"),
        temporary: names.iter().filter(|n| n.ends_with(".tmp")).cloned().collect(),
    })
}

/// Check the format, or write it into an empty directory.
fn check_format(disk: &dyn Disk, listing: &Listing) -> Result<(), OpenError> {
    if parse_format(disk)?.is_some() {
        return Ok(());
    }
    if !listing.logs.is_empty() || !listing.checkpoints.is_empty() {
        return Err(OpenError::damaged(FORMAT, 0, "missing beside log files"));
    }
    write_whole(disk, FORMAT, format_text().as_bytes())?;
    Ok(())
}

/// What `FORMAT` contains.
pub(crate) fn format_text() -> String {
    format!("{FORMAT_NAME} {FORMAT_VERSION}\n")
}

/// The format of a directory, if it has one. A newer one is refused.
pub(crate) fn parse_format(disk: &dyn Disk) -> Result<Option<u32>, OpenError> {
    let file = match disk.open(FORMAT) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(e.into()),
    };
    let mut bytes = [0; 64];
    let read = file.read_at(&mut bytes, 0)?;
    let text = std::str::from_utf8(&bytes[..read]).unwrap_or_default();
    let version = text.strip_prefix(FORMAT_NAME).and_then(|rest| rest.trim().parse::<u32>().ok());
    match version {
        Some(FORMAT_VERSION) => Ok(version),
        Some(found) if found > FORMAT_VERSION => {
            Err(OpenError::NewerFormat { found, supported: FORMAT_VERSION })
        }
        _ => Err(OpenError::damaged(FORMAT, 0, "not a format of this store")),
    }
}

pub(crate) fn open_log(disk: &dyn Disk, id: u64) -> Result<Arc<LogFile>, OpenError> {
    match LogFile::open(disk, id) {
        Ok(log) => Ok(Arc::new(log)),
        Err(e) if e.kind() == io::ErrorKind::InvalidData => {
            Err(OpenError::damaged(&log_name(id), 0, "file header"))
        }
        Err(e) => Err(e.into()),
    }
}

/// Files below the checkpoint. They yield segments only: their cursors and catalog changes are history.
fn open_sealed(
    disk: &dyn Disk,
    listing: &Listing,
    start: ReplayStart,
    filter_bytes: usize,
) -> Result<Vec<Arc<Sealed>>, OpenError> {
    let mut sealed = Vec::new();
    for id in listing.logs.range(..start.file) {
        let log = open_log(disk, *id)?;
        let tables = match Sealed::open(disk, log.clone())? {
            Some(tables) => tables,
            None => rebuild(disk, log)?,
        };
        sealed.push(Arc::new(tables));
        Older::bound_filters(&sealed, filter_bytes);
    }
    Ok(sealed)
}

fn rebuild(disk: &dyn Disk, log: Arc<LogFile>) -> Result<Sealed, OpenError> {
    tracing::warn!(file = %log_name(log.id), "its index is missing or damaged and is built again");
    let mut index = MemFile::new(log.clone());
    let mut scan = Scan::new(&log)?;
    let mut last = 0;
    while let Some((record, _)) = scan.next()? {
        last = record.header.seq;
        record.frames.iter().for_each(|(start, frame)| index.add(frame, record.position as u32 + start));
    }
    scan.expect_no_more(last)?;
    Ok(index.seal(disk)?)
}

/// The log being applied.
struct Replay<'a> {
    disk: &'a dyn Disk,
    state: State,
    frozen: Vec<Arc<MemFile>>,
    /// Files without a valid record.
    empty: Vec<Arc<LogFile>>,
    /// Since the last file with a record, that included: (file, end).
    tail: Vec<(Arc<LogFile>, u64)>,
    last: Option<(Arc<LogFile>, u64, Bytes)>,
    bytes: u64,
}

impl<'a> Replay<'a> {
    fn new(disk: &'a dyn Disk, state: State) -> Self {
        Self { disk, state, frozen: Vec::new(), empty: Vec::new(), tail: Vec::new(), last: None, bytes: 0 }
    }

    fn file(&mut self, id: u64) -> Result<(), OpenError> {
        let log = open_log(self.disk, id)?;
        let mut index = MemFile::new(log.clone());
        let mut scan = Scan::new(&log)?;
        let mut any = false;
        while let Some((record, bytes)) = scan.next()? {
            let header = record.header;
            if header.seq != self.state.seq + 1 {
                let (file, at) = self.tail.last().cloned().unwrap_or((log.clone(), record.position));
                let what = format!("record {} is missing, {} follows", self.state.seq + 1, log_name(id));
                return Err(OpenError::damaged(&log_name(file.id), at, what));
            }
            if !any {
                self.tail.clear();
                any = true;
            }
            self.bytes += bytes.len() as u64;
            self.last = Some((log.clone(), record.position, bytes));
            self.state.stamp = self.state.stamp.max(header.created_at);
            record.ops.into_iter().for_each(|op| self.state.apply(op));
            for (start, frame) in &record.frames {
                let position = record.position + u64::from(*start);
                self.state.apply_segment(frame).map_err(|_| {
                    OpenError::damaged(&log_name(id), position, "a segment before this is missing")
                })?;
                index.add(frame, position as u32);
            }
            self.state.seq = header.seq;
        }
        self.tail.push((log.clone(), scan.position));
        if any {
            self.frozen.push(Arc::new(index));
        } else {
            self.empty.push(log);
        }
        Ok(())
    }

    /// The tail rule.
    fn finish(&self, end_seq: u64) -> Result<(), OpenError> {
        for (log, end) in &self.tail {
            let mut scan = Scan::new(log)?;
            scan.position = *end;
            scan.expect_no_more(self.state.seq)?;
        }
        if self.state.seq < end_seq {
            let (file, at) = self
                .tail
                .last()
                .map_or_else(|| ("the log".to_owned(), 0), |(log, end)| (log_name(log.id), *end));
            let what = format!("the log ends at record {}, the checkpoint saw {end_seq}", self.state.seq);
            return Err(OpenError::damaged(&file, at, what));
        }
        // It was read from the page cache perhaps, and what follows in the next file relies on it.
        if let Some((log, position, bytes)) = &self.last {
            log.file.write_at(bytes, *position)?;
            log.file.sync()?;
        }
        Ok(())
    }
}

/// Keep what can be used again, remove the rest.
fn collect_free(
    disk: &dyn Disk,
    options: &EmbeddedOptions,
    listing: &Listing,
    empty: &[Arc<LogFile>],
) -> io::Result<FreeFiles> {
    let mut names: Vec<String> = listing.free.iter().map(|id| free_name(*id)).collect();
    for log in empty {
        disk.rename(&log_name(log.id), &free_name(log.id))?;
        names.push(free_name(log.id));
    }
    let stale =
        listing.tables.iter().filter(|id| !listing.logs.contains(id) || empty.iter().any(|e| e.id == **id));
    for name in stale.flat_map(|id| [index_name(*id), prints_name(*id)]) {
        remove_if_there(disk, &name)?;
    }
    let newest = listing.checkpoints.last();
    for old in listing.checkpoints.iter().filter(|number| Some(*number) != newest) {
        disk.remove(&crate::log::checkpoint_name(*old))?;
    }
    let mut kept = Vec::new();
    for name in names {
        if kept.len() < options.recycle && disk.open(&name)?.size()? == options.file_size {
            kept.push(name);
        } else {
            disk.remove(&name)?;
        }
    }
    disk.sync_dir()?;
    let free = FreeFiles::default();
    kept.into_iter().for_each(|name| free.add(name));
    Ok(free)
}
