//! What is on a simulated disk: what reads see, what is durable, and what lies between.

use std::collections::BTreeMap;
use std::io;

use fastrand::Rng;

use super::{Fault, Operation};

/// A file's content, whatever its name.
#[derive(Clone, Default)]
pub(super) struct Inode {
    /// What survives for certain.
    pub(super) durable: Vec<u8>,
    /// What reads see.
    pub(super) seen: Vec<u8>,
    /// Writes since the last sync.
    pub(super) pending: Vec<(usize, Vec<u8>)>,
}

impl Inode {
    pub(super) fn durable(content: Vec<u8>) -> Self {
        Self { durable: content.clone(), seen: content, pending: Vec::new() }
    }
}

/// Names that change together, as a rename's two do.
pub(super) type DirChange = Vec<(String, Option<usize>)>;

/// What an operation that waits will do.
#[derive(Clone)]
pub(super) enum Effect {
    /// (inode, position, bytes)
    Write(usize, usize, Vec<u8>),
    /// A name of an inode that is not there yet is one of a new, empty one.
    Names(DirChange),
    /// Nothing but to make durable.
    None,
}

/// See the module.
#[derive(Default)]
pub(super) struct World {
    pub(super) inodes: Vec<Inode>,
    pub(super) durable_names: BTreeMap<String, usize>,
    pub(super) names: BTreeMap<String, usize>,
    pub(super) pending: Vec<DirChange>,
    /// The directory is there.
    pub(super) made: bool,
    pub(super) locked: bool,
    /// Changing operations so far.
    pub(super) operations: u64,
    /// The operation during which power is lost.
    pub(super) cut_at: Option<u64>,
    pub(super) off: bool,
    /// (what, how many more pass, how many fail after them)
    pub(super) fault: Option<(Fault, u64, u64)>,
    pub(super) failed: bool,
    pub(super) rng: Rng,
    pub(super) syncs: u64,
    pub(super) hold_syncs: bool,
    pub(super) held: u64,
    /// Most bytes in all files.
    pub(super) space: Option<usize>,
    pub(super) stepping: bool,
    pub(super) asked: Option<(Operation, Effect)>,
}

fn power_cut() -> io::Error {
    io::Error::other("power cut")
}

/// Put bytes into a content, extending it if needed.
pub(super) fn put(content: &mut Vec<u8>, position: usize, bytes: &[u8]) {
    let end = position + bytes.len();
    if content.len() < end {
        content.resize(end, 0);
    }
    content[position..end].copy_from_slice(bytes);
}

/// Change names.
pub(super) fn apply(names: &mut BTreeMap<String, usize>, change: &DirChange) {
    for (name, inode) in change {
        match inode {
            Some(inode) => names.insert(name.clone(), *inode),
            None => names.remove(name),
        };
    }
}

/// The parts of writes that reach the disk whole or not at all.
pub(super) fn sectors(writes: &[(usize, Vec<u8>)], sector: usize) -> Vec<(usize, &[u8])> {
    let mut pieces = Vec::new();
    for (position, bytes) in writes {
        let mut at = 0;
        while at < bytes.len() {
            let len = (sector - (position + at) % sector).min(bytes.len() - at);
            pieces.push((position + at, &bytes[at..at + len]));
            at += len;
        }
    }
    pieces
}

impl World {
    pub(super) fn alive(&self) -> io::Result<()> {
        self.check(self.off)
    }

    pub(super) fn check(&self, cut: bool) -> io::Result<()> {
        if cut { Err(power_cut()) } else { Ok(()) }
    }

    /// Count a changing operation. `true` = power is lost in the middle of it.
    pub(super) fn count(&mut self) -> io::Result<bool> {
        self.alive()?;
        self.operations += 1;
        self.off = self.cut_at.is_some_and(|at| self.operations >= at);
        Ok(self.off)
    }

    /// Fail if it is the turn of an operation that fails like this.
    pub(super) fn strike(&mut self, faults: &[Fault]) -> io::Result<()> {
        let Some((fault, skip, times)) = &mut self.fault else { return Ok(()) };
        if !faults.contains(fault) || *times == 0 {
            return Ok(());
        }
        if *skip > 0 {
            *skip -= 1;
            return Ok(());
        }
        *times -= 1;
        self.failed = true;
        Err(match fault {
            Fault::Full => io::ErrorKind::StorageFull.into(),
            Fault::Sync | Fault::SyncDir => io::Error::other("sync failed"),
            _ => io::Error::other("input/output error"),
        })
    }

    /// Count an effect among what is not durable, until [`World::take_back`].
    pub(super) fn add(&mut self, effect: &Effect) {
        match effect {
            Effect::Write(inode, position, bytes) => {
                self.inodes[*inode].pending.push((*position, bytes.clone()));
            }
            Effect::Names(change) => {
                self.inodes.push(Inode::default());
                self.pending.push(change.clone());
            }
            Effect::None => (),
        }
    }

    pub(super) fn take_back(&mut self, effect: &Effect) {
        match effect {
            Effect::Write(inode, ..) => drop(self.inodes[*inode].pending.pop()),
            Effect::Names(_) => drop((self.inodes.pop(), self.pending.pop())),
            Effect::None => (),
        }
    }

    pub(super) fn inode(&self, name: &str) -> io::Result<usize> {
        self.alive()?;
        self.names.get(name).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    pub(super) fn name_of(&self, inode: usize) -> String {
        let name = self.names.iter().find(|(_, other)| **other == inode);
        name.map(|(name, _)| name.clone()).unwrap_or_default()
    }

    pub(super) fn change_names(&mut self, change: DirChange, cut: bool) -> io::Result<()> {
        apply(&mut self.names, &change);
        self.pending.push(change);
        self.check(cut)
    }

    /// Write; an error leaves the beginning written.
    pub(super) fn write(&mut self, inode: usize, position: usize, bytes: &[u8]) -> io::Result<()> {
        let (fits, outcome) = match self.strike(&[Fault::Write, Fault::Full]) {
            Ok(()) => {
                let fits = self.room_for(inode, position, bytes.len());
                let full = || Err(io::ErrorKind::StorageFull.into());
                (fits, if fits < bytes.len() { full() } else { Ok(()) })
            }
            Err(error) => (self.rng.usize(..=bytes.len()), Err(error)),
        };
        let inode = &mut self.inodes[inode];
        inode.pending.push((position, bytes[..fits].to_vec()));
        put(&mut inode.seen, position, &bytes[..fits]);
        outcome
    }

    /// How many of the bytes to be written there is space for: a full disk takes the beginning and refuses the rest.
    fn room_for(&self, inode: usize, position: usize, len: usize) -> usize {
        let Some(space) = self.space else { return len };
        let used: usize = self.names.values().map(|inode| self.inodes[*inode].seen.len()).sum();
        let there = self.inodes[inode].seen.len();
        (there + space.saturating_sub(used)).saturating_sub(position).min(len)
    }

    /// Make a file durable; an error drops what could not be written, and nobody will hear of it again.
    pub(super) fn sync(&mut self, inode: usize) -> io::Result<()> {
        let outcome = self.strike(&[Fault::Sync]);
        let Inode { durable, pending, .. } = &mut self.inodes[inode];
        let pending = std::mem::take(pending);
        for (position, bytes) in sectors(&pending, 4096) {
            if outcome.is_ok() || self.rng.bool() {
                put(durable, position, bytes);
            }
        }
        outcome
    }
}
