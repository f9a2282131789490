//! What must hold whatever is in the files of a store, for fuzzing. Each function panics if it does not.
//!
//! Random bytes hardly ever have a good checksum, so every function also takes its bytes as the content of something whose
//! checksums are made good: what stands behind them must not be trusted either.

use std::any::Any;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use bugle_store::{Group, LaneId, Queue, QueueId, QueueOptions, Switches, Timestamp};
use bytes::Bytes;
use parking_lot::Mutex;
use uuid::Uuid;

use crate::checkpoint;
use crate::codec::Fields;
use crate::index::{SEGMENTS, Sealed};
use crate::log::{LogFile, build_header, checkpoint_name, index_name, log_name, prints_name};
use crate::op::Op;
use crate::record::{
    FRAME_HEADER, Frame, PAGE, Place, RECORD_HEADER, RecordHeader, build_record, frame_checksum,
    parse_record, record_is_valid, seal_record,
};
use crate::scan::Scan;
use crate::state::State;
use crate::table;
use bugle_disk::{Disk, DiskFile};

const PLACE: Place = Place { file: 1, salt: 77, position: PAGE };

/// Changes: what is read is written again as it was, and can be made whatever came before.
pub fn ops(bytes: &[u8]) {
    let (mut fields, mut state, mut read) = (Fields(bytes), State::default(), Vec::new());
    while !fields.0.is_empty() {
        let before = fields.0;
        let Ok(op) = Op::decode(&mut fields) else { break };
        let mut again = Vec::new();
        op.encode(&mut again);
        // Truth and options have more than one spelling, all of which are read.
        let (mut once_more, spelled) = (Fields(&again), again.len());
        assert_eq!(Op::decode(&mut once_more).as_ref(), Ok(&op));
        assert!(once_more.0.is_empty() && spelled > 0 && fields.0.len() < before.len());
        state.apply(op.clone());
        read.push(op);
    }
    // A checkpoint may hold what the log then says once more.
    read.into_iter().for_each(|op| state.apply(op));
}

/// A frame, as it is and with a good checksum.
pub fn frame(bytes: &[u8]) {
    let _ = Frame::decode(PLACE.salt, &Bytes::copy_from_slice(bytes));
    let mut made = bytes.to_vec();
    let Some(end) = frame_end(&made) else { return };
    let sum = frame_checksum(PLACE.salt, &made[4..end]);
    made[..4].copy_from_slice(&sum.to_le_bytes());
    let made = Bytes::from(made);
    let frame = Frame::decode(PLACE.salt, &made).expect("all of it is there and the checksum is good");
    let mut again = Vec::new();
    frame.encode(PLACE.salt, &mut again);
    assert_eq!(again, made[..end]);
    assert_eq!(frame.encoded_len(), end);
}

/// Where the frame at the front of `bytes` says that it ends, if that is inside of them.
fn frame_end(bytes: &[u8]) -> Option<usize> {
    let mut fields = Fields(bytes.get(4..16)?);
    let (body, _, prints) = (fields.u32().ok()?, fields.u32().ok()?, fields.u32().ok()?);
    let end = FRAME_HEADER as u64 + u64::from(prints) * 8 + u64::from(body);
    (end <= bytes.len() as u64).then_some(end as usize)
}

/// A record, as it is and with good checksums.
pub fn record(bytes: &[u8]) {
    let given = Bytes::copy_from_slice(bytes);
    let _ = (record_is_valid(PLACE, bytes), parse_record(PLACE, &given).is_ok());
    if bytes.len() < RECORD_HEADER {
        return;
    }
    let mut made = bytes.to_vec();
    make_frames_good(&mut made);
    seal_record(PLACE, &mut made);
    assert!(record_is_valid(PLACE, &made));
    if let Ok(record) = parse_record(PLACE, &made.into()) {
        assert_eq!(record.frames.len(), record.header.frames as usize);
        assert_eq!(record.ops.len(), record.header.ops as usize);
    }
}

fn make_frames_good(record: &mut [u8]) {
    let Some(header) = RecordHeader::peek(record) else { return };
    let mut at = RECORD_HEADER + header.ops_len as usize;
    while let Some(end) = record.get(at..).and_then(frame_end) {
        let sum = frame_checksum(PLACE.salt, &record[at + 4..at + end]);
        record[at..at + 4].copy_from_slice(&sum.to_le_bytes());
        at += end;
    }
}

