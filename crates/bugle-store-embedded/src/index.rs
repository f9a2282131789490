//! Where segments are: per log file, in memory until the file is sealed, in a table on disk after that.
//!
//! A look-up goes from the newest file to the oldest, so that of a segment that was copied forward to empty an old file
//! the later copy is found.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bugle_disk::{Disk, write_whole};
use bugle_store::{Offset, Timestamp};
use bytes::BufMut;
use parking_lot::Mutex;

use crate::codec::Fields;
use crate::fingerprints::{PRINTS, Prints, find_in};
use crate::log::{LogFile, index_name, log_name, prints_name};
use crate::record::Frame;
use crate::table::{self, Shape, Table};

/// Entries: uid, base (key, big-endian) · stamp, count, frame length, position.
pub(crate) const SEGMENTS: Shape = Shape { kind: 1, entry_len: 36, key_len: 16 };

/// Where one segment is, and what is asked of it without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) base: Offset,
    pub(crate) created_at: Timestamp,
    pub(crate) count: u32,
    pub(crate) len: u32,
    pub(crate) position: u32,
}

impl Entry {
    pub(crate) fn end(&self) -> Offset {
        self.base.saturating_add(Offset::from(self.count))
    }
}

/// An entry and the file it is in.
pub(crate) type Located = (Arc<LogFile>, Entry);

/// The index of one file in memory.
pub(crate) struct MemFile {
    pub(crate) file: Arc<LogFile>,
    segments: BTreeMap<(u64, Offset), Entry>,
    prints: Prints,
}

impl MemFile {
    pub(crate) fn new(file: Arc<LogFile>) -> Self {
        Self { file, segments: BTreeMap::new(), prints: Prints::default() }
    }

    pub(crate) fn len(&self) -> usize {
        self.segments.len()
    }

    pub(crate) fn prints_len(&self) -> usize {
        self.prints.len()
    }

    pub(crate) fn add(&mut self, frame: &Frame, position: u32) {
        let (base, count, len) = (frame.base, frame.count, frame.encoded_len() as u32);
        let entry = Entry { base, created_at: frame.created_at, count, len, position };
        self.segments.insert((frame.uid, base), entry);
        self.prints.add(frame.uid, base, &frame.fingerprints);
    }

    /// The entry that holds `offset` and at most `most - 1` that follow it without a gap, up to `to`.
    pub(crate) fn run(&self, uid: u64, offset: Offset, to: Offset, most: usize) -> Vec<Entry> {
        let mut out = Vec::new();
        let Some((_, first)) = self.segments.range((uid, 0)..=(uid, offset)).next_back() else { return out };
        if first.end() <= offset {
            return out;
        }
        let mut next = first.base;
        for (_, entry) in self.segments.range((uid, first.base)..=(uid, Offset::MAX)) {
            if entry.base != next || entry.base >= to || out.len() == most {
                break;
            }
            next = entry.end();
            out.push(*entry);
        }
        out
    }

    /// The sealed form: what goes into the two index files, by name.
    pub(crate) fn tables(&self) -> [(String, Vec<u8>); 2] {
        let (id, salt) = (self.file.id, self.file.salt);
        let mut entries = Vec::with_capacity(self.segments.len() * SEGMENTS.entry_len);
        let mut uids: Vec<u64> = Vec::new();
        for ((uid, base), entry) in &self.segments {
            if uids.last() != Some(uid) {
                uids.push(*uid);
            }
            entries.put_u64(*uid);
            entries.put_u64(*base);
            entries.put_i64_le(entry.created_at.0);
            entries.put_u32_le(entry.count);
            entries.put_u32_le(entry.len);
            entries.put_u32_le(entry.position);
        }
        [
            (prints_name(id), self.prints.to_table(id, salt)),
            (index_name(id), table::build(SEGMENTS, id, salt, &entries, &uids)),
        ]
    }

