//! A directory that can be looked at and not touched.

use std::any::Any;
use std::fs::{self, File};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use rustix::fs::{FlockOperation, flock};

use crate::os::read_to_end_or_full;
use crate::{Disk, DiskFile};

/// See the module.
pub struct Lens {
    dir: PathBuf,
}

impl Lens {
    /// This directory.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self { dir: dir.into() }
    }
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
        let entries = fs::read_dir(&self.dir)?;
        let names = entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
        let mut names = names.collect::<io::Result<Vec<String>>>()?;
        names.sort();
        Ok(names)
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        Ok(Arc::new(LensFile(File::open(self.dir.join(name))?)))
    }

    fn create(&self, _name: &str) -> io::Result<Arc<dyn DiskFile>> {
        Err(refused())
    }

    fn rename(&self, _from: &str, _to: &str) -> io::Result<()> {
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
        read_to_end_or_full(&self.0, into, position)
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
