//! The proof that a system syncs: its calls that force data to disk, counted from outside while it is pushed to.
//!
//! `strace` slows what it watches, so the proof has a short run of its own and no throughput is taken from it.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

/// The calls that force data to disk.
const CALLS: &str = "fsync,fdatasync,sync_file_range,msync,syncfs";
/// Time for the tracer to take hold of every thread.
const SETTLE: Duration = Duration::from_millis(700);

/// A tracer that is attached.
pub(crate) struct Tracer {
    child: Child,
    summary: std::path::PathBuf,
}

/// Calls by name, in the order of the tracer's list.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Syncs(pub(crate) Vec<(String, u64)>);

impl Syncs {
    pub(crate) fn total(&self) -> u64 {
        self.0.iter().map(|(_, calls)| calls).sum()
    }

    pub(crate) fn told(&self) -> String {
        let parts: Vec<String> = self.0.iter().map(|(name, calls)| format!("{calls} {name}")).collect();
        if parts.is_empty() { "none".to_owned() } else { parts.join(", ") }
    }
}

impl Tracer {
    /// Attaches to all threads of all processes below `pids`; children they make later are followed.
    pub(crate) async fn attach(pids: &[u32], directory: &Path) -> Result<Self> {
        let summary = directory.join("strace-summary");
        let mut command = Command::new("strace");
        command.args(["-f", "-c", "-e", &format!("trace={CALLS}"), "-o"]).arg(&summary);
        for pid in pids.iter().flat_map(|pid| tree(*pid)) {
            command.args(["-p", &pid.to_string()]);
        }
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let mut tracer = Self { child: child.context("start strace")?, summary };
        tokio::time::sleep(SETTLE).await;
        let ended = tracer.child.try_wait().context("look after strace")?;
        ensure!(ended.is_none(), "strace cannot attach: may this user trace other processes?");
        Ok(tracer)
    }

    /// Lets go and says what was counted.
    pub(crate) fn detach(mut self) -> Result<Syncs> {
        let kill = Command::new("kill").args(["-INT", &self.child.id().to_string()]).status();
        ensure!(kill.context("start kill")?.success(), "strace has ended too early");
        self.child.wait().context("wait for strace")?;
        Ok(parse(&std::fs::read_to_string(&self.summary).context("read the summary of strace")?))
    }
}

impl Drop for Tracer {
    fn drop(&mut self) {
        // Ended already, unless the run was cut short.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A process and all its descendants.
fn tree(root: u32) -> Vec<u32> {
    let mut members = vec![root];
    let mut at = 0;
    while let Some(parent) = members.get(at) {
        let tasks = std::fs::read_dir(format!("/proc/{parent}/task")).into_iter().flatten().flatten();
        let children = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
        let found: Vec<u32> = children
            .flat_map(|text| text.split_whitespace().filter_map(|p| p.parse().ok()).collect::<Vec<_>>())
            .collect();
        members.extend(found);
        at += 1;
    }
    members
}

/// Reads the table of `strace -c`: the fourth column is the number of calls, the last the name.
fn parse(summary: &str) -> Syncs {
    let rows = summary.lines().filter_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let name = *fields.last()?;
        CALLS.split(',').any(|call| call == name).then_some(())?;
        Some((name.to_owned(), fields.get(3)?.parse().ok()?))
    });
    Syncs(rows.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_read_with_and_without_errors_and_the_total_is_not_a_call() {
        let summary = "% time     seconds  usecs/call     calls    errors syscall\n\
                       ------ ----------- ----------- --------- --------- ----------------\n\
                       \x2090.00    0.115723          69      1654           fdatasync\n\
                       \x2010.00    0.000001          69         2         1 fsync\n\
                       ------ ----------- ----------- --------- --------- ----------------\n\
                       100.00    0.115723          69      1656         1 total\n";
        let syncs = parse(summary);
        assert_eq!(syncs.told(), "1654 fdatasync, 2 fsync");
        assert_eq!(syncs.total(), 1656);
        assert_eq!(parse("").told(), "none");
    }

    #[test]
    fn a_tree_begins_with_its_root() {
        assert_eq!(tree(std::process::id())[0], std::process::id());
    }
}
