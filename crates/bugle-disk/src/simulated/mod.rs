//! A disk in memory that behaves as badly as a disk may.
//!
//! * **Power cuts** ([`SimDisk::after_cut`], [`SimDisk::image`]): of what was not synced any sectors are there, in any order, the
//!   last write torn; of the directory's changes any, in any order, each whole. That is more than POSIX allows.
//! * **Kills** ([`SimDisk::after_kill`]): everything is seen, but no more of it is durable than before.
//! * **A sync that fails** drops what was to be written, as systems do: reads still see it, and the next sync succeeds although it
//!   is not durable. A directory's changes are not dropped: file systems with a journal keep them or stop.
//! * **Errors** ([`Fault`]): of reading, writing, creating, syncing; a full disk. A write that fails has written a part.
//! * **Flipped bits** at rest ([`SimDisk::flip`]).
//!
//! Everything random comes from a seed. [`SimDisk::step`] stops before every operation, so that a test can look at all that
//! power cuts would leave at that moment; [`Cuts`] does so for a whole workload. [`Ruler`] cuts files into regions to flip bits in.

mod everywhere;
mod regions;
mod seeds;
mod survival;
mod world;

use std::any::Any;
use std::io;
use std::sync::Arc;

use fastrand::Rng;
use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::{Disk, DiskFile};
pub use everywhere::{Cuts, cuts_while_opening};
pub use regions::{Region, Ruler, some_of_each};
pub use seeds::run_seeds;
use world::{Effect, Inode, World};

/// Which of the things that are not durable are there after a cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// None.
    Nothing,
    /// All.
    Everything,
    /// All writes, but no change of the directory.
    Data,
    /// All changes of the directory, but no write.
    Names,
    /// Any part in any order, by chance.
    Any,
}

/// What can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Syncing a file.
    Sync,
    /// Syncing the directory.
    SyncDir,
    /// Writing.
    Write,
    /// Creating a file.
    Create,
    /// Renaming or removing a file.
    Name,
    /// Reading.
    Read,
    /// Writing or creating, for want of space.
    Full,
}

/// An operation that changes something, or makes it durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A file by this name, if it still has one, is written.
    Write(String),
    /// A file is synced.
    Sync(String),
    /// A file is created.
    Create(String),
    /// A file is renamed.
    Rename(String, String),
    /// A file is removed.
    Remove(String),
    /// The directory is synced.
    SyncDir,
}

/// See the module. Clones are the same disk.
#[derive(Clone, Default)]
pub struct SimDisk(Arc<Shared>);

#[derive(Default)]
struct Shared {
    world: Mutex<World>,
    turn: Condvar,
}

impl SimDisk {
    fn with(world: World) -> Self {
        Self(Arc::new(Shared { world: Mutex::new(world), turn: Condvar::new() }))
    }

    /// Lose power during the n-th changing operation from now.
    pub fn cut_after(&self, operations: u64) {
        let mut world = self.0.world.lock();
        world.cut_at = Some(world.operations + operations);
    }

    /// Plan no cut any more. `false` = it is too late.
    pub fn keep_on(&self) -> bool {
        let mut world = self.0.world.lock();
        world.cut_at = None;
        !world.off
    }

    /// Lose power now.
    pub fn cut_now(&self) {
        self.0.world.lock().off = true;
    }

    /// Changing operations so far.
    pub fn operations(&self) -> u64 {
        self.0.world.lock().operations
    }

    /// Let all files together have so many bytes from now on.
    pub fn limit(&self, space: Option<usize>) {
        self.0.world.lock().space = space;
    }

    /// Let operations fail: after `skip` more that could, the next `times`. `seed` decides what a failed one leaves.
    pub fn fail(&self, fault: Fault, skip: u64, times: u64, seed: u64) {
        let mut world = self.0.world.lock();
        world.fault = Some((fault, skip, times));
        world.rng = Rng::with_seed(seed);
    }

    /// Let nothing fail any more. Answers whether anything had failed.
    pub fn heal(&self) -> bool {
        let mut world = self.0.world.lock();
        world.fault = None;
        std::mem::take(&mut world.failed)
    }

    /// Whether syncs of files wait from now on.
    pub fn hold_syncs(&self, hold: bool) {
        self.0.world.lock().hold_syncs = hold;
        self.0.turn.notify_all();
    }

    /// Syncs that wait.
    pub fn held(&self) -> u64 {
        self.0.world.lock().held
    }

