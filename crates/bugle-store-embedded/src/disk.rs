//! The only file that touches files. Everything else sees one directory through a narrow trait, so that tests can put a
//! disk under the engine that loses power, tears writes and fails.

use std::any::Any;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;

use rustix::fs::{FlockOperation, flock};

/// One flat directory of files.
pub trait Disk: Send + Sync {
    /// Make the directory itself exist, durably.
    fn prepare(&self) -> io::Result<()>;
    /// Take the exclusive lock; it is held until the answer is dropped. `WouldBlock` = held by another.
    fn lock(&self, name: &str) -> io::Result<Box<dyn Any + Send + Sync>>;
    /// Names of all files.
    fn list(&self) -> io::Result<Vec<String>>;
    /// Open an existing file for reading and writing.
    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>>;
    /// Create an empty file, replacing any.
    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>>;
    /// Rename, replacing any. Durable only after [`Disk::sync_dir`].
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Remove a file. Durable only after [`Disk::sync_dir`].
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Make creations, renames and removals durable.
    fn sync_dir(&self) -> io::Result<()>;
    /// How the directory is called in messages.
    fn describe(&self) -> String;
}

/// One open file.
pub trait DiskFile: Send + Sync {
    /// Read at a position; fewer bytes than asked means the end of the file.
    fn read_at(&self, into: &mut [u8], position: u64) -> io::Result<usize>;
    /// Write all bytes at a position, extending the file if needed.
    fn write_at(&self, bytes: &[u8], position: u64) -> io::Result<()>;
    /// Make what was written durable.
    fn sync(&self) -> io::Result<()>;
    /// Length in bytes.
    fn len(&self) -> io::Result<u64>;
    /// Whether there is nothing in it.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
}

/// A directory of the operating system.
pub(crate) struct OsDisk {
    dir: PathBuf,
}

impl OsDisk {
    pub(crate) fn new(dir: PathBuf) -> Self {
        Self { dir }
    }
}

impl Disk for OsDisk {
    fn prepare(&self) -> io::Result<()> {
        if self.dir.is_dir() {
            return Ok(());
        }
        fs::create_dir(&self.dir)?;
        // Without this the whole directory may be gone after a power cut.
        let absolute = fs::canonicalize(&self.dir)?;
        match absolute.parent() {
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

struct OsFile(File);

impl DiskFile for OsFile {
    fn read_at(&self, mut into: &mut [u8], mut position: u64) -> io::Result<usize> {
        let mut total = 0;
        while !into.is_empty() {
            match self.0.read_at(into, position) {
                Ok(0) => break,
                Ok(n) => {
                    total += n;
                    position += n as u64;
                    into = &mut into[n..];
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(total)
    }

    fn write_at(&self, bytes: &[u8], position: u64) -> io::Result<()> {
        self.0.write_all_at(bytes, position)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }
}

/// Bytes between two syncs of a background write, so that its writeback does not land in a commit's fdatasync.
const BACKGROUND_SYNC: usize = 4 << 20;

/// Write a whole file under a temporary name, make it durable and give it its name.
pub(crate) fn write_whole(disk: &dyn Disk, name: &str, bytes: &[u8]) -> io::Result<Arc<dyn DiskFile>> {
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

/// Read exactly, or fail with `UnexpectedEof`.
pub(crate) fn read_exact(file: &dyn DiskFile, into: &mut [u8], position: u64) -> io::Result<()> {
    if file.read_at(into, position)? == into.len() {
        Ok(())
    } else {
        Err(io::Error::new(io::ErrorKind::UnexpectedEof, "file is shorter than expected"))
    }
}

/// Remove a file that may be gone already.
pub(crate) fn remove_if_there(disk: &dyn Disk, name: &str) -> io::Result<()> {
    match disk.remove(name) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}