    /// Write the sealed form.
    pub(crate) fn seal(&self, disk: &dyn Disk) -> io::Result<Sealed> {
        for (name, bytes) in self.tables() {
            write_whole(disk, &name, &bytes)?;
        }
        Sealed::open(disk, self.file.clone())?.ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidData, "an index just written does not read back")
        })
    }
}

/// The index of a sealed file, on disk.
pub(crate) struct Sealed {
    pub(crate) file: Arc<LogFile>,
    segments: Table,
    prints: Table,
    /// Everything below this key was found dead, and dead stays dead: emptiness is found out in one pass in all.
    pub(crate) dead_below: Mutex<(u64, Offset)>,
    /// Everything alive was copied to later files.
    pub(crate) evacuated: AtomicBool,
    /// Something in it cannot be read: it is left as it is until the store is opened again.
    pub(crate) unreadable: AtomicBool,
}

impl Sealed {
    /// Open the tables of a log file. `None` = they must be rebuilt.
    pub(crate) fn open(disk: &dyn Disk, file: Arc<LogFile>) -> io::Result<Option<Self>> {
        let open = |name: String, shape| match disk.open(&name) {
            Ok(table) => Table::open(&name, table, shape, file.id, file.salt),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e),
        };
        let segments = open(index_name(file.id), SEGMENTS)?;
        let prints = open(prints_name(file.id), PRINTS)?;
        let (Some(segments), Some(prints)) = (segments, prints) else { return Ok(None) };
        let (dead_below, evacuated, unreadable) = Default::default();
        Ok(Some(Self { file, segments, prints, dead_below, evacuated, unreadable }))
    }

    /// Leave the file alone from now on, and say why.
    pub(crate) fn give_up(&self, error: &io::Error) {
        if !self.unreadable.swap(true, Ordering::AcqRel) {
            tracing::error!(file = %log_name(self.file.id), %error, "a log file cannot be read; its space is not given back");
        }
    }

    /// As [`MemFile::run`].
    pub(crate) fn run(&self, uid: u64, offset: Offset, to: Offset, most: usize) -> io::Result<Vec<Entry>> {
        let Some(first) = self.at_or_below(uid, offset)?.filter(|entry| entry.end() > offset) else {
            return Ok(Vec::new());
        };
        if most == 1 || first.end() >= to {
            return Ok(vec![first]);
        }
        let mut out = Vec::new();
        let mut next = first.base;
        self.visit_from(uid, first.base, |owner, entry| {
            let follows = owner == uid && entry.base == next && entry.base < to && out.len() < most;
            if follows {
                next = entry.end();
                out.push(entry);
            }
            follows
        })?;
        Ok(out)
    }

    /// The last segment of a lane in this file that begins at or below `offset`.
    fn at_or_below(&self, uid: u64, offset: Offset) -> io::Result<Option<Entry>> {
        let segments = self.segments.look()?;
        if !segments.may_contain(uid) {
            return Ok(None);
        }
        let Some(found) = segments.at_or_below(&segment_key(uid, offset))? else { return Ok(None) };
        let (owner, entry) = decode_entry(&found)?;
        Ok((owner == uid).then_some(entry))
    }

    /// Whether the file may hold a segment of a lane in this range: its last one that begins in or below the range
    /// reaches into it.
    pub(crate) fn holds(&self, uid: u64, range: &Range<Offset>) -> io::Result<bool> {
        let Some(last) = range.end.checked_sub(1).filter(|last| *last >= range.start) else {
            return Ok(false);
        };
        Ok(self.at_or_below(uid, last)?.is_some_and(|entry| entry.end() > range.start))
    }

    /// Bytes of memory that [`Self::release`] gives back.
    pub(crate) fn filter_bytes(&self) -> usize {
        self.prints.footer_len()
    }

    /// Keep the filter of the fingerprints out of memory. Those of the segments stay: reading needs them for every file,
    /// and they are small.
    pub(crate) fn release(&self) {
        self.prints.release();
    }

    /// Visit (uid, entry) in order from a key on until told to stop.
    pub(crate) fn visit_from(
        &self,
        uid: u64,
        base: Offset,
        mut visit: impl FnMut(u64, Entry) -> bool,
    ) -> io::Result<()> {
        let mut malformed = false;
        self.segments.look()?.visit_from(&segment_key(uid, base), |bytes| match decode_entry(bytes) {
            Ok((uid, entry)) => visit(uid, entry),
            Err(_) => {
                malformed = true;
                false
            }
        })?;
        if malformed { Err(io::ErrorKind::InvalidData.into()) } else { Ok(()) }
    }
}