    /// Syncs of files so far.
    pub fn syncs(&self) -> u64 {
        self.0.world.lock().syncs
    }

    /// Whether every changing operation waits from now on until [`SimDisk::grant`].
    pub fn step(&self, stepping: bool) {
        let mut world = self.0.world.lock();
        world.stepping = stepping;
        world.asked = None;
        self.0.turn.notify_all();
    }

    /// The operation that waits. All that its thread did before, it has done.
    pub fn asked(&self) -> Option<Operation> {
        self.0.world.lock().asked.as_ref().map(|(operation, _)| operation.clone())
    }

    /// Let the operation that waits happen.
    pub fn grant(&self) {
        self.0.world.lock().asked = None;
        self.0.turn.notify_all();
    }

    /// What is there when power comes back: all that was synced, and any part of the rest in any order.
    pub fn after_cut(&self, rng: &mut Rng) -> Self {
        self.image(Keep::Any, rng)
    }

    /// What is there when power is lost now and comes back.
    pub fn image(&self, keep: Keep, rng: &mut Rng) -> Self {
        Self::with(survival::survivors(&self.0.world.lock(), keep, rng))
    }

    /// What is there when power is lost in the middle of the operation that waits (see [`SimDisk::step`]) and comes back: it
    /// counts among what is not durable. A sync that is interrupted is like one that did not begin.
    pub fn image_during(&self, keep: Keep, rng: &mut Rng) -> Self {
        let mut world = self.0.world.lock();
        let Some((_, effect)) = world.asked.clone() else {
            return Self::with(survival::survivors(&world, keep, rng));
        };
        world.add(&effect);
        let survivors = survival::survivors(&world, keep, rng);
        world.take_back(&effect);
        Self::with(survivors)
    }

    /// What is there after the process was killed: all of it, but no more durable than before. The killed process can no
    /// longer reach it.
    pub fn after_kill(&self) -> Self {
        let mut world = self.0.world.lock();
        world.off = true;
        Self::with(World {
            inodes: world.inodes.clone(),
            durable_names: world.durable_names.clone(),
            names: world.names.clone(),
            pending: world.pending.clone(),
            made: world.made,
            ..World::default()
        })
    }

    /// A copy of everything as it is seen now, all of it durable.
    pub fn copy(&self) -> Self {
        let world = self.0.world.lock();
        let mut copy = World { made: world.made, ..World::default() };
        for (name, inode) in &world.names {
            copy.names.insert(name.clone(), copy.inodes.len());
            copy.inodes.push(Inode::durable(world.inodes[*inode].seen.clone()));
        }
        copy.durable_names = copy.names.clone();
        Self::with(copy)
    }

    /// A number that tells two disks with other content apart.
    pub fn digest(&self) -> u64 {
        use std::hash::{DefaultHasher, Hash, Hasher};
        let world = self.0.world.lock();
        let mut hasher = DefaultHasher::new();
        for (name, inode) in &world.names {
            (name, &world.inodes[*inode].seen).hash(&mut hasher);
        }
        hasher.finish()
    }

    /// Flip one bit of a file.
    ///
    /// # Panics
    /// If there is no such bit.
    pub fn flip(&self, name: &str, bit: usize) {
        let mut world = self.0.world.lock();
        let inode = world.names[name];
        let inode = &mut world.inodes[inode];
        inode.seen[bit / 8] ^= 1 << (bit % 8);
        inode.durable = inode.seen.clone();
    }

    /// Replace a file's content.
    ///
    /// # Panics
    /// If there is no such file.
    pub fn overwrite(&self, name: &str, content: &[u8]) {
        let mut world = self.0.world.lock();
        let inode = world.names[name];
        world.inodes[inode] = Inode::durable(content.to_vec());
    }

    /// A file's content.
    ///
    /// # Panics
    /// If there is no such file.
    pub fn content(&self, name: &str) -> Vec<u8> {
        let world = self.0.world.lock();
        world.inodes[world.names[name]].seen.clone()
    }

    /// Names and sizes.
    pub fn files(&self) -> Vec<(String, usize)> {
        let world = self.0.world.lock();
        world.names.iter().map(|(name, inode)| (name.clone(), world.inodes[*inode].seen.len())).collect()
    }

    /// Wait for one's turn, if there are turns, then count the operation. `true` = power is lost in the middle of it.
    fn enter(
        &self,
        operation: Operation,
        effect: impl FnOnce(&World) -> Effect,
    ) -> io::Result<(MutexGuard<'_, World>, bool)> {
        let mut world = self.0.world.lock();
        if world.stepping {
            world.asked = Some((operation, effect(&world)));
            while world.asked.is_some() {
                self.0.turn.wait(&mut world);
            }
        }
        let cut = world.count()?;
        Ok((world, cut))
    }
}

