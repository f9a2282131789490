//! Looking a spool over without using it: every group that is not done with is read and checked, nothing is written.

use std::io;
use std::path::Path;

use bugle_disk::{Disk, Lens};
use bugle_store::Examination;

use crate::recovery::{LOCK, OpenError, look};

/// Look a spool's directory over. One that is not there is an empty one.
pub fn examine(dir: &Path) -> Examination {
    let mut found = Examination::default();
    if !dir.is_dir() {
        found.fact("spool", "none");
        return found;
    }
    let disk = Lens::new(dir);
    found.fact("spool", disk.describe());
    let _lock = match disk.lock(LOCK) {
        Ok(lock) => Some(lock),
        Err(e) if e.kind() == io::ErrorKind::NotFound => None,
        Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
            found.unknown(disk.describe(), "a server uses it; stop it first");
            return found;
        }
        Err(e) => {
            found.unknown(disk.describe(), e.to_string());
            return found;
        }
    };
    match look(&disk) {
        Ok(seen) => {
            found.fact("spool files", seen.files);
            found.fact("spooled groups", seen.groups);
            found.fact("spooled messages", seen.counts.records);
            found.fact("bytes in the spool", seen.counts.bytes);
        }
        Err(OpenError::Damaged { file, offset, what, .. }) => {
            found.damage(format!("spool/{file} at {offset}"), what)
        }
        Err(other) => found.unknown(disk.describe(), other.to_string()),
    }
    found
}
