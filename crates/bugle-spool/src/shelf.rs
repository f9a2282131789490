//! The files of an open spool: where the next group goes, which comes next, and what can be removed.

use std::any::Any;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use bugle_disk::{Disk, DiskFile};
use bugle_store::Spooled;

use crate::format::{self, HEADER, Header, Place, SECOND_SLOT, file_name, slot};
use crate::recovery::{POSITION, read_group};

/// A file.
pub(crate) struct Kept {
    pub(crate) header: Header,
    pub(crate) file: Arc<dyn DiskFile>,
    /// End of its groups.
    pub(crate) end: u64,
}

/// See the module.
pub(crate) struct Shelf {
    pub(crate) _lock: Box<dyn Any + Send + Sync>,
    pub(crate) files: BTreeMap<u64, Kept>,
    /// Everything before it is done with.
    pub(crate) position: Place,
    /// Everything before it is durable.
    pub(crate) end: Place,
    /// Of the position as stored.
    pub(crate) generation: u64,
    pub(crate) position_file: Option<Arc<dyn DiskFile>>,
    pub(crate) next_file: u64,
    /// The file that groups are added to. One of an earlier run never is.
    pub(crate) active: Option<u64>,
    /// Where what was read last ends.
    pub(crate) taken: Option<Place>,
}

/// Why something could not be made durable.
pub(crate) enum ShelfError {
    /// It is not there; the next may be.
    Write(io::Error),
    /// Nobody knows what is there, and no later sync would tell.
    Sync(io::Error),
}

impl ShelfError {
    /// The error, and whether the spool may go on.
    pub(crate) fn parts(self) -> (io::Error, bool) {
        match self {
            ShelfError::Write(error) => (error, true),
            ShelfError::Sync(error) => (error, false),
        }
    }
}

impl Shelf {
    /// Make durable what was found by opening, and remove what is done with.
    pub(crate) fn settle(&mut self, disk: &dyn Disk) -> io::Result<()> {
        disk.sync_dir()?;
        if let Some(kept) = self.files.get(&self.end.file) {
            let mut at = if self.position.file == self.end.file { self.position.offset } else { HEADER };
            let mut last = None;
            while at < kept.end
                && let Some((head, group)) = read_group(&*kept.file, kept.header.salt, at)?
            {
                last = Some((at, group));
                at += u64::from(head.length);
            }
            // Also the header: it may be all that there is, of a file whose first sync failed.
            kept.file.write_at(&kept.header.to_bytes(), 0)?;
            if let Some((at, group)) = last {
                kept.file.write_at(&group, at)?;
            }
            kept.file.sync()?;
        }
        if self.generation > 0 {
            self.store(disk, self.position).map_err(|error| error.parts().0)?;
        }
        self.tidy(disk);
        Ok(())
    }

    /// Add a group and make it durable.
    pub(crate) fn add<'a>(
        &mut self,
        disk: &dyn Disk,
        records: impl Iterator<Item = &'a Spooled>,
        file_bytes: u64,
    ) -> Result<(), ShelfError> {
        let full = |kept: &Kept| kept.end >= file_bytes;
        if self.active.and_then(|id| self.files.get(&id)).is_none_or(full) {
            self.begin_file(disk)?;
        }
        let Some(kept) = self.active.and_then(|id| self.files.get_mut(&id)) else {
            return Err(ShelfError::Write(io::ErrorKind::NotFound.into()));
        };
        let group = format::group(records, self.end.seq, kept.header.salt, kept.end);
        kept.file.write_at(&group, kept.end).map_err(ShelfError::Write)?;
        kept.file.sync().map_err(ShelfError::Sync)?;
        kept.end += group.len() as u64;
        self.end = Place { seq: self.end.seq + 1, file: kept.header.id, offset: kept.end };
        Ok(())
    }

    fn begin_file(&mut self, disk: &dyn Disk) -> Result<(), ShelfError> {
        let header = Header { id: self.next_file, salt: fastrand::u64(..), first: self.end.seq };
        let file = disk.create(&file_name(header.id)).map_err(ShelfError::Write)?;
        file.write_at(&header.to_bytes(), 0).map_err(ShelfError::Write)?;
        file.sync().and_then(|()| disk.sync_dir()).map_err(ShelfError::Sync)?;
        self.next_file += 1;
        self.files.insert(header.id, Kept { header, file, end: HEADER });
        self.active = Some(header.id);
        Ok(())
    }

    /// The oldest groups that are not done with.
    pub(crate) fn read(&mut self, max_bytes: usize) -> io::Result<Vec<Spooled>> {
        let mut at = self.position;
        let (mut records, mut bytes) = (Vec::new(), 0);
        while at.seq < self.end.seq && (records.is_empty() || bytes < max_bytes) {
            at = self.forward(at);
            let damaged = |what: &str| {
                let text = format!("damaged: {} at {}: {what}", file_name(at.file), at.offset);
                io::Error::new(io::ErrorKind::InvalidData, text)
            };
            let kept = self.files.get(&at.file).ok_or_else(|| damaged("the file is missing"))?;
            let group = read_group(&*kept.file, kept.header.salt, at.offset)?;
            let (head, group) =
                group.filter(|(head, _)| head.seq == at.seq).ok_or_else(|| damaged("group"))?;
            records.extend(format::records(&group, head.count).ok_or_else(|| damaged("records"))?);
            bytes += group.len();
            at = Place { seq: at.seq + 1, file: at.file, offset: at.offset + u64::from(head.length) };
        }
        self.taken = Some(at);
        Ok(records)
    }

    /// The same place, in the next file that has a group if this one has ended.
    fn forward(&self, at: Place) -> Place {
        let starts = |id: u64| if id == at.file { at.offset } else { HEADER };
        let next = self.files.range(at.file..).find(|(id, kept)| starts(**id) < kept.end);
        next.map_or(at, |(id, _)| Place { file: *id, offset: starts(*id), ..at })
    }

    /// What was read last is done with.
    pub(crate) fn done(&mut self, disk: &dyn Disk) -> Result<(), ShelfError> {
        let Some(place) = self.taken.take() else { return Ok(()) };
        self.store(disk, place)?;
        self.tidy(disk);
        Ok(())
    }

    fn store(&mut self, disk: &dyn Disk, place: Place) -> Result<(), ShelfError> {
        let file = match &self.position_file {
            Some(file) => file.clone(),
            None => {
                let made = disk.create(POSITION).map_err(ShelfError::Write)?;
                disk.sync_dir().map_err(ShelfError::Sync)?;
                self.position_file.insert(made).clone()
            }
        };
        let generation = self.generation + 1;
        let at = if generation.is_multiple_of(2) { SECOND_SLOT } else { 0 };
        file.write_at(&slot(generation, place), at).map_err(ShelfError::Write)?;
        file.sync().map_err(ShelfError::Sync)?;
        (self.generation, self.position) = (generation, place);
        Ok(())
    }

    /// Remove files that are done with. One that cannot be removed now is removed later.
    fn tidy(&mut self, disk: &dyn Disk) {
        let empty = self.position.seq == self.end.seq;
        let done = |id: &u64| *id < self.position.file || (empty && *id <= self.position.file);
        let ids: Vec<u64> = self.files.keys().copied().filter(done).collect();
        for id in ids {
            match disk.remove(&file_name(id)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    tracing::warn!(%error, file = file_name(id), "a drained spool file could not be removed");
                }
                _ => drop(self.files.remove(&id)),
            }
            if self.active == Some(id) {
                self.active = None;
            }
        }
    }
}