/// A log file whose header is good and whose first record has good checksums: it is read to its end, or refused.
pub fn log(bytes: &[u8]) {
    let mut content = build_header(PLACE.file, PLACE.salt, PAGE + bytes.len() as u64);
    let mut first = bytes.to_vec();
    if let Some(header) = RecordHeader::peek(&first)
        && let Some(whole) = first.get_mut(..header.len as usize)
    {
        make_frames_good(whole);
        seal_record(PLACE, whole);
    }
    content.extend_from_slice(&first);
    let disk = Shelf::with([(log_name(PLACE.file), content)]);
    let log = LogFile::open(&disk, PLACE.file).expect("its header is good");
    let Ok(mut scan) = Scan::new(&log) else { return };
    let mut state = State::default();
    while let Ok(Some((record, _))) = scan.next() {
        record.ops.into_iter().for_each(|op| state.apply(op));
        for (start, frame) in &record.frames {
            let _ = state.apply_segment(frame);
            let position = record.position + u64::from(*start);
            let again = log.frame(position as u32, frame.encoded_len() as u32);
            assert_eq!(again.ok().as_ref(), Some(frame));
        }
    }
    let _ = scan.expect_no_more(0);
    // What an index claims of a place in the file is no better than the index.
    for len in [0, 1, 64, u32::MAX] {
        let _ = log.frame(bytes.len() as u32, len);
    }
    let raw = Shelf::with([(log_name(PLACE.file), bytes.to_vec())]);
    let _ = LogFile::open(&raw, PLACE.file).is_ok();
}

/// A checkpoint, as it is and with good checksums around its bytes.
pub fn checkpoint(bytes: &[u8]) {
    let raw = Shelf::with([(checkpoint_name(1), bytes.to_vec())]);
    let _ = checkpoint::load(&raw, 1, &mut State::default()).is_ok();
    let disk = Shelf::with([(checkpoint_name(1), checkpoint::around(1, bytes))]);
    let _ = checkpoint::load(&disk, 1, &mut State::default()).is_ok();
}

/// The tables of a sealed file, as they are and with good checksums: every look answers or is refused.
pub fn index(bytes: &[u8]) {
    let (entries, rest) = bytes.split_at(bytes.len() - bytes.len() % SEGMENTS.entry_len);
    let made = table::build(SEGMENTS, PLACE.file, PLACE.salt, entries, &[1, 2]);
    let prints = table::build(crate::fingerprints::PRINTS, PLACE.file, PLACE.salt, &[], &[]);
    let mut bent = made.clone();
    for (at, byte) in rest.iter().enumerate() {
        let place = at * 40 % bent.len().min(64);
        bent[place] ^= byte;
    }
    table::seal_header(&mut bent, PLACE.salt);
    for table in [made, bent, bytes.to_vec()] {
        let most = table.len() / SEGMENTS.entry_len;
        let header = build_header(PLACE.file, PLACE.salt, PAGE);
        let disk = Shelf::with([
            (log_name(PLACE.file), header),
            (index_name(PLACE.file), table),
            (prints_name(PLACE.file), prints.clone()),
        ]);
        let log = LogFile::open(&disk, PLACE.file).expect("its header is good");
        let Ok(Some(sealed)) = Sealed::open(&disk, Arc::new(log)) else { continue };
        let mut seen = 0;
        let _ = sealed.visit_from(0, 0, |_, _| {
            seen += 1;
            true
        });
        assert!(seen <= most);
        for uid in [0, 1, 2, u64::MAX] {
            for offset in [0, 1, u64::MAX] {
                let _ = sealed.run(uid, offset, u64::MAX, 10);
                let _ = sealed.holds(uid, &(0..offset));
            }
        }
    }
}

