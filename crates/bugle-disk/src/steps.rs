//! Small sequences of operations that everybody needs, and that are only safe in this order.

use std::io;
use std::sync::Arc;

use crate::{Disk, DiskFile};

/// Bytes between two syncs of a background write, so that its writeback does not land in a commit's fdatasync.
const BACKGROUND_SYNC: usize = 4 << 20;

/// Write a whole file under a temporary name, make it durable and give it its name.
pub fn write_whole(disk: &dyn Disk, name: &str, bytes: &[u8]) -> io::Result<Arc<dyn DiskFile>> {
    let temporary = format!("{name}.tmp");
    let file = disk.create(&temporary)?;
    let mut position = 0;
    for chunk in bytes.chunks(BACKGROUND_SYNC) {
        file.write_at(chunk, position)?;
        file.sync()?;
        position += chunk.len() as u64;
    }
    disk.rename(&temporary, name)?;
    disk.sync_dir()?;
    Ok(file)
}

/// Zeroes to write from, at an address that every device can read from by itself.
#[repr(align(4096))]
struct Zeroes([u8; 256 << 10]);

static ZEROES: Zeroes = Zeroes([0; 256 << 10]);

/// Write zeroes over a range, piece by piece.
pub(crate) fn write_zeroes<F: DiskFile + ?Sized>(file: &F, position: u64, len: u64) -> io::Result<()> {
    let end = position.saturating_add(len);
    for at in (position..end).step_by(ZEROES.0.len()) {
        let piece = (end - at).min(ZEROES.0.len() as u64);
        file.write_at(&ZEROES.0[..piece as usize], at)?;
    }
    Ok(())
}

/// Read exactly, or fail with `UnexpectedEof`.
pub fn read_exact(file: &dyn DiskFile, into: &mut [u8], position: u64) -> io::Result<()> {
    if file.read_at(into, position)? == into.len() {
        Ok(())
    } else {
        Err(io::Error::new(io::ErrorKind::UnexpectedEof, "file is shorter than expected"))
    }
}

/// Remove a file that may be gone already.
pub fn remove_if_there(disk: &dyn Disk, name: &str) -> io::Result<()> {
    match disk.remove(name) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}
