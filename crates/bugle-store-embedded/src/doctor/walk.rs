//! All log files from the first to the last record, with their indexes beside them.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;

use bugle_store::{Examination, Offset};

use crate::index::MemFile;
use crate::log::{LogFile, log_name};
use crate::options::OpenError;
use crate::record::{RECORD_HEADER, RecordHeader};
use crate::scan::Scan;
use crate::state::State;
use bugle_disk::Disk;

/// See the module.
pub(super) struct Walk<'a> {
    disk: &'a dyn Disk,
    pub(super) state: State,
    /// Records of files before this one are history: only their segments count.
    start_file: u64,
    /// Where segments and rows are: (base, count) by uid.
    pub(super) segments: BTreeMap<u64, Vec<(Offset, u32)>>,
    /// Everything that the state is made of could be read.
    pub(super) whole: bool,
    /// File and end of the last record that was applied, and all files after it.
    tail: Vec<(Arc<LogFile>, u64)>,
    records: u64,
    bytes: u64,
}

impl<'a> Walk<'a> {
    pub(super) fn new(disk: &'a dyn Disk, state: State, start_file: u64) -> Self {
        let (segments, tail) = (BTreeMap::new(), Vec::new());
        Self { disk, state, start_file, segments, whole: true, tail, records: 0, bytes: 0 }
    }

    /// Read all log files.
    pub(super) fn logs(&mut self, ids: &BTreeSet<u64>, found: &mut Examination) -> Result<(), OpenError> {
        for id in ids {
            match LogFile::open(self.disk, *id) {
                Ok(log) => self.log(Arc::new(log), found)?,
                Err(e) if e.kind() == io::ErrorKind::InvalidData => {
                    found.damage(format!("{} at 0", log_name(*id)), "file header");
                    self.whole = false;
                }
                Err(e) => return Err(e.into()),
            }
        }
        found.fact("log files", ids.len());
        found.fact("records", self.records);
        found.fact("bytes of records", self.bytes);
        Ok(())
    }

    fn log(&mut self, log: Arc<LogFile>, found: &mut Examination) -> Result<(), OpenError> {
        let (mut scan, mut last, mut any) = (Scan::new(&log)?, None, false);
        let mut index = MemFile::new(log.clone());
        let damaged = loop {
            let (record, bytes) = match scan.next() {
                Ok(Some(next)) => next,
                Ok(None) => break scan.expect_no_more(last.unwrap_or(0)).err(),
                Err(error) => break Some(error),
            };
            let (seq, at) = (record.header.seq, record.position);
            if last.is_some_and(|last| seq != last + 1) {
                let what = format!("record {seq} follows record {}", seq.min(last.unwrap_or(0)));
                found.damage(format!("{} at {at}", log_name(log.id)), what);
                self.whole = false;
            }
            if !any {
                any = true;
                self.tail.clear();
            }
            last = Some(seq);
            self.records += 1;
            self.bytes += bytes.len() as u64;
            for (start, frame) in &record.frames {
                self.segments.entry(frame.uid).or_default().push((frame.base, frame.count));
                index.add(frame, at as u32 + start);
            }
            if log.id >= self.start_file {
                self.apply(&log, record, found);
            }
        };
        self.whole &= damaged.is_none();
        self.tail.push((log.clone(), scan.position));
        match damaged {
            Some(OpenError::Damaged { file, offset, what }) => {
                found.damage(format!("{file} at {offset}"), what);
                Ok(())
            }
            Some(other) => Err(other),
            None => self.tables(&log, &index, found),
        }
    }

    /// What recovery would do with a record.
    fn apply(&mut self, log: &LogFile, record: crate::record::Record, found: &mut Examination) {
        let (place, seq) = (format!("{} at {}", log_name(log.id), record.position), record.header.seq);
        if seq != self.state.seq + 1 && self.whole {
            found.damage(&place, format!("record {} is missing, {seq} follows", self.state.seq + 1));
            self.whole = false;
        }
        record.ops.into_iter().for_each(|op| self.state.apply(op));
        for (_, frame) in &record.frames {
            if self.state.apply_segment(frame).is_err() && self.whole {
                found.damage(&place, "a segment before this is missing");
                self.whole = false;
            }
        }
        self.state.seq = seq;
    }

    /// The tail rule, and how the log ends.
    pub(super) fn end(&mut self, end_seq: u64, found: &mut Examination) -> Result<(), OpenError> {
        let last = self.tail.first().map(|(log, end)| (log.clone(), *end));
        if self.state.seq < end_seq && self.whole {
            let place = last
                .as_ref()
                .map_or_else(|| "the log".into(), |(log, end)| format!("{} at {end}", log_name(log.id)));
            let what = format!("the log ends at record {}, the checkpoint saw {end_seq}", self.state.seq);
            found.damage(place, what);
            self.whole = false;
        }
        for (log, end) in &self.tail {
            let mut header = [0; RECORD_HEADER];
            let read = log.file.read_at(&mut header, *end)?;
            let begun = RecordHeader::peek(&header[..read]).filter(|next| next.file == log.id);
            if begun.is_some_and(|next| next.seq == self.state.seq + 1) && self.whole {
                let place = format!("{} at {end}", log_name(log.id));
                found.warn(
                    place,
                    "the last record was never finished, as a crash leaves it, and is passed over",
                );
            }
        }
        Ok(())
    }

    /// Whether the indexes of a file say what is in it. Losing one costs time and no data.
    fn tables(&self, log: &LogFile, index: &MemFile, found: &mut Examination) -> Result<(), OpenError> {
        for (name, wanted) in index.tables() {
            let file = match self.disk.open(&name) {
                Ok(file) => file,
                Err(e) if e.kind() == io::ErrorKind::NotFound => {
                    if log.id < self.start_file {
                        found.warn(name, "missing; the next start builds it again");
                    }
                    continue;
                }
                Err(e) => return Err(e.into()),
            };
            let mut there = vec![0; file.size()? as usize];
            let read = file.read_at(&mut there, 0)?;
            there.truncate(read);
            if there != wanted {
                let same = there.iter().zip(&wanted).take_while(|(a, b)| a == b).count();
                let what = "disagrees with its log file; remove it, the next start builds it again";
                found.damage(format!("{name} at {same}"), what);
            }
        }
        Ok(())
    }
}
