//! A copy of the spool's files, taken while puts and the drain go on.
//!
//! Files are only added to at their end, and one that is removed meanwhile can still be read by who has it open: so it is
//! enough to write down, at one moment, which files there are, where they end, and what is done with.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use bugle_store::{Backup, BackupPiece};
use bytes::Bytes;

use crate::format::{SECOND_SLOT, SLOT, file_name, slot};
use crate::recovery::POSITION;
use crate::shelf::{Kept, Shelf};
use bugle_disk::DiskFile;

/// Bytes of a piece.
const PIECE: u64 = 256 << 10;

/// A copy being taken.
pub(crate) struct Copy {
    /// The position file, which comes first, until it was sent.
    position: VecDeque<BackupPiece>,
    files: VecDeque<Source>,
}

/// A file to be copied.
struct Source {
    name: String,
    file: Arc<dyn DiskFile>,
    /// Where the copy is; `None` = it was not announced.
    at: Option<u64>,
    end: u64,
}

impl Source {
    fn of(id: u64, kept: &Kept) -> Self {
        Self { name: file_name(id), file: kept.file.clone(), at: None, end: kept.end }
    }
}

impl Copy {
    /// What there is now. An empty spool has no files.
    pub(crate) fn of(shelf: &Shelf) -> Self {
        let mut copy = Self { position: VecDeque::new(), files: VecDeque::new() };
        if shelf.position.seq == shelf.end.seq {
            return copy;
        }
        if shelf.generation > 0 {
            let mut bytes = vec![0; SECOND_SLOT as usize + SLOT];
            let at = if shelf.generation.is_multiple_of(2) { SECOND_SLOT as usize } else { 0 };
            bytes[at..at + SLOT].copy_from_slice(&slot(shelf.generation, shelf.position));
            let size = bytes.len() as u64;
            copy.position =
                [BackupPiece::File { name: POSITION.to_owned(), size }, BackupPiece::Bytes(bytes.into())]
                    .into();
        }
        let wanted = shelf.files.range(shelf.position.file..);
        copy.files = wanted.map(|(id, kept)| Source::of(*id, kept)).collect();
        copy
    }
}

impl Backup for Copy {
    fn next(&mut self) -> io::Result<Option<BackupPiece>> {
        if let Some(piece) = self.position.pop_front() {
            return Ok(Some(piece));
        }
        let Some(Source { name, file, at: position, end }) = self.files.front_mut() else { return Ok(None) };
        let Some(at) = *position else {
            *position = Some(0);
            return Ok(Some(BackupPiece::File { name: name.clone(), size: *end }));
        };
        let mut bytes = vec![0; PIECE.min(*end - at) as usize];
        if file.read_at(&mut bytes, at)? != bytes.len() {
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                format!("{name} is shorter than it was"),
            ));
        }
        let after = at + bytes.len() as u64;
        *position = Some(after);
        if after >= *end {
            self.files.pop_front();
        }
        Ok(Some(BackupPiece::Bytes(Bytes::from(bytes))))
    }
}
