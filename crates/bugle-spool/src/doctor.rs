//! Looking a spool over without using it: every group that is not done with is read and checked, nothing is written.

use std::any::Any;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bugle_store::Examination;
use rustix::fs::{FlockOperation, flock};

use bugle_disk::{Disk, DiskFile};
use crate::recovery::{LOCK, OpenError, look};

/// Look a spool's directory over. One that is not there is an empty one.
pub fn examine(dir: &Path) -> Examination {
    let mut found = Examination::default();
    if !dir.is_dir() {
        found.fact("spool", "none");
        return found;
    }
    let disk = Lens { dir: dir.to_owned() };
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

/// A directory that can be looked at and not touched.
struct Lens {
    dir: PathBuf,
}

fn refused() -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, "nothing is changed here")
}

impl Disk for Lens {
    fn exists(&self) -> bool {
        self.dir.is_dir()
    }

    fn prepare(&self) -> io::Result<()> {
        Err(refused())
    }

    /// Held only where somebody has held it before: the file is not made.
    fn lock(&self, name: &str) -> io::Result<Box<dyn Any + Send + Sync>> {
        let file = File::open(self.dir.join(name))?;
        flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(io::Error::from)?;
        Ok(Box::new(file))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let entries = std::fs::read_dir(&self.dir)?;
        entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        Ok(Arc::new(LensFile(File::open(self.dir.join(name))?)))
    }

    fn create(&self, _name: &str) -> io::Result<Arc<dyn DiskFile>> {
        Err(refused())
    }

    fn remove(&self, _name: &str) -> io::Result<()> {
        Err(refused())
    }

    fn sync_dir(&self) -> io::Result<()> {
        Err(refused())
    }

    fn describe(&self) -> String {
        self.dir.display().to_string()
    }
}

struct LensFile(File);

impl DiskFile for LensFile {
    fn read_at(&self, into: &mut [u8], position: u64) -> io::Result<usize> {
        let mut total = 0;
        while total < into.len() {
            match self.0.read_at(&mut into[total..], position + total as u64) {
                Ok(0) => break,
                Ok(read) => total += read,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(total)
    }

    fn write_at(&self, _bytes: &[u8], _position: u64) -> io::Result<()> {
        Err(refused())
    }

    fn sync(&self) -> io::Result<()> {
        Err(refused())
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }
}
