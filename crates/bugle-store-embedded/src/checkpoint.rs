//! Checkpoints: all state in one file, so that a restart replays little and old files need not be kept.
//!
//! Taken piece by piece while commits go on. That is legal because records hold absolute values and everything since
//! the checkpoint's beginning is replayed over it; what the pieces already contain is then written again, not twice.

use std::io;
use std::sync::Arc;

use bugle_disk::{Disk, DiskFile, read_exact};
use bytes::BufMut;
use xxhash_rust::xxh3::xxh3_64;

use crate::codec::{Fields, Malformed};
use crate::log::{checkpoint_name, number_in};
use crate::op::Op;
use crate::options::OpenError;
use crate::shared::{ReplayStart, Shared};
use crate::state::State;

const MAGIC: [u8; 8] = *b"BUGLECKP";
const HEAD: usize = 16;
const FOOTER: usize = 48;
const VERSION: u32 = 1;
/// Lanes or rows per look at the state.
const PIECE: usize = 1000;
const SYNC_EVERY: usize = 4 << 20;

/// The file being written.
struct Sheet {
    file: Arc<dyn DiskFile>,
    position: u64,
    chunks: u32,
    unsynced: usize,
}

impl Sheet {
    fn chunk(&mut self, ops: &[Op]) -> io::Result<()> {
        let mut bytes = vec![0; 8];
        ops.iter().for_each(|op| op.encode(&mut bytes));
        seal_chunk(self.chunks, &mut bytes);
        self.chunks += 1;
        self.put(&bytes)
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_at(bytes, self.position)?;
        self.position += bytes.len() as u64;
        self.unsynced += bytes.len();
        if self.unsynced >= SYNC_EVERY {
            self.unsynced = 0;
            self.file.sync()?;
        }
        Ok(())
    }
}

/// Fill in the first eight bytes of a chunk.
fn seal_chunk(number: u32, chunk: &mut [u8]) {
    let len = (chunk.len() - 8) as u32;
    chunk[..4].copy_from_slice(&len.to_le_bytes());
    let sum = chunk_checksum(number, &chunk[8..]);
    chunk[4..8].copy_from_slice(&sum.to_le_bytes());
}

fn head() -> Vec<u8> {
    let mut head = MAGIC.to_vec();
    head.put_u32_le(VERSION);
    head.resize(HEAD, 0);
    head
}

fn footer(start: ReplayStart, end_seq: u64, chunks: u32) -> Vec<u8> {
    let mut footer = MAGIC.to_vec();
    footer.put_u64_le(start.file);
    footer.put_u64_le(start.seq);
    footer.put_u64_le(end_seq);
    footer.put_u32_le(chunks);
    footer.put_u32_le(VERSION);
    footer.put_u64_le(xxh3_64(&footer));
    footer
}

/// A whole checkpoint around one chunk of these bytes.
#[cfg(feature = "fuzz")]
pub(crate) fn around(number: u64, content: &[u8]) -> Vec<u8> {
    let mut chunk = vec![0; 8];
    chunk.extend_from_slice(content);
    seal_chunk(0, &mut chunk);
    [head(), chunk, footer(ReplayStart { file: number, seq: 1 }, 1, 1)].concat()
}

fn chunk_checksum(number: u32, bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&number.to_le_bytes()), bytes)
}

/// Write a checkpoint from which replay begins at `start`, and remove older ones.
pub(crate) fn write(shared: &Shared, start: ReplayStart) -> io::Result<()> {
    let disk = &*shared.disk;
    let name = checkpoint_name(start.file);
    let temporary = format!("{name}.tmp");
    let mut sheet = Sheet { file: disk.create(&temporary)?, position: 0, chunks: 0, unsynced: 0 };
    sheet.put(&head())?;
    sheet.chunk(&catalog_ops(&shared.core.read().state))?;
    write_lanes(shared, &mut sheet)?;
    write_rows(shared, &mut sheet)?;
    let (counters, end_seq) = {
        let state = &shared.core.read().state;
        let State { next_uid, next_row, version, stamp, .. } = *state;
        (Op::Counters { next_uid, next_row, version, stamp }, state.seq)
    };
    sheet.chunk(&[counters])?;
    sheet.put(&footer(start, end_seq, sheet.chunks))?;
    sheet.file.sync()?;
    disk.rename(&temporary, &name)?;
    disk.sync_dir()?;
    for old in disk.list()?.iter().filter(|n| number_in(n, "checkpoint-", ".snap").is_some() && **n != name) {
        disk.remove(old)?;
    }
    disk.sync_dir()
}

fn catalog_ops(state: &State) -> Vec<Op> {
    let queues = state.queues.values().map(|q| Op::Queue(q.queue.clone()));
    let groups = state.groups.values().cloned().map(Op::Group);
    queues.chain(groups).chain([Op::Switches(state.switches)]).collect()
}

fn write_lanes(shared: &Shared, sheet: &mut Sheet) -> io::Result<()> {
    let mut after = 0;
    loop {
        let mut ops = Vec::new();
        {
            let core = shared.core.read();
            for (uid, state) in core.state.lanes.after(after).take(PIECE) {
                let lane = &state.lane;
                after = uid;
                let (id, queue, name, created_at) = (lane.id, lane.queue, lane.name.clone(), lane.created_at);
                ops.push(Op::Lane { uid, id, queue, name, created_at });
                let (head, written_at, oldest_at) = (lane.head, lane.written_at, state.oldest_at);
                ops.push(Op::LaneState { uid, head, written_at, oldest_at, greatest: lane.greatest });
                ops.push(Op::Trim { uid, tail: lane.tail });
                let cursors = state.cursors.iter().cloned();
                ops.extend(cursors.map(|(group, cursor)| Op::Cursor { uid, group, cursor }));
            }
        }
        if ops.is_empty() {
            return Ok(());
        }
        sheet.chunk(&ops)?;
    }
}

