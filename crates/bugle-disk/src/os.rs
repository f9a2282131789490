//! The operating system's files.

use std::any::Any;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;

use rustix::fs::{FlockOperation, flock};
#[cfg(target_os = "linux")]
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

#[cfg(target_os = "linux")]
use crate::steps::write_zeroes;
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

/// Writes of a file go past the system's memory until this is dropped. They must begin and end at whole blocks.
#[cfg(target_os = "linux")]
struct Direct<'a> {
    file: &'a File,
    before: OFlags,
}

#[cfg(target_os = "linux")]
impl<'a> Direct<'a> {
    fn begin(file: &'a File) -> io::Result<Self> {
        let before = fcntl_getfl(file)?;
        fcntl_setfl(file, before | OFlags::DIRECT)?;
        Ok(Self { file, before })
    }
}

#[cfg(target_os = "linux")]
impl Drop for Direct<'_> {
    fn drop(&mut self) {
        // What was just set can be unset.
        let _ = fcntl_setfl(self.file, self.before);
    }
}

impl DiskFile for OsFile {
    fn read_at(&self, into: &mut [u8], position: u64) -> io::Result<usize> {
        read_to_end_or_full(&self.0, into, position)
    }

    fn write_at(&self, bytes: &[u8], position: u64) -> io::Result<()> {
        self.0.write_all_at(bytes, position)
    }

    /// Past the system's memory where the file system can: copying zeroes there took a quarter of the processor time of large pushes.
    #[cfg(target_os = "linux")]
    fn write_zeroes(&self, position: u64, len: u64) -> io::Result<()> {
        let Ok(direct) = Direct::begin(&self.0) else { return write_zeroes(self, position, len) };
        let written = write_zeroes(self, position, len);
        drop(direct);
        match written {
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => write_zeroes(self, position, len),
            other => other,
        }
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeroes_are_written_over_any_range_and_writes_go_on_as_before() {
        let dir = tempfile::tempdir().unwrap();
        let disk = OsDisk::new(dir.path());
        let file = disk.create("file").unwrap();
        file.write_zeroes(0, 1 << 20).unwrap();
        assert_eq!(file.size().unwrap(), 1 << 20);
        file.write_at(b"message", 4093).unwrap();
        // Not whole blocks.
        file.write_zeroes(4094, 3).unwrap();
        let mut back = [1; 9];
        assert_eq!(file.read_at(&mut back, 4092).unwrap(), 9);
        assert_eq!(&back, b"\0m\0\0\0age\0");
    }
}
