//! Fingerprints: sorted runs in memory for files that are not sealed, a sorted table on disk for those that are.
//!
//! Runs instead of a hash map, because they have no slack: 24 bytes per message, whatever the load.

use bugle_store::Offset;
use bytes::BufMut;

use crate::table::{self, Look, Shape, mix};

/// Entries: fingerprint, uid, offset, all big-endian and all key.
pub(crate) const PRINTS: Shape = Shape { kind: 2, entry_len: 24, key_len: 24 };

/// Added entries that are searched one by one before they are sorted.
const FRESH: usize = 1024;
/// Runs longer than this are not merged further, so that no merge takes longer than a commit.
const LONGEST_RUN: usize = 128 << 10;

/// (fingerprint, uid, offset)
type Print = (u64, u64, Offset);

/// The fingerprints of one file, in memory.
#[derive(Default)]
pub(crate) struct Prints {
    fresh: Vec<Print>,
    runs: Vec<Vec<Print>>,
    len: usize,
}

impl Prints {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn add(&mut self, uid: u64, base: Offset, prints: &[u64]) {
        self.len += prints.len();
        let offset = |n: usize| base.saturating_add(n as Offset);
        self.fresh.extend(prints.iter().enumerate().map(|(n, print)| (*print, uid, offset(n))));
        if self.fresh.len() >= FRESH {
            let mut run = std::mem::take(&mut self.fresh);
            run.sort_unstable();
            while self.runs.last().is_some_and(|last| last.len() <= run.len() * 2 && last.len() < LONGEST_RUN)
            {
                run.append(&mut self.runs.pop().expect("a last run was just seen"));
                // Sorts two sorted stretches, which this sort merges in linear time.
                run.sort();
            }
            self.runs.push(run);
        }
    }

    /// Offsets at which `print` occurs in the lane.
    pub(crate) fn find(&self, uid: u64, print: u64, out: &mut Vec<Offset>) {
        let hits = self.fresh.iter().filter(|(p, u, _)| *p == print && *u == uid);
        out.extend(hits.map(|(_, _, offset)| *offset));
        for run in &self.runs {
            let start = run.partition_point(|entry| *entry < (print, uid, 0));
            let hits = run[start..].iter().take_while(|(p, u, _)| *p == print && *u == uid);
            out.extend(hits.map(|(_, _, offset)| *offset));
        }
    }

    /// The bytes of the table of these fingerprints.
    pub(crate) fn to_table(&self, file: u64, salt: u64) -> Vec<u8> {
        let mut all: Vec<Print> = self.runs.iter().chain([&self.fresh]).flatten().copied().collect();
        // Made of sorted runs, which this sort merges.
        all.sort();
        let members: Vec<u64> = all.iter().map(|(print, uid, _)| mix(*print, *uid)).collect();
        let mut entries = Vec::with_capacity(all.len() * PRINTS.entry_len);
        for (print, uid, offset) in all {
            entries.put_u64(print);
            entries.put_u64(uid);
            entries.put_u64(offset);
        }
        table::build(PRINTS, file, salt, &entries, &members)
    }
}

/// Offsets at which `print` occurs in the lane, from a sealed file's table.
pub(crate) fn find_in(table: &Look<'_>, uid: u64, print: u64, out: &mut Vec<Offset>) -> std::io::Result<()> {
    if !table.may_contain(mix(print, uid)) {
        return Ok(());
    }
    let mut prefix = [0; 16];
    prefix[..8].copy_from_slice(&print.to_be_bytes());
    prefix[8..].copy_from_slice(&uid.to_be_bytes());
    let mut key = [0; 24];
    key[..16].copy_from_slice(&prefix);
    table.visit_from(&key, |entry| {
        let same = entry[..16] == prefix;
        if same {
            out.push(u64::from_be_bytes(entry[16..24].try_into().expect("entries are 24 bytes")));
        }
        same
    })
}
