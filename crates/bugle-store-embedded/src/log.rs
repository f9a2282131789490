//! Log files: names, the header page, how one is made ready and how a frame is read back.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bugle_disk::{Disk, DiskFile, read_exact};
use bytes::{BufMut, Bytes};
use parking_lot::Mutex;
use xxhash_rust::xxh3::xxh3_64;

use crate::codec::Fields;
use crate::record::{Frame, PAGE};

/// Version of everything in the directory.
pub(crate) const FORMAT_VERSION: u32 = 1;
const MAGIC: [u8; 8] = *b"BUGLELOG";
const HEADER: usize = 64;
/// Zeroes written between two looks at whether to stop.
const ZEROES: u64 = 1 << 20;
const SYNC_EVERY: u64 = 4 << 20;

pub(crate) fn log_name(id: u64) -> String {
    format!("log-{id:016}.log")
}

pub(crate) fn index_name(id: u64) -> String {
    format!("log-{id:016}.idx")
}

pub(crate) fn prints_name(id: u64) -> String {
    format!("log-{id:016}.fps")
}

pub(crate) fn checkpoint_name(start: u64) -> String {
    format!("checkpoint-{start:016}.snap")
}

pub(crate) fn free_name(id: u64) -> String {
    format!("free-{id:016}.free")
}

/// The number in a name of this shape.
pub(crate) fn number_in(name: &str, prefix: &str, suffix: &str) -> Option<u64> {
    name.strip_prefix(prefix)?.strip_suffix(suffix)?.parse().ok()
}

/// An open log file.
pub(crate) struct LogFile {
    pub(crate) id: u64,
    /// Random; seeds every checksum in the file.
    pub(crate) salt: u64,
    /// Bytes prepared. A record larger than that extends the file.
    pub(crate) size: u64,
    pub(crate) file: Arc<dyn DiskFile>,
}

impl LogFile {
    /// Open a file and check its header. `Err(InvalidData)` = the header is damaged.
    pub(crate) fn open(disk: &dyn Disk, id: u64) -> io::Result<Self> {
        let file = disk.open(&log_name(id))?;
        let mut header = [0; HEADER];
        let read = file.read_at(&mut header, 0)?;
        let salt = check_header(&header[..read], id)
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "log header"))?;
        let size = file.size()?;
        Ok(Self { id, salt, size, file })
    }

    /// Read back and check the frame at `position`.
    pub(crate) fn frame(&self, position: u32, len: u32) -> io::Result<Frame> {
        let damaged = |what: &str| {
            let what = format!("damaged: {} at {position}: {what}", log_name(self.id));
            io::Error::new(io::ErrorKind::InvalidData, what)
        };
        // No room is made for more than there is, whatever an index says. A record may have made the file longer.
        let end = u64::from(position) + u64::from(len);
        if end > self.size && end > self.file.size()? {
            return Err(damaged("frame length"));
        }
        let mut bytes = vec![0; len as usize];
        read_exact(&*self.file, &mut bytes, u64::from(position))?;
        Frame::decode(self.salt, &Bytes::from(bytes)).map_err(|_| damaged("frame checksum"))
    }
}

fn check_header(header: &[u8], id: u64) -> Option<u64> {
    let mut fields = Fields(header);
    let known = fields.bytes(8).ok()? == MAGIC && fields.u32().ok()? == FORMAT_VERSION;
    fields.u32().ok()?;
    let same = fields.u64().ok()? == id;
    let salt = fields.u64().ok()?;
    fields.bytes(HEADER - 40).ok()?;
    (known && same && fields.u64().ok()? == xxh3_64(&header[..HEADER - 8])).then_some(salt)
}

pub(crate) fn build_header(id: u64, salt: u64, size: u64) -> Vec<u8> {
    let mut out = Vec::with_capacity(PAGE as usize);
    out.put_slice(&MAGIC);
    out.put_u32_le(FORMAT_VERSION);
    out.put_u32_le(0);
    out.put_u64_le(id);
    out.put_u64_le(salt);
    out.put_u64_le(size);
    out.resize(HEADER - 8, 0);
    out.put_u64_le(xxh3_64(&out));
    out.resize(PAGE as usize, 0);
    out
}

/// Emptied files that wait to be used again. They were renamed and the directory was synced, so that overwriting their
/// header can no longer hurt a reader of the log.
#[derive(Default)]
pub(crate) struct FreeFiles(Mutex<Vec<String>>);

impl FreeFiles {
    pub(crate) fn len(&self) -> usize {
        self.0.lock().len()
    }

    pub(crate) fn add(&self, name: String) {
        self.0.lock().push(name);
    }

    fn take(&self) -> Option<String> {
        self.0.lock().pop()
    }
}

/// Make a log file ready: recycled or zeroed, header, sync, rename, sync of the directory. `stop` ends it early.
pub(crate) fn prepare(
    disk: &dyn Disk,
    free: &FreeFiles,
    id: u64,
    size: u64,
    stop: &AtomicBool,
) -> io::Result<LogFile> {
    let (from, file) = match free.take() {
        Some(name) => {
            let file = disk.open(&name)?;
            (name, file)
        }
        None => {
            let name = format!("{}.tmp", log_name(id));
            let file = disk.create(&name)?;
            zero_fill(&*file, size, stop)?;
            (name, file)
        }
    };
    let size = file.size()?;
    let salt = fastrand::u64(..);
    file.write_at(&build_header(id, salt, size), 0)?;
    file.sync()?;
    disk.rename(&from, &log_name(id))?;
    disk.sync_dir()?;
    Ok(LogFile { id, salt, size, file })
}

fn zero_fill(file: &dyn DiskFile, size: u64, stop: &AtomicBool) -> io::Result<()> {
    let mut position = 0;
    let mut unsynced = 0;
    while position < size {
        if stop.load(Ordering::Relaxed) {
            return Err(io::Error::other("stopped"));
        }
        let len = (size - position).min(ZEROES);
        file.write_zeroes(position, len)?;
        position += len;
        unsynced += len;
        if unsynced >= SYNC_EVERY {
            file.sync()?;
            unsynced = 0;
        }
    }
    Ok(())
}
