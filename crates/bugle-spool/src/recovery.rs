//! Opening a directory: which groups are there, from where on they are still wanted, and whether all of them are whole.
//!
//! A group that was never finished, at the very end, is passed over: nobody was answered. Anything else that cannot be read is
//! refused with file and offset. What is read may come from the page cache of a process that was killed before its fsync;
//! so the position and the last group are written again and synced before anything relies on them.

use std::collections::BTreeMap;
use std::io;

use bugle_disk::{Disk, DiskFile};
use bytes::Bytes;

use crate::book::Counts;
use crate::format::{
    self, GROUP_HEADER, GroupHead, HEADER, Header, Place, SECOND_SLOT, SLOT, file_name, id_in, read_slot,
};
use crate::shelf::{Kept, Shelf};

pub(crate) const LOCK: &str = "LOCK";
pub(crate) const POSITION: &str = "POSITION";

/// Why a directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process has it.
    #[error("{0} is used by another server; give each server a spool directory of its own")]
    Locked(String),
    /// What is in it is not what was written.
    #[error("damaged: {dir}/{file} at {offset}: {what}")]
    Damaged {
        /// The directory.
        dir: String,
        /// The file.
        file: String,
        /// Where in it.
        offset: u64,
        /// What is wrong.
        what: &'static str,
    },
    /// The disk failed.
    #[error("{0}: {1}")]
    Io(String, io::Error),
}

/// A directory being opened.
struct Opening<'a> {
    disk: &'a dyn Disk,
    counts: Counts,
    files: BTreeMap<u64, Kept>,
}

/// Lock the directory, made if it is not there, and find what is in it.
pub(crate) fn open(disk: &dyn Disk) -> Result<(Shelf, Counts), OpenError> {
    let failed = |e| OpenError::Io(disk.describe(), e);
    disk.prepare().map_err(failed)?;
    let lock = disk.lock(LOCK).map_err(|e| match e.kind() {
        io::ErrorKind::WouldBlock => OpenError::Locked(disk.describe()),
        _ => failed(e),
    })?;
    let mut opening = Opening { disk, counts: Counts::default(), files: BTreeMap::new() };
    let names = disk.list().map_err(failed)?;
    let mut ids: Vec<u64> = names.iter().filter_map(|name| id_in(name)).collect();
    ids.sort_unstable();
    let mut position_file = None;
    let (mut generation, mut position) = (0, Place::default());
    if names.iter().any(|name| name == POSITION) {
        let file = disk.open(POSITION).map_err(failed)?;
        (generation, position) = opening.position(&*file)?;
        position_file = Some(file);
    }
    if let Some(last) = opening.unfinished(&ids)? {
        ids.pop();
        disk.remove(&file_name(last)).map_err(failed)?;
    }
    let end = opening.walk(&ids, position)?;
    let next_file = ids.last().copied().unwrap_or(0).max(position.file) + 1;
    let Opening { counts, files, .. } = opening;
    if position.seq == 0 {
        // Nothing was ever done with.
        let first = files.first_key_value();
        position =
            first.map_or(end, |(id, kept)| Place { seq: kept.header.first, file: *id, offset: HEADER });
    }
    let mut shelf = Shelf {
        _lock: lock,
        files,
        position,
        end,
        generation,
        position_file,
        next_file,
        active: None,
        taken: None,
    };
    shelf.settle(disk).map_err(failed)?;
    Ok((shelf, counts))
}

/// What a look found.
pub(crate) struct Seen {
    pub(crate) counts: Counts,
    /// Groups that are not done with.
    pub(crate) groups: u64,
    pub(crate) files: usize,
}

/// Find what is in a directory as opening it would, and change nothing.
pub(crate) fn look(disk: &dyn Disk) -> Result<Seen, OpenError> {
    let failed = |e| OpenError::Io(disk.describe(), e);
    let mut opening = Opening { disk, counts: Counts::default(), files: BTreeMap::new() };
    let names = disk.list().map_err(failed)?;
    let mut ids: Vec<u64> = names.iter().filter_map(|name| id_in(name)).collect();
    ids.sort_unstable();
    let mut position = Place::default();
    if names.iter().any(|name| name == POSITION) {
        position = opening.position(&*disk.open(POSITION).map_err(failed)?)?.1;
    }
    if opening.unfinished(&ids)?.is_some() {
        ids.pop();
    }
    let end = opening.walk(&ids, position)?;
    let first = if position.seq > 0 { position.seq } else { first_seq(&opening.files).unwrap_or(end.seq) };
    Ok(Seen { groups: end.seq - first, counts: opening.counts, files: ids.len() })
}

fn first_seq(files: &BTreeMap<u64, Kept>) -> Option<u64> {
    files.first_key_value().map(|(_, kept)| kept.header.first)
}

