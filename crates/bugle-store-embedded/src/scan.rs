//! Reading a log file from front to end, record by record, and telling an unfinished end from damage.

use std::io;

use bugle_disk::read_exact;
use bytes::Bytes;

use crate::log::{LogFile, log_name};
use crate::options::OpenError;
use crate::record::{PAGE, Place, RECORD_MAGIC, Record, RecordHeader, parse_record, record_is_valid};

/// Pages looked at per read when searching for records behind an invalid one.
const WINDOW: u64 = 256;

/// Walks the valid records of a file.
pub(crate) struct Scan<'a> {
    log: &'a LogFile,
    len: u64,
    /// Of the next record; at the end, of the first that is not valid.
    pub(crate) position: u64,
}

impl<'a> Scan<'a> {
    pub(crate) fn new(log: &'a LogFile) -> io::Result<Self> {
        Ok(Self { log, len: log.file.size()?, position: PAGE })
    }

    /// The next record and its bytes; `None` at the first that is not valid.
    pub(crate) fn next(&mut self) -> Result<Option<(Record, Bytes)>, OpenError> {
        let Some((_, bytes)) = self.valid_at(self.position)? else { return Ok(None) };
        let place = self.place(self.position);
        let record = parse_record(place, &bytes).map_err(|_| {
            OpenError::damaged(
                &log_name(self.log.id),
                self.position,
                "record has a good checksum but no sense",
            )
        })?;
        self.position += (bytes.len() as u64).next_multiple_of(PAGE);
        Ok(Some((record, bytes)))
    }

    fn place(&self, position: u64) -> Place {
        Place { file: self.log.id, salt: self.log.salt, position }
    }

    fn valid_at(&self, position: u64) -> io::Result<Option<(RecordHeader, Bytes)>> {
        if position + PAGE > self.len {
            return Ok(None);
        }
        let mut page = vec![0; PAGE as usize];
        read_exact(&*self.log.file, &mut page, position)?;
        let Some(header) = RecordHeader::peek(&page).filter(|h| h.file == self.log.id) else {
            return Ok(None);
        };
        let len = header.len as usize;
        if position + u64::from(header.len) > self.len {
            return Ok(None);
        }
        if len > page.len() {
            page.resize(len, 0);
            read_exact(&*self.log.file, &mut page[PAGE as usize..], position + PAGE)?;
        }
        page.truncate(len);
        Ok(record_is_valid(self.place(position), &page).then(|| (header, page.into())))
    }

    /// After the end: refuse if a valid record follows, since only the last record can be unfinished.
    pub(crate) fn expect_no_more(&self, last_seq: u64) -> Result<(), OpenError> {
        let mut position = self.position;
        while position < self.len {
            let mut window = vec![0; (WINDOW * PAGE).min(self.len - position) as usize];
            read_exact(&*self.log.file, &mut window, position)?;
            for (number, page) in window.chunks(PAGE as usize).enumerate() {
                let at = position + number as u64 * PAGE;
                let looks = at > self.position && page.starts_with(&RECORD_MAGIC);
                if looks && self.valid_at(at)?.is_some_and(|(header, _)| header.seq > last_seq) {
                    let what = format!("record {} is damaged, but a later one is whole", last_seq + 1);
                    return Err(OpenError::damaged(&log_name(self.log.id), self.position, what));
                }
            }
            position += window.len() as u64;
        }
        Ok(())
    }
}
