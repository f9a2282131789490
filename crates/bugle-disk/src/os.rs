//! The operating system's files.

use std::any::Any;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;

use rustix::fs::{FlockOperation, flock};

use crate::{Disk, DiskFile};

/// A directory of the operating system.
pub struct OsDisk {
    dir: PathBuf,
}

impl OsDisk {
    /// This directory, which need not be there yet.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self { dir: dir.into() }
    }
}

impl Disk for OsDisk {
    fn exists(&self) -> bool {
        self.dir.is_dir()
    }

    fn prepare(&self) -> io::Result<()> {
        if self.exists() {
            return Ok(());
        }
        fs::create_dir(&self.dir)?;
        // Without this the whole directory may be gone after a power cut.
        match fs::canonicalize(&self.dir)?.parent() {
            Some(parent) => File::open(parent)?.sync_all(),
            None => Ok(()),
        }
    }

    fn lock(&self, name: &str) -> io::Result<Box<dyn Any + Send + Sync>> {
        let path = self.dir.join(name);
        let file = OpenOptions::new().create(true).truncate(false).write(true).open(path)?;
        flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(io::Error::from)?;
        Ok(Box::new(file))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.dir)? {
            if let Ok(name) = entry?.file_name().into_string() {
                names.push(name);
            }
        }
        Ok(names)
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        Ok(Arc::new(OsFile(OpenOptions::new().read(true).write(true).open(self.dir.join(name))?)))
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(true);
        Ok(Arc::new(OsFile(options.open(self.dir.join(name))?)))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.dir.join(from), self.dir.join(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.dir.join(name))
    }

    fn sync_dir(&self) -> io::Result<()> {
        File::open(&self.dir)?.sync_all()
    }

    fn describe(&self) -> String {
        self.dir.display().to_string()
    }
}

/// Read until nothing more fits, or the file ends.
pub(crate) fn read_to_end_or_full(file: &File, into: &mut [u8], position: u64) -> io::Result<usize> {
    let mut total = 0;
    while total < into.len() {
        match file.read_at(&mut into[total..], position + total as u64) {
            Ok(0) => break,
            Ok(read) => total += read,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(total)
}

struct OsFile(File);

impl DiskFile for OsFile {
    fn read_at(&self, into: &mut [u8], position: u64) -> io::Result<usize> {
        read_to_end_or_full(&self.0, into, position)
    }

    fn write_at(&self, bytes: &[u8], position: u64) -> io::Result<()> {
        self.0.write_all_at(bytes, position)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }
}