impl Opening<'_> {
    fn failed(&self, error: io::Error) -> OpenError {
        OpenError::Io(self.disk.describe(), error)
    }

    fn damaged(&self, file: impl Into<String>, offset: u64, what: &'static str) -> OpenError {
        OpenError::Damaged { dir: self.disk.describe(), file: file.into(), offset, what }
    }

    /// The latest position. A slot that was being written when power was lost leaves the other.
    fn position(&self, file: &dyn DiskFile) -> Result<(u64, Place), OpenError> {
        let mut slots = [[0; SLOT]; 2];
        for (slot, at) in slots.iter_mut().zip([0, SECOND_SLOT]) {
            file.read_at(slot, at).map_err(|e| self.failed(e))?;
        }
        let latest =
            slots.iter().filter_map(|slot| read_slot(slot)).max_by_key(|(generation, _)| *generation);
        match latest {
            Some(latest) => Ok(latest),
            // The first write of all may be torn; then nothing was done with yet.
            None if slots[0].iter().all(|byte| *byte == 0) || slots[1].iter().all(|byte| *byte == 0) => {
                Ok((0, Place::default()))
            }
            None => Err(self.damaged(POSITION, 0, "both positions")),
        }
    }

    /// The last file, if its making was interrupted: it has no group yet.
    fn unfinished(&self, ids: &[u64]) -> Result<Option<u64>, OpenError> {
        let Some(last) = ids.last().copied() else { return Ok(None) };
        let file = self.disk.open(&file_name(last)).map_err(|e| self.failed(e))?;
        let begun = file.size().map_err(|e| self.failed(e))? > HEADER;
        Ok((!begun && self.header(&*file, last)?.is_none()).then_some(last))
    }

    fn header(&self, file: &dyn DiskFile, id: u64) -> Result<Option<Header>, OpenError> {
        let mut bytes = [0; HEADER as usize];
        let read = file.read_at(&mut bytes, 0).map_err(|e| self.failed(e))?;
        Ok(Header::read(&bytes[..read]).filter(|header| header.id == id))
    }

    /// Count everything behind `position` and answer where it ends.
    fn walk(&mut self, ids: &[u64], position: Place) -> Result<Place, OpenError> {
        let mut next = position;
        for (i, id) in ids.iter().copied().enumerate() {
            let name = file_name(id);
            let file = self.disk.open(&name).map_err(|e| self.failed(e))?;
            let header = self.header(&*file, id)?.ok_or_else(|| self.damaged(&name, 0, "header"))?;
            if id < position.file {
                // Done with; kept so that it is removed.
                self.files.insert(id, Kept { header, file, end: 0 });
                continue;
            }
            let offset = if id == position.file { position.offset } else { HEADER };
            if id != position.file && next.seq != 0 && header.first != next.seq {
                return Err(self.damaged(file_name(next.file), next.offset, "a group is missing or damaged"));
            }
            let seq = if next.seq == 0 { header.first } else { next.seq };
            next = self.walk_file(&*file, header, Place { seq, file: id, offset })?;
            if i + 1 == ids.len() && self.group_behind(&*file, header, next)? {
                return Err(self.damaged(&name, next.offset, "a group is missing or damaged"));
            }
            self.files.insert(id, Kept { header, file, end: next.offset });
        }
        Ok(Place { seq: next.seq.max(1), ..next })
    }

    /// Count the groups of a file from a place on, up to the first that is not whole.
    fn walk_file(&mut self, file: &dyn DiskFile, header: Header, mut at: Place) -> Result<Place, OpenError> {
        while let Some((head, group)) =
            read_group(file, header.salt, at.offset).map_err(|e| self.failed(e))?
        {
            if head.seq != at.seq {
                break;
            }
            let name = || file_name(header.id);
            let records = format::records(&group, head.count)
                .ok_or_else(|| self.damaged(name(), at.offset, "records"))?;
            self.counts.add(&records);
            at.offset += u64::from(head.length);
            at.seq += 1;
        }
        Ok(at)
    }

    /// Whether a later group lies behind the end: then what ends there was durable once.
    fn group_behind(&self, file: &dyn DiskFile, header: Header, end: Place) -> Result<bool, OpenError> {
        let size = file.size().map_err(|e| self.failed(e))?;
        let mut rest = vec![0; size.saturating_sub(end.offset) as usize];
        let read = file.read_at(&mut rest, end.offset).map_err(|e| self.failed(e))?;
        rest.truncate(read);
        let later = |at: usize| {
            let head = GroupHead::read(&rest[at..]).filter(|head| head.seq >= end.seq)?;
            let group = rest.get(at..at + head.length as usize)?;
            head.fits(group, header.salt, end.offset + at as u64).then_some(())
        };
        Ok((0..rest.len().saturating_sub(GROUP_HEADER)).any(|at| later(at).is_some()))
    }
}

/// The group at an offset, if there is a whole one.
pub(crate) fn read_group(
    file: &dyn DiskFile,
    salt: u64,
    offset: u64,
) -> io::Result<Option<(GroupHead, Bytes)>> {
    let mut head = [0; GROUP_HEADER];
    let read = file.read_at(&mut head, offset)?;
    let Some(head) = GroupHead::read(&head[..read]) else { return Ok(None) };
    // A length that was never written may be any: no more is read than there is.
    if u64::from(head.length) > file.size()?.saturating_sub(offset) {
        return Ok(None);
    }
    let mut group = vec![0; head.length as usize];
    file.read_at(&mut group, offset)?;
    Ok(head.fits(&group, salt, offset).then(|| (head, group.into())))
}
