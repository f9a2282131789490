//! What the machine does meanwhile: CPU and memory of the processes under test, and the speed of the disk's fdatasync,
//! without which a figure of a durable server says nothing.

use std::collections::HashMap;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result};
use serde_json::{Value, json};

/// `/proc` counts in hundredths of a second on every Linux a user can see.
const TICK_MICROS: u64 = 10_000;

/// CPU used so far by each process tree.
#[derive(Debug)]
pub struct CpuSnapshot(Vec<(u32, u64)>);

/// Takes the CPU counters of `pids`, each with all its descendants (a database serves from child processes).
pub fn cpu(pids: &[u32]) -> Result<CpuSnapshot> {
    let table = processes();
    pids.iter()
        .map(|pid| {
            let members = tree(&table, *pid);
            anyhow::ensure!(!members.is_empty(), "--pid {pid}: no such process");
            // This process may have started the servers it measures: its own cost is not theirs.
            let ticks = match *pid == std::process::id() {
                true => table[pid].own_ticks,
                false => members.iter().map(|p| table[p].ticks).sum(),
            };
            Ok((*pid, ticks * TICK_MICROS))
        })
        .collect::<Result<_>>()
        .map(CpuSnapshot)
}

impl CpuSnapshot {
    /// Microseconds of CPU each process tree has used since an earlier snapshot of the same processes.
    pub fn since(&self, before: &Self) -> Vec<u64> {
        self.0.iter().zip(&before.0).map(|((_, end), (_, start))| end.saturating_sub(*start)).collect()
    }
}

/// Microseconds of CPU this process has used, without its children: a run that starts servers is their parent.
pub fn own_cpu() -> u64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    parse_stat(&stat).map_or(0, |process| process.own_ticks * TICK_MICROS)
}

/// Resident memory of a process, if it can be read.
pub(crate) fn rss_kib(pid: u32) -> Option<u64> {
    status_field(pid, "VmRSS:")
}

/// Open descriptors of a process, if they may be counted.
pub(crate) fn descriptors(pid: u32) -> Option<u64> {
    Some(fs::read_dir(format!("/proc/{pid}/fd")).ok()?.count() as u64)
}

/// What each process cost between two snapshots, and the memory it has now.
pub(crate) fn usage(before: &CpuSnapshot, after: &CpuSnapshot, messages: u64) -> Vec<Value> {
    let table = processes();
    let pairs = before.0.iter().zip(&after.0);
    pairs
        .map(|((pid, start), (_, end))| {
            let micros = end.saturating_sub(*start);
            let per_message = if messages == 0 { 0.0 } else { micros as f64 / messages as f64 };
            let members = tree(&table, *pid);
            json!({
                "pid": pid,
                "name": table.get(pid).map(|p| p.name.as_str()),
                "cpu_us_per_msg": crate::stats::round(per_message),
                "cpu_seconds": crate::stats::round(micros as f64 / 1e6),
                "rss_kib": status_field(*pid, "VmRSS:"),
                "rss_peak_kib": status_field(*pid, "VmHWM:"),
                "processes": members.len(),
                // Shared pages counted once, which is what a tree of processes really takes.
                "tree_pss_kib": members.iter().filter_map(|p| field(&format!("/proc/{p}/smaps_rollup"), "Pss:")).sum::<u64>(),
            })
        })
        .collect()
}

struct Process {
    name: String,
    parent: u32,
    /// Own time and that of children that ended, so that a child's end moves its time instead of losing it.
    ticks: u64,
    own_ticks: u64,
}

fn processes() -> HashMap<u32, Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| {
            let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
            Some((pid, parse_stat(&fs::read_to_string(entry.path().join("stat")).ok()?)?))
        })
        .collect()
}

fn parse_stat(stat: &str) -> Option<Process> {
    // The name is in parentheses and may itself contain spaces and parentheses.
    let (front, rest) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let times: Vec<u64> = fields.get(11..15)?.iter().map(|t| t.parse().unwrap_or(0)).collect();
    let name = front.split_once('(')?.1.to_owned();
    let (ticks, own_ticks) = (times.iter().sum(), times[..2].iter().sum());
    Some(Process { name, parent: fields.get(1)?.parse().ok()?, ticks, own_ticks })
}

fn tree(table: &HashMap<u32, Process>, root: u32) -> Vec<u32> {
    let mut members: Vec<u32> = table.contains_key(&root).then_some(root).into_iter().collect();
    let mut at = 0;
    while let Some(parent) = members.get(at).copied() {
        members.extend(table.iter().filter(|(_, p)| p.parent == parent).map(|(pid, _)| *pid));
        at += 1;
    }
    members
}

fn status_field(pid: u32, key: &str) -> Option<u64> {
    field(&format!("/proc/{pid}/status"), key)
}

fn field(path: &str, key: &str) -> Option<u64> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().find_map(|l| l.strip_prefix(key))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

/// Median milliseconds of writing 4 KiB at the end of a file and forcing it to disk.
pub fn fdatasync_median_ms(directory: &Path) -> Result<f64> {
    const ROUNDS: usize = 50;
    let path = directory.join(format!(".bugle-bench-fsync-{}", std::process::id()));
    let measured = (|| {
        let mut file = fs::File::create(&path)?;
        let mut times = Vec::with_capacity(ROUNDS);
        for round in 0..ROUNDS {
            let start = Instant::now();
            file.write_all(&[round as u8; 4096])?;
            file.sync_data()?;
            times.push(start.elapsed().as_secs_f64() * 1e3);
        }
        times.sort_by(f64::total_cmp);
        Ok(times[ROUNDS / 2])
    })();
    // Whatever happened, nothing is left behind; a failed removal of a file that was never made is no news.
    let _ = fs::remove_file(&path);
    measured.map_err(|e: std::io::Error| e).with_context(|| format!("--fsync-dir {}", directory.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_name_with_spaces_and_parentheses_is_read() {
        let stat = "42 (a) b (c) S 7 1 1 0 -1 4194560 1 2 3 4 10 20 30 40 20 0 1 0 5";
        let process = parse_stat(stat).unwrap();
        assert_eq!((process.name.as_str(), process.parent), ("a) b (c", 7));
        assert_eq!((process.ticks, process.own_ticks), (100, 30));
    }

    #[test]
    fn the_tree_of_this_process_contains_it_and_a_missing_process_is_named() {
        let own = std::process::id();
        let before = cpu(&[own]).unwrap();
        let report = usage(&before, &cpu(&[own]).unwrap(), 1);
        assert_eq!(report[0]["pid"], own);
        assert!(report[0]["rss_kib"].as_u64().unwrap() > 0);
        assert!(cpu(&[u32::MAX]).unwrap_err().to_string().contains("4294967295"));
    }

    #[test]
    fn the_disk_probe_measures_and_leaves_nothing_behind() {
        let directory = std::env::temp_dir().join(format!("bugle-bench-probe-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        assert!(fdatasync_median_ms(&directory).unwrap() > 0.0);
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 0);
        fs::remove_dir(&directory).unwrap();
        assert!(fdatasync_median_ms(&directory).is_err());
    }
}
