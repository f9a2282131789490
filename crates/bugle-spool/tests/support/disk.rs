//! A disk in memory that behaves as badly as a disk may: what was not synced can be lost, torn and reordered at a power
//! cut, a sync can fail, and it can be full.

use std::any::Any;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use bugle_disk::{Disk, DiskFile};
use fastrand::Rng;
use parking_lot::Mutex;

#[derive(Clone, Default)]
struct Inode {
    /// What survives for certain.
    durable: Vec<u8>,
    /// What reads see.
    seen: Vec<u8>,
    /// Writes since the last sync.
    pending: Vec<(usize, Vec<u8>)>,
}

/// Entries that change together.
type DirChange = Vec<(String, Option<usize>)>;

#[derive(Default)]
struct World {
    inodes: Vec<Inode>,
    durable_names: BTreeMap<String, usize>,
    names: BTreeMap<String, usize>,
    pending: Vec<DirChange>,
    /// Changing operations so far.
    operations: u64,
    /// The operation during which power is lost.
    cut_at: Option<u64>,
    off: bool,
    fail_syncs: bool,
    syncs: u64,
    locked: bool,
    /// The directory is there.
    made: bool,
    /// Most bytes in all files.
    space: Option<usize>,
}

/// The disk.
#[derive(Clone, Default)]
pub(crate) struct MemDisk(Arc<Mutex<World>>);

fn power_cut() -> io::Error {
    io::Error::other("power cut")
}

fn put(content: &mut Vec<u8>, position: usize, bytes: &[u8]) {
    let end = position + bytes.len();
    if content.len() < end {
        content.resize(end, 0);
    }
    content[position..end].copy_from_slice(bytes);
}

impl World {
    fn alive(&self) -> io::Result<()> {
        if self.off { Err(power_cut()) } else { Ok(()) }
    }

    /// Count a changing operation. `true` = power is lost in the middle of it.
    fn step(&mut self) -> io::Result<bool> {
        self.alive()?;
        self.operations += 1;
        self.off = self.cut_at.is_some_and(|at| self.operations >= at);
        Ok(self.off)
    }

    fn change_names(&mut self, change: DirChange) -> io::Result<()> {
        let cut = self.step()?;
        apply(&mut self.names, &change);
        self.pending.push(change);
        if cut { Err(power_cut()) } else { Ok(()) }
    }

    /// How many of the bytes to be written there is space for: a full disk takes the beginning and refuses the rest.
    fn room_for(&self, inode: usize, position: usize, len: usize) -> usize {
        let Some(space) = self.space else { return len };
        let used: usize = self.names.values().map(|inode| self.inodes[*inode].seen.len()).sum();
        let there = self.inodes[inode].seen.len();
        (there + space.saturating_sub(used)).saturating_sub(position).min(len)
    }