fn write_rows(shared: &Shared, sheet: &mut Sheet) -> io::Result<()> {
    let mut after = 0;
    loop {
        let ops: Vec<Op> = {
            let dead = &shared.core.read().state.dead.rows;
            let piece = dead.range(after + 1..).take(PIECE);
            piece.map(|(row, dead)| Op::Dead(*row, dead.clone())).collect()
        };
        let Some(Op::Dead(last, _)) = ops.last() else { break };
        after = *last;
        sheet.chunk(&ops)?;
    }
    after = 0;
    loop {
        let ops: Vec<Op> = {
            let traces = &shared.core.read().state.traces.rows;
            let piece = traces.range(after + 1..).take(PIECE);
            piece.map(|(row, trace)| Op::Trace(*row, trace.clone())).collect()
        };
        let Some(Op::Trace(last, _)) = ops.last() else { return Ok(()) };
        after = *last;
        sheet.chunk(&ops)?;
    }
}

/// What a checkpoint says beside the state.
pub(crate) struct Loaded {
    pub(crate) start: ReplayStart,
    /// The log must reach at least this record.
    pub(crate) end_seq: u64,
}

/// Apply a checkpoint to an empty state.
pub(crate) fn load(disk: &dyn Disk, number: u64, state: &mut State) -> Result<Loaded, OpenError> {
    let name = checkpoint_name(number);
    let file = disk.open(&name)?;
    let len = file.size()?;
    let damaged = |offset, what: &str| OpenError::damaged(&name, offset, what);
    let footer_at = len.checked_sub(FOOTER as u64).ok_or_else(|| damaged(0, "too short"))?;
    let mut head = [0; HEAD];
    let mut footer = [0; FOOTER];
    read_exact(&*file, &mut head, 0)?;
    read_exact(&*file, &mut footer, footer_at)?;
    let (loaded, chunks) =
        parse_footer(&footer).ok().flatten().ok_or_else(|| damaged(footer_at, "checkpoint footer"))?;
    if head[..] != self::head() || loaded.start.file != number {
        return Err(damaged(0, "checkpoint header"));
    }
    let mut position = HEAD as u64;
    for number in 0..chunks {
        position =
            load_chunk(&*file, number, position, footer_at, state).map_err(|what| damaged(position, what))?;
    }
    if position != footer_at {
        return Err(damaged(position, "checkpoint length"));
    }
    state.seq = loaded.start.seq - 1;
    Ok(loaded)
}

fn load_chunk(
    file: &dyn DiskFile,
    number: u32,
    position: u64,
    end: u64,
    state: &mut State,
) -> Result<u64, &'static str> {
    let mut head = [0; 8];
    read_exact(file, &mut head, position).map_err(|_| "checkpoint chunk is missing")?;
    let mut fields = Fields(&head);
    let (len, sum) = match (fields.u32(), fields.u32()) {
        (Ok(len), Ok(sum)) => (len, sum),
        _ => return Err("checkpoint chunk header"),
    };
    let next = position + 8 + u64::from(len);
    if next > end {
        return Err("checkpoint chunk length");
    }
    let mut bytes = vec![0; len as usize];
    read_exact(file, &mut bytes, position + 8).map_err(|_| "checkpoint chunk is missing")?;
    if chunk_checksum(number, &bytes) != sum {
        return Err("checkpoint chunk checksum");
    }
    let mut fields = Fields(&bytes);
    while !fields.0.is_empty() {
        state.apply(Op::decode(&mut fields).map_err(|_| "checkpoint content")?);
    }
    Ok(next)
}

fn parse_footer(bytes: &[u8; FOOTER]) -> Result<Option<(Loaded, u32)>, Malformed> {
    let mut fields = Fields(bytes);
    let known = fields.bytes(8)? == MAGIC;
    let start = ReplayStart { file: fields.u64()?, seq: fields.u64()? };
    let end_seq = fields.u64()?;
    let chunks = fields.u32()?;
    let version = fields.u32()?;
    let whole = fields.u64()? == xxh3_64(&bytes[..FOOTER - 8]);
    let usable = known && whole && version == VERSION && start.seq > 0;
    Ok(usable.then_some((Loaded { start, end_seq }, chunks)))
}

/// Kinds of changes in a checkpoint.
#[cfg(test)]
pub(crate) fn kinds(disk: &dyn Disk, name: &str) -> Vec<u8> {
    let file = disk.open(name).unwrap();
    let mut bytes = vec![0; file.size().unwrap() as usize];
    read_exact(&*file, &mut bytes, 0).unwrap();
    let (mut at, mut kinds) = (HEAD, Vec::new());
    while at < bytes.len() - FOOTER {
        let len = u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
        let mut fields = Fields(&bytes[at + 8..at + 8 + len]);
        while !fields.0.is_empty() {
            kinds.push(fields.0[0]);
            Op::decode(&mut fields).unwrap();
        }
        at += 8 + len;
    }
    kinds
}
