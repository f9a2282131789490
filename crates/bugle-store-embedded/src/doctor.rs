//! Looking a data directory over without opening it for use: every record and index entry is read, nothing is written.
//!
//! The log is applied to a state as recovery would, but damage is written down and the rest is looked at all the same. What
//! then must agree: the numbers of records, the offsets of every lane, cursors and their lanes, rows and their copies, indexes
//! and the log files they are of.

mod walk;

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use bugle_disk::{Disk, Lens};
use bugle_store::{Examination, cursor_fault, first_gap};

use crate::checkpoint;
use crate::log::{FORMAT_VERSION, number_in};
use crate::options::OpenError;
use crate::record::{DEAD_UID, TRACE_UID};
use crate::recovery::{FORMAT, LOCK, parse_format};
use crate::state::State;

use walk::Walk;

/// Look a data directory over. Changes nothing; refuses to guess while a server uses it.
pub fn examine(dir: &Path) -> Examination {
    let disk = Lens::new(dir);
    let mut found = Examination::default();
    found.fact("data directory", disk.describe());
    if let Err(error) = look(&disk, &mut found) {
        match error {
            OpenError::Damaged { file, offset, what } => found.damage(format!("{file} at {offset}"), what),
            OpenError::Locked(dir) => found.unknown(dir, "a server uses it; stop it first"),
            newer @ OpenError::NewerFormat { .. } => found.unknown(FORMAT, newer.to_string()),
            other => found.unknown(disk.describe(), other.to_string()),
        }
    }
    found
}

fn look(disk: &Lens, found: &mut Examination) -> Result<(), OpenError> {
    let names = disk.list()?;
    let _lock = match disk.lock(LOCK) {
        Ok(lock) => Some(lock),
        // Never opened, as a backup is.
        Err(e) if e.kind() == io::ErrorKind::NotFound => None,
        Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Err(OpenError::Locked(disk.describe())),
        Err(e) => return Err(e.into()),
    };
    let numbers = |prefix: &str, suffix: &str| -> BTreeSet<u64> {
        names.iter().filter_map(|name| number_in(name, prefix, suffix)).collect()
    };
    let (logs, checkpoints) = (numbers("log-", ".log"), numbers("checkpoint-", ".snap"));
    if !format(disk, found, logs.is_empty() && checkpoints.is_empty())? {
        return Ok(());
    }
    // A stop leaves one too, of the log file that was being made ready. The next start removes them.
    found.fact("unfinished files", names.iter().filter(|name| name.ends_with(".tmp")).count());
    let mut state = State::default();
    let (mut start_file, mut end_seq) = (0, 0);
    if let Some(number) = checkpoints.last() {
        match checkpoint::load(disk, *number, &mut state) {
            Ok(loaded) => (start_file, end_seq) = (loaded.start.file, loaded.end_seq),
            Err(OpenError::Damaged { file, offset, what }) => {
                found.damage(format!("{file} at {offset}"), what);
                // What lies below it cannot be judged; the records still can.
                return Walk::new(disk, State::default(), u64::MAX).logs(&logs, found).map(drop);
            }
            Err(other) => return Err(other),
        }
        found.fact("checkpoint", crate::log::checkpoint_name(*number));
    }
    let mut walk = Walk::new(disk, state, start_file);
    walk.logs(&logs, found)?;
    walk.end(end_seq, found)?;
    agree(&mut walk, found);
    Ok(())
}

/// Whether there is something to look at.
fn format(disk: &Lens, found: &mut Examination, empty: bool) -> Result<bool, OpenError> {
    match parse_format(disk) {
        Ok(Some(version)) => {
            found.fact("format", format!("{version} (this version reads up to {FORMAT_VERSION})"))
        }
        Ok(None) if empty => {
            found.fact("format", "none: nothing was ever stored here");
            return Ok(false);
        }
        Ok(None) => found.damage(format!("{FORMAT} at 0"), "missing beside log files"),
        Err(OpenError::Damaged { file, offset, what }) => found.damage(format!("{file} at {offset}"), what),
        Err(other) => return Err(other),
    }
    Ok(true)
}

/// Whether everything that the state speaks of is there.
fn agree(walk: &mut Walk<'_>, found: &mut Examination) {
    let Walk { state, segments, whole, .. } = walk;
    if !*whole {
        found.unknown("lanes", "the log has damage, so lanes, cursors and rows were not compared with it");
        return;
    }
    let (mut messages, mut cursors) = (0, 0);
    for (uid, lane) in state.lanes.iter() {
        let (head, tail) = (lane.lane.head, lane.lane.tail);
        let queue = state.queues.get(&lane.lane.queue).map_or("?", |queue| &*queue.queue.name);
        let place = || format!("lane {} (queue {queue}, partition {})", lane.lane.id, lane.lane.name);
        if tail > head {
            found.damage(place(), format!("begins at {tail} and ends at {head}"));
            continue;
        }
        messages += head - tail;
        let held = segments.get_mut(&uid).map_or(&mut [][..], Vec::as_mut_slice);
        if let Some(gap) = first_gap(tail, head, held) {
            found.damage(
                place(),
                format!("holds {tail} to {head}, but the message at {gap} is in no log file"),
            );
        }
        for (group, cursor) in &lane.cursors {
            cursors += 1;
            if let Some(fault) = cursor_fault(head, cursor) {
                found.damage(format!("{}, group {group}", place()), fault);
            }
        }
    }
    let kept = |uid| segments.get(&uid).map(|rows| rows.iter().map(|row| row.0).collect::<BTreeSet<u64>>());
    let (dead, traces) = (kept(DEAD_UID).unwrap_or_default(), kept(TRACE_UID).unwrap_or_default());
    for row in state.dead.rows.keys().filter(|row| !dead.contains(row)) {
        found.damage(format!("dead letter {row}"), "its message is in no log file");
    }
    for row in state.traces.rows.keys().filter(|row| !traces.contains(row)) {
        found.damage(format!("trace {row}"), "its data are in no log file");
    }
    found.fact("queues", state.queues.len());
    found.fact("lanes", state.lanes.len());
    found.fact("messages", messages);
    found.fact("groups", state.groups.len());
    found.fact("cursors", cursors);
    found.fact("dead letters", state.dead.rows.len());
    found.fact("traces", state.traces.rows.len());
    found.fact("last record", state.seq);
}
