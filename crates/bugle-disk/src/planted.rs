//! A disk that fails on command, for runs of a whole server under faults.
//!
//! The command is the content of a file outside of the disk, looked at before every operation: `eio-sync`, `eio-write`,
//! `eio-read` or `full`. Empty, absent or unknown: all is well.

use std::any::Any;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use crate::{Disk, DiskFile};

/// Names the file with the command.
const VARIABLE: &str = "BUGLE_PLANTED_DISK";

/// A disk around another, see the module.
pub struct PlantedDisk {
    inner: Arc<dyn Disk>,
    command: Arc<Command>,
}

impl PlantedDisk {
    /// Put it around a disk, if `BUGLE_PLANTED_DISK` names a file with commands.
    pub fn around(inner: Arc<dyn Disk>) -> Arc<dyn Disk> {
        match std::env::var_os(VARIABLE) {
            None => inner,
            Some(file) => {
                tracing::error!(file = ?file, "THE DISK OF THIS SERVER FAILS ON COMMAND");
                Self::commanded(inner, file)
            }
        }
    }

    /// Put it around a disk, with the commands in this file.
    pub fn commanded(inner: Arc<dyn Disk>, file: impl Into<PathBuf>) -> Arc<dyn Disk> {
        Arc::new(Self { inner, command: Arc::new(Command { file: file.into() }) })
    }

    fn file(&self, inner: Arc<dyn DiskFile>) -> Arc<dyn DiskFile> {
        Arc::new(PlantedFile { inner, command: self.command.clone() })
    }
}

struct Command {
    file: PathBuf,
}

impl Command {
    /// Fail if this is the command.
    fn obey(&self, when: &str, error: rustix::io::Errno) -> io::Result<()> {
        let text = std::fs::read_to_string(&self.file).unwrap_or_default();
        if text.trim() == when { Err(error.into()) } else { Ok(()) }
    }

    fn before_sync(&self) -> io::Result<()> {
        self.obey("eio-sync", rustix::io::Errno::IO)
    }

    /// Nothing of a write that fails is there.
    fn before_write(&self) -> io::Result<()> {
        self.obey("eio-write", rustix::io::Errno::IO)?;
        self.obey("full", rustix::io::Errno::NOSPC)
    }

    fn before_read(&self) -> io::Result<()> {
        self.obey("eio-read", rustix::io::Errno::IO)
    }
}

impl Disk for PlantedDisk {
    fn exists(&self) -> bool {
        self.inner.exists()
    }

    fn prepare(&self) -> io::Result<()> {
        self.inner.prepare()
    }

    fn lock(&self, name: &str) -> io::Result<Box<dyn Any + Send + Sync>> {
        self.inner.lock(name)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.command.before_read()?;
        self.inner.list()
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        self.command.before_read()?;
        Ok(self.file(self.inner.open(name)?))
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        self.command.before_write()?;
        Ok(self.file(self.inner.create(name)?))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.command.obey("eio-write", rustix::io::Errno::IO)?;
        self.inner.rename(from, to)
    }

    /// Also on a full disk.
    fn remove(&self, name: &str) -> io::Result<()> {
        self.command.obey("eio-write", rustix::io::Errno::IO)?;
        self.inner.remove(name)
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.command.before_sync()?;
        self.inner.sync_dir()
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }
}

struct PlantedFile {
    inner: Arc<dyn DiskFile>,
    command: Arc<Command>,
}

impl DiskFile for PlantedFile {
    fn read_at(&self, into: &mut [u8], position: u64) -> io::Result<usize> {
        self.command.before_read()?;
        self.inner.read_at(into, position)
    }

    fn write_at(&self, bytes: &[u8], position: u64) -> io::Result<()> {
        self.command.before_write()?;
        self.inner.write_at(bytes, position)
    }

    fn sync(&self) -> io::Result<()> {
        self.command.before_sync()?;
        self.inner.sync()
    }

    fn size(&self) -> io::Result<u64> {
        self.inner.size()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::OsDisk;

    #[test]
    fn each_command_fails_its_operations_and_no_others_and_only_while_it_stands_there() {
        let dir = tempfile::tempdir().unwrap();
        let control = dir.path().join("control");
        let disk = PlantedDisk::commanded(Arc::new(OsDisk::new(dir.path().join("data"))), &control);
        disk.prepare().unwrap();
        let file = disk.create("a").unwrap();
        let outcomes = || {
            let mut byte = [0];
            let code = |outcome: io::Result<()>| outcome.err().map_or(0, |e| e.raw_os_error().unwrap());
            [
                code(file.read_at(&mut byte, 0).map(drop)),
                code(file.write_at(b"x", 0)),
                code(disk.create("b").map(drop)),
                code(file.sync()),
                code(disk.sync_dir()),
            ]
        };
        assert_eq!(outcomes(), [0; 5], "without a file of commands");
        for (command, wanted) in [
            ("eio-read", [5, 0, 0, 0, 0]),
            ("eio-write\n", [0, 5, 5, 0, 0]),
            ("full", [0, 28, 28, 0, 0]),
            ("eio-sync", [0, 0, 0, 5, 5]),
            ("", [0; 5]),
            ("nonsense", [0; 5]),
        ] {
            std::fs::write(&control, command).unwrap();
            assert_eq!(outcomes(), wanted, "{command}");
        }
    }
}
