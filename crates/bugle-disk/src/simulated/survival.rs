//! What a power cut leaves.

use std::collections::BTreeMap;

use fastrand::Rng;

use super::Keep;
use super::world::{DirChange, Inode, World, apply, put, sectors};

/// The disk when power is back. Only files that have a name are there.
pub(super) fn survivors(world: &World, keep: Keep, rng: &mut Rng) -> World {
    let mut names = world.durable_names.clone();
    let mut changes: Vec<&DirChange> = world.pending.iter().collect();
    match keep {
        Keep::Nothing | Keep::Data => changes.clear(),
        Keep::Everything | Keep::Names => (),
        Keep::Any => {
            changes.retain(|_| rng.bool());
            if rng.bool() {
                rng.shuffle(&mut changes);
            }
        }
    }
    changes.into_iter().for_each(|change| apply(&mut names, change));
    let (mut inodes, mut moved) = (Vec::new(), BTreeMap::new());
    for inode in names.values_mut() {
        *inode = *moved.entry(*inode).or_insert_with(|| {
            inodes.push(Inode::durable(content(&world.inodes[*inode], keep, rng)));
            inodes.len() - 1
        });
    }
    World { inodes, durable_names: names.clone(), names, made: world.made, ..World::default() }
}

fn content(inode: &Inode, keep: Keep, rng: &mut Rng) -> Vec<u8> {
    let mut content = inode.durable.clone();
    let sector = if rng.bool() { 512 } else { 4096 };
    let mut pieces = sectors(&inode.pending, sector);
    match keep {
        Keep::Nothing | Keep::Names => pieces.clear(),
        Keep::Everything | Keep::Data => (),
        Keep::Any => {
            let likely = [0.0, 0.5, 0.9, 1.0][rng.usize(..4)];
            pieces.retain(|_| rng.f64() < likely);
            if rng.bool() {
                rng.shuffle(&mut pieces);
            }
        }
    }
    pieces.into_iter().for_each(|(position, bytes)| put(&mut content, position, bytes));
    content
}