    fn inode(&self, name: &str) -> io::Result<usize> {
        self.alive()?;
        self.names.get(name).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

fn apply(names: &mut BTreeMap<String, usize>, change: &DirChange) {
    for (name, inode) in change {
        match inode {
            Some(inode) => names.insert(name.clone(), *inode),
            None => names.remove(name),
        };
    }
}

impl MemDisk {
    /// Lose power during the n-th changing operation from now.
    pub(crate) fn cut_after(&self, operations: u64) {
        let mut world = self.0.lock();
        world.cut_at = Some(world.operations + operations);
    }

    /// Plan no cut any more. `false` = it is too late.
    pub(crate) fn keep_on(&self) -> bool {
        let mut world = self.0.lock();
        world.cut_at = None;
        !world.off
    }

    /// Lose power now.
    pub(crate) fn cut_now(&self) {
        self.0.lock().off = true;
    }

    /// Let all files together have so many bytes from now on.
    pub(crate) fn limit(&self, space: Option<usize>) {
        self.0.lock().space = space;
    }

    /// Whether syncs of files fail from now on.
    pub(crate) fn fail_syncs(&self, fail: bool) {
        self.0.lock().fail_syncs = fail;
    }

    /// Syncs of files so far.
    pub(crate) fn syncs(&self) -> u64 {
        self.0.lock().syncs
    }

    /// What is there when power comes back: all that was synced, and any part of the rest in any order.
    pub(crate) fn after_cut(&self, rng: &mut Rng) -> MemDisk {
        let world = self.0.lock();
        let mut names = world.durable_names.clone();
        let mut changes: Vec<&DirChange> = world.pending.iter().filter(|_| rng.bool()).collect();
        if rng.bool() {
            rng.shuffle(&mut changes);
        }
        changes.into_iter().for_each(|change| apply(&mut names, change));
        let inodes = world.inodes.iter().map(|inode| survive(inode, rng)).collect();
        let durable_names = names.clone();
        MemDisk(Arc::new(Mutex::new(World {
            inodes,
            durable_names,
            names,
            made: world.made,
            ..World::default()
        })))
    }

    /// What is there after the process was killed: all of it, but no more durable than before. The killed process can no
    /// longer reach it.
    pub(crate) fn after_kill(&self) -> MemDisk {
        let mut world = self.0.lock();
        world.off = true;
        let (inodes, durable_names) = (world.inodes.clone(), world.durable_names.clone());
        let (names, pending) = (world.names.clone(), world.pending.clone());
        MemDisk(Arc::new(Mutex::new(World {
            inodes,
            durable_names,
            names,
            pending,
            made: world.made,
            ..World::default()
        })))
    }

    /// Flip one bit of a file.
    pub(crate) fn flip(&self, name: &str, bit: usize) {
        let mut world = self.0.lock();
        let inode = world.names[name];
        let inode = &mut world.inodes[inode];
        inode.seen[bit / 8] ^= 1 << (bit % 8);
        inode.durable = inode.seen.clone();
    }

    /// Names and sizes.
    pub(crate) fn files(&self) -> Vec<(String, usize)> {
        let world = self.0.lock();
        world.names.iter().map(|(name, inode)| (name.clone(), world.inodes[*inode].seen.len())).collect()
    }
}

fn survive(inode: &Inode, rng: &mut Rng) -> Inode {
    let mut content = inode.durable.clone();
    let sector = if rng.bool() { 512 } else { 4096 };
    let keep = [0.0, 0.5, 0.9, 1.0][rng.usize(..4)];
    let mut pieces = Vec::new();
    for (position, bytes) in &inode.pending {
        let mut at = 0;
        while at < bytes.len() {
            let len = (sector - (position + at) % sector).min(bytes.len() - at);
            if rng.f64() < keep {
                pieces.push((position + at, &bytes[at..at + len]));
            }
            at += len;
        }
    }
    if rng.bool() {
        rng.shuffle(&mut pieces);
    }
    pieces.into_iter().for_each(|(position, bytes)| put(&mut content, position, bytes));
    Inode { durable: content.clone(), seen: content, pending: Vec::new() }
}

struct Lock(Arc<Mutex<World>>);

impl Drop for Lock {
    fn drop(&mut self) {
        self.0.lock().locked = false;
    }
}

impl Disk for MemDisk {
    fn exists(&self) -> bool {
        self.0.lock().made
    }

    fn prepare(&self) -> io::Result<()> {
        let mut world = self.0.lock();
        world.alive()?;
        world.made = true;
        Ok(())
    }

    fn lock(&self, _name: &str) -> io::Result<Box<dyn Any + Send + Sync>> {
        let mut world = self.0.lock();
        world.alive()?;
        if std::mem::replace(&mut world.locked, true) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(Box::new(Lock(self.0.clone())))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let world = self.0.lock();
        world.alive()?;
        Ok(world.names.keys().cloned().collect())
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let inode = self.0.lock().inode(name)?;
        Ok(Arc::new(MemFile { world: self.0.clone(), inode }))
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let mut world = self.0.lock();
        world.inodes.push(Inode::default());
        let inode = world.inodes.len() - 1;
        world.change_names(vec![(name.to_owned(), Some(inode))])?;
        Ok(Arc::new(MemFile { world: self.0.clone(), inode }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut world = self.0.lock();
        let inode = world.inode(from)?;
        world.change_names(vec![(from.to_owned(), None), (to.to_owned(), Some(inode))])
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut world = self.0.lock();
        world.inode(name)?;
        world.change_names(vec![(name.to_owned(), None)])
    }

    fn sync_dir(&self) -> io::Result<()> {
        let mut world = self.0.lock();
        if world.step()? {
            return Err(power_cut());
        }
        world.durable_names = world.names.clone();
        world.pending.clear();
        Ok(())
    }

    fn describe(&self) -> String {
        "memory".to_owned()
    }
}

struct MemFile {
    world: Arc<Mutex<World>>,
    inode: usize,
}

impl DiskFile for MemFile {
    fn read_at(&self, into: &mut [u8], position: u64) -> io::Result<usize> {
        let world = self.world.lock();
        world.alive()?;
        let seen = &world.inodes[self.inode].seen;
        let from = (position as usize).min(seen.len());
        let len = into.len().min(seen.len() - from);
        into[..len].copy_from_slice(&seen[from..from + len]);
        Ok(len)
    }

    fn write_at(&self, bytes: &[u8], position: u64) -> io::Result<()> {
        let mut world = self.world.lock();
        let cut = world.step()?;
        let fits = world.room_for(self.inode, position as usize, bytes.len());
        let inode = &mut world.inodes[self.inode];
        inode.pending.push((position as usize, bytes[..fits].to_vec()));
        put(&mut inode.seen, position as usize, &bytes[..fits]);
        match cut {
            true => Err(power_cut()),
            false if fits < bytes.len() => Err(io::ErrorKind::StorageFull.into()),
            false => Ok(()),
        }
    }

    fn sync(&self) -> io::Result<()> {
        let mut world = self.world.lock();
        world.syncs += 1;
        if world.step()? {
            return Err(power_cut());
        }
        if world.fail_syncs {
            return Err(io::Error::other("sync failed"));
        }
        let inode = &mut world.inodes[self.inode];
        for (position, bytes) in std::mem::take(&mut inode.pending) {
            put(&mut inode.durable, position, &bytes);
        }
        Ok(())
    }

    fn size(&self) -> io::Result<u64> {
        let world = self.world.lock();
        world.alive()?;
        Ok(world.inodes[self.inode].seen.len() as u64)
    }
}
