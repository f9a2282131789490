//! Files behind a narrow trait: one flat directory, and nothing that the storage engine and the spool do not need.
//!
//! It is narrow so that it can be broken on purpose. [`OsDisk`] is the operating system's; `SimDisk` (feature `simulated`)
//! lives in memory and behaves as badly as a disk may; `PlantedDisk` (feature `planted-bugs`) fails on command under a real
//! server. Who builds on a disk says when what is durable, and this crate's disks show whether that is true.

mod os;
mod steps;

mod lens;

#[cfg(feature = "planted-bugs")]
mod planted;
#[cfg(feature = "simulated")]
mod simulated;

use std::any::Any;
use std::io;
use std::sync::Arc;

pub use lens::Lens;
pub use os::OsDisk;
#[cfg(feature = "planted-bugs")]
pub use planted::PlantedDisk;
#[cfg(feature = "simulated")]
pub use simulated::{
    Cuts, Fault, Keep, Operation, Region, Ruler, SimDisk, cuts_while_opening, run_seeds, some_of_each,
};
pub use steps::{read_exact, remove_if_there, write_whole};

/// One flat directory of files.
pub trait Disk: Send + Sync {
    /// Whether the directory is there.
    fn exists(&self) -> bool;
    /// Make the directory itself exist, durably.
    fn prepare(&self) -> io::Result<()>;
    /// Take the exclusive lock; it is held until the answer is dropped. `WouldBlock` = held by another.
    fn lock(&self, name: &str) -> io::Result<Box<dyn Any + Send + Sync>>;
    /// Names of all files.
    fn list(&self) -> io::Result<Vec<String>>;
    /// Open an existing file for reading and writing.
    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>>;
    /// Create an empty file, replacing any. Durable only after [`Disk::sync_dir`].
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
    /// Write all bytes at a position, extending the file if needed. After an error any part of them may be there.
    fn write_at(&self, bytes: &[u8], position: u64) -> io::Result<()>;
    /// Write zeroes over a range. Nobody else may use the file meanwhile.
    fn write_zeroes(&self, position: u64, len: u64) -> io::Result<()> {
        steps::write_zeroes(self, position, len)
    }
    /// Make what was written durable. After an error nothing is known of what is durable, and another sync does not tell:
    /// the system may have dropped what it could not write.
    fn sync(&self) -> io::Result<()>;
    /// Length in bytes.
    fn size(&self) -> io::Result<u64>;
}