struct Lock(SimDisk);

impl Drop for Lock {
    fn drop(&mut self) {
        self.0.0.world.lock().locked = false;
    }
}

impl Disk for SimDisk {
    fn exists(&self) -> bool {
        self.0.world.lock().made
    }

    fn prepare(&self) -> io::Result<()> {
        let mut world = self.0.world.lock();
        world.alive()?;
        world.made = true;
        Ok(())
    }

    fn lock(&self, _name: &str) -> io::Result<Box<dyn Any + Send + Sync>> {
        let mut world = self.0.world.lock();
        world.alive()?;
        if std::mem::replace(&mut world.locked, true) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(Box::new(Lock(self.clone())))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut world = self.0.world.lock();
        world.alive()?;
        world.strike(&[Fault::Read])?;
        Ok(world.names.keys().cloned().collect())
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let inode = self.0.world.lock().inode(name)?;
        Ok(Arc::new(SimFile { disk: self.clone(), inode }))
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let (mut world, cut) = self.enter(Operation::Create(name.to_owned()), |world| {
            Effect::Names(vec![(name.to_owned(), Some(world.inodes.len()))])
        })?;
        world.strike(&[Fault::Create, Fault::Full])?;
        world.inodes.push(Inode::default());
        let inode = world.inodes.len() - 1;
        world.change_names(vec![(name.to_owned(), Some(inode))], cut)?;
        Ok(Arc::new(SimFile { disk: self.clone(), inode }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let inode = self.0.world.lock().inode(from)?;
        let change = vec![(from.to_owned(), None), (to.to_owned(), Some(inode))];
        let operation = Operation::Rename(from.to_owned(), to.to_owned());
        let (mut world, cut) = self.enter(operation, |_| Effect::Names(change.clone()))?;
        world.strike(&[Fault::Name])?;
        world.change_names(change, cut)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        // A file that is not there is no operation.
        self.0.world.lock().inode(name)?;
        let change = vec![(name.to_owned(), None)];
        let operation = Operation::Remove(name.to_owned());
        let (mut world, cut) = self.enter(operation, |_| Effect::Names(change.clone()))?;
        world.strike(&[Fault::Name])?;
        world.change_names(change, cut)
    }

    fn sync_dir(&self) -> io::Result<()> {
        let (mut world, cut) = self.enter(Operation::SyncDir, |_| Effect::None)?;
        world.check(cut)?;
        world.strike(&[Fault::SyncDir])?;
        world.durable_names = world.names.clone();
        world.pending.clear();
        Ok(())
    }

    fn describe(&self) -> String {
        "memory".to_owned()
    }
}

struct SimFile {
    disk: SimDisk,
    inode: usize,
}

impl SimFile {
    fn name(&self) -> String {
        self.disk.0.world.lock().name_of(self.inode)
    }
}

impl DiskFile for SimFile {
    fn read_at(&self, into: &mut [u8], position: u64) -> io::Result<usize> {
        let mut world = self.disk.0.world.lock();
        world.alive()?;
        world.strike(&[Fault::Read])?;
        let seen = &world.inodes[self.inode].seen;
        let from = (position as usize).min(seen.len());
        let len = into.len().min(seen.len() - from);
        into[..len].copy_from_slice(&seen[from..from + len]);
        Ok(len)
    }

    fn write_at(&self, bytes: &[u8], position: u64) -> io::Result<()> {
        let (mut world, cut) = self.disk.enter(Operation::Write(self.name()), |_| {
            Effect::Write(self.inode, position as usize, bytes.to_vec())
        })?;
        world.write(self.inode, position as usize, bytes)?;
        world.check(cut)
    }

    fn sync(&self) -> io::Result<()> {
        let (mut world, cut) = self.disk.enter(Operation::Sync(self.name()), |_| Effect::None)?;
        world.check(cut)?;
        world.held += 1;
        while world.hold_syncs {
            self.disk.0.turn.wait(&mut world);
        }
        world.held -= 1;
        world.syncs += 1;
        world.sync(self.inode)
    }

    fn size(&self) -> io::Result<u64> {
        let world = self.disk.0.world.lock();
        world.alive()?;
        Ok(world.inodes[self.inode].seen.len() as u64)
    }
}
