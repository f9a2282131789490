//! Work beside the commits: sealing full files, checkpoints, and giving the space of emptied files back.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bugle_store::Offset;

use crate::checkpoint;
use crate::index::{Entry, Older, Sealed};
use crate::log::{free_name, index_name, log_name, prints_name};
use crate::shared::{Evacuation, ReplayStart, Shared};

/// A file with a smaller part alive is emptied by copying that part forward.
const SPARSE: f64 = 0.3;
/// Entries judged per look at the state.
const PIECE: usize = 4096;

/// Do all that is due.
pub(crate) fn run(shared: &Shared) -> io::Result<()> {
    seal_all(shared)?;
    let wanted = shared.wanted.lock().take();
    if let Some(start) = wanted {
        checkpoint::write(shared, start)?;
        reclaim(shared, start)?;
        plan_evacuation(shared, start);
    }
    Ok(())
}

fn seal_all(shared: &Shared) -> io::Result<()> {
    loop {
        let Some(full) = shared.core.read().index.older.frozen.first().cloned() else { return Ok(()) };
        let sealed = Arc::new(full.seal(&*shared.disk)?);
        {
            let mut core = shared.core.write();
            let older = &mut core.index.older;
            let mut files = older.sealed.to_vec();
            files.push(sealed);
            Older::bound_filters(&files, shared.options.filter_bytes);
            older.sealed = Arc::new(files);
            older.frozen.remove(0);
        }
        shared.sealed.notify_all();
    }
}

/// Give back the files that hold nothing alive. Only below the checkpoint: above it, replay needs them. While a backup is
/// taken nothing is given back; the next checkpoint finds it.
fn reclaim(shared: &Shared, start: ReplayStart) -> io::Result<()> {
    let pinned = shared.pinned.lock();
    if *pinned {
        return Ok(());
    }
    let sealed = shared.core.read().index.older.sealed.clone();
    let mut empty = Vec::new();
    for file in sealed.iter().filter(|sealed| sealed.file.id < start.file && readable(sealed)) {
        let nothing_left = file.evacuated.load(Ordering::Acquire)
            || is_empty(shared, file).unwrap_or_else(|e| {
                file.give_up(&e);
                false
            });
        if nothing_left {
            empty.push(file.clone());
        }
    }
    if empty.is_empty() {
        return Ok(());
    }
    {
        let mut core = shared.core.write();
        let older = &mut core.index.older;
        let kept = older.sealed.iter().filter(|s| !empty.iter().any(|gone| gone.file.id == s.file.id));
        older.sealed = Arc::new(kept.cloned().collect());
    }
    let mut free = Vec::new();
    for gone in &empty {
        let id = gone.file.id;
        let reusable = gone.file.file.size()? == shared.options.file_size;
        if reusable && shared.free.len() + free.len() < shared.options.recycle {
            shared.disk.rename(&log_name(id), &free_name(id))?;
            free.push(free_name(id));
        } else {
            shared.disk.remove(&log_name(id))?;
        }
        shared.disk.remove(&index_name(id))?;
        shared.disk.remove(&prints_name(id))?;
    }
    shared.disk.sync_dir()?;
    // Only now may their headers be overwritten.
    free.into_iter().for_each(|name| shared.free.add(name));
    Ok(())
}

/// Damage in one file stops neither the store nor work on the others.
fn readable(sealed: &Sealed) -> bool {
    !sealed.unreadable.load(Ordering::Acquire)
}

/// Whether nothing in the file is alive. Goes on where the last look found something alive.
fn is_empty(shared: &Shared, sealed: &Sealed) -> io::Result<bool> {
    let mut at = sealed.dead_below.lock();
    loop {
        let piece = piece_from(sealed, *at)?;
        let core = shared.core.read();
        let live = piece.iter().find(|(uid, e)| core.state.is_live(*uid, e.base, e.count));
        if let Some((uid, entry)) = live {
            *at = (*uid, entry.base);
            return Ok(false);
        }
        let Some((uid, last)) = piece.last() else { return Ok(true) };
        *at = (*uid, last.base + 1);
    }
}

fn piece_from(sealed: &Sealed, (uid, base): (u64, Offset)) -> io::Result<Vec<(u64, Entry)>> {
    let mut piece = Vec::new();
    sealed.visit_from(uid, base, |uid, entry| {
        piece.push((uid, entry));
        piece.len() < PIECE
    })?;
    Ok(piece)
}

/// Look at the oldest file and one other: whether so little of it is alive that copying that forward pays.
fn plan_evacuation(shared: &Shared, start: ReplayStart) {
    if shared.evacuation.lock().is_some() {
        return;
    }
    let sealed = shared.core.read().index.older.sealed.clone();
    let below = sealed
        .iter()
        .filter(|s| s.file.id < start.file && !s.evacuated.load(Ordering::Acquire) && readable(s));
    let below: Vec<&Arc<Sealed>> = below.collect();
    let other = (start.file as usize).checked_rem(below.len()).unwrap_or(0);
    for index in [0, other] {
        let Some(candidate) = below.get(index) else { continue };
        let rest = match live_entries(shared, candidate) {
            Ok(rest) => rest,
            Err(e) => {
                candidate.give_up(&e);
                continue;
            }
        };
        let bytes: u64 = rest.iter().map(|(_, entry)| u64::from(entry.len)).sum();
        if !rest.is_empty() && (bytes as f64) < SPARSE * candidate.file.size as f64 {
            *shared.evacuation.lock() = Some(Evacuation { from: (*candidate).clone(), rest });
            return;
        }
    }
}

fn live_entries(shared: &Shared, sealed: &Sealed) -> io::Result<Vec<(u64, Entry)>> {
    let mut live = Vec::new();
    let mut at = *sealed.dead_below.lock();
    loop {
        let piece = piece_from(sealed, at)?;
        let Some((uid, last)) = piece.last() else { return Ok(live) };
        at = (*uid, last.base + 1);
        let core = shared.core.read();
        live.extend(piece.iter().filter(|(uid, e)| core.state.is_live(*uid, e.base, e.count)));
    }
}