fn segment_key(uid: u64, base: Offset) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&uid.to_be_bytes());
    key[8..].copy_from_slice(&base.to_be_bytes());
    key
}

fn decode_entry(bytes: &[u8]) -> io::Result<(u64, Entry)> {
    let read = || {
        let mut fields = Fields(bytes);
        let (uid, base) = (fields.u64()?.swap_bytes(), fields.u64()?.swap_bytes());
        let created_at = fields.time()?;
        Ok((
            uid,
            Entry { base, created_at, count: fields.u32()?, len: fields.u32()?, position: fields.u32()? },
        ))
    };
    read().map_err(|e: crate::codec::Malformed| io::Error::new(io::ErrorKind::InvalidData, e))
}

/// The files that no longer change; cheap to clone, so that they are searched without a lock.
#[derive(Clone, Default)]
pub(crate) struct Older {
    /// Full, but not sealed yet; oldest first.
    pub(crate) frozen: Vec<Arc<MemFile>>,
    /// Oldest first.
    pub(crate) sealed: Arc<Vec<Arc<Sealed>>>,
}

impl Older {
    /// As [`MemFile::run`], with the file.
    pub(crate) fn run(&self, uid: u64, offset: Offset, to: Offset, most: usize) -> io::Result<Vec<Located>> {
        for mem in self.frozen.iter().rev() {
            let run = mem.run(uid, offset, to, most);
            if !run.is_empty() {
                return Ok(run.into_iter().map(|entry| (mem.file.clone(), entry)).collect());
            }
        }
        for sealed in self.sealed.iter().rev() {
            let run = sealed.run(uid, offset, to, most)?;
            if !run.is_empty() {
                return Ok(run.into_iter().map(|entry| (sealed.file.clone(), entry)).collect());
            }
        }
        Ok(Vec::new())
    }

    /// Keep the filters of the newest files in memory, at most `most` bytes of them; they are asked most.
    pub(crate) fn bound_filters(sealed: &[Arc<Sealed>], most: usize) {
        let mut used = 0;
        for file in sealed.iter().rev() {
            used += file.filter_bytes();
            if used > most {
                file.release();
            }
        }
    }
}

/// All files.
pub(crate) struct Index {
    pub(crate) active: MemFile,
    pub(crate) older: Older,
}

impl Index {
    /// Where fingerprints occur in a lane's range in the active file: one list of offsets per fingerprint. The rest is
    /// found by [`find_older`], without the lock.
    pub(crate) fn find_active(&self, uid: u64, prints: &[u64]) -> Vec<Vec<Offset>> {
        let find = |print: &u64| {
            let mut out = Vec::new();
            self.active.prints.find(uid, *print, &mut out);
            out
        };
        prints.iter().map(find).collect()
    }
}

/// Add what older files know of a range of the lane, then sort and remove doubles. Offsets outside of it may be among
/// the found.
pub(crate) fn find_older(
    older: &Older,
    uid: u64,
    range: &Range<Offset>,
    prints: &[u64],
    found: &mut [Vec<Offset>],
) -> io::Result<()> {
    for mem in &older.frozen {
        prints.iter().zip(&mut *found).for_each(|(print, out)| mem.prints.find(uid, *print, out));
    }
    for sealed in older.sealed.iter() {
        if sealed.holds(uid, range)? {
            let table = sealed.prints.look()?;
            for (print, out) in prints.iter().zip(&mut *found) {
                find_in(&table, uid, *print, out)?;
            }
        }
    }
    for out in found {
        out.sort_unstable();
        out.dedup();
    }
    Ok(())
}