/// Changes, frames and a record as they are written, for corpora.
pub fn samples() -> BTreeMap<&'static str, Vec<Vec<u8>>> {
    let id = Uuid::from_u128;
    let (queue, lane, group) = (QueueId(id(1)), LaneId(id(2)), Group::from("workers"));
    let ops = vec![
        Op::Queue(Queue {
            id: queue,
            name: "orders".into(),
            namespace: "".into(),
            task: "".into(),
            options: QueueOptions::default(),
            created_at: Timestamp(5),
            version: 1,
        }),
        Op::Lane { uid: 16, id: lane, queue, name: "Default".into(), created_at: Timestamp(6) },
        Op::LaneState {
            uid: 16,
            head: 9,
            written_at: Timestamp(7),
            oldest_at: Timestamp(6),
            greatest: Some(id(3)),
        },
        Op::Cursor { uid: 16, group: group.clone(), cursor: bugle_store::Cursor::fresh(3) },
        Op::Trim { uid: 16, tail: 4 },
        Op::DropGroup { queue, group, record: true },
        Op::Switches(Switches { push_maintenance: true, pop_maintenance: false }),
        Op::Counters { next_uid: 17, next_row: 2, version: 3, stamp: Timestamp(8) },
        Op::DropLane { uid: 16 },
        Op::DropQueue(queue),
    ];
    let frame = Frame {
        uid: 16,
        base: 0,
        count: 2,
        id: 5,
        created_at: Timestamp(7),
        greatest: None,
        fingerprints: [1, 2].into(),
        body: Bytes::from_static(b"two messages"),
    };
    let mut encoded = Vec::new();
    ops.iter().for_each(|op| op.encode(&mut encoded));
    let mut frame_bytes = Vec::new();
    frame.encode(PLACE.salt, &mut frame_bytes);
    let mut record = Vec::new();
    build_record(PLACE, 1, Timestamp(9), &crate::record::Ops::encode(&ops[..3]), &[frame], &mut record);
    let mut entries = Vec::new();
    for (uid, base) in [(16_u64, 0_u64), (16, 2), (17, 0)] {
        entries.extend(uid.to_be_bytes());
        entries.extend(base.to_be_bytes());
        entries.extend([0; 20]);
    }
    BTreeMap::from([
        ("ops", vec![encoded.clone()]),
        ("checkpoint", vec![encoded.clone(), checkpoint::around(1, &encoded)]),
        ("frame", vec![frame_bytes]),
        ("record", vec![record.clone()]),
        ("log", vec![record]),
        ("index", vec![entries]),
    ])
}

/// A disk that holds some files and forgets what is written.
struct Shelf(Mutex<BTreeMap<String, Arc<Content>>>);

struct Content(Vec<u8>);

impl Shelf {
    fn with(files: impl IntoIterator<Item = (String, Vec<u8>)>) -> Self {
        Self(Mutex::new(files.into_iter().map(|(name, bytes)| (name, Arc::new(Content(bytes)))).collect()))
    }
}

impl Disk for Shelf {
    fn exists(&self) -> bool {
        true
    }
    fn prepare(&self) -> io::Result<()> {
        Ok(())
    }
    fn lock(&self, _: &str) -> io::Result<Box<dyn Any + Send + Sync>> {
        Ok(Box::new(()))
    }
    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.0.lock().keys().cloned().collect())
    }
    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let found = self.0.lock().get(name).cloned();
        found.map(|file| file as Arc<dyn DiskFile>).ok_or_else(|| io::ErrorKind::NotFound.into())
    }
    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        self.open(name)
    }
    fn rename(&self, _: &str, _: &str) -> io::Result<()> {
        Ok(())
    }
    fn remove(&self, _: &str) -> io::Result<()> {
        Ok(())
    }
    fn sync_dir(&self) -> io::Result<()> {
        Ok(())
    }
    fn describe(&self) -> String {
        "memory".to_owned()
    }
}

impl DiskFile for Content {
    fn read_at(&self, into: &mut [u8], position: u64) -> io::Result<usize> {
        let from = usize::try_from(position).unwrap_or(usize::MAX).min(self.0.len());
        let len = into.len().min(self.0.len() - from);
        into[..len].copy_from_slice(&self.0[from..from + len]);
        Ok(len)
    }
    fn write_at(&self, _: &[u8], _: u64) -> io::Result<()> {
        Ok(())
    }
    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
    fn size(&self) -> io::Result<u64> {
        Ok(self.0.len() as u64)
    }
}
