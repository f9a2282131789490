//! What the operating system knows of this process: time on processors, and memory.
//!
//! From Linux's `/proc`; elsewhere nothing is known.

use std::fs::read_to_string;
use std::time::Duration;

use bugle_broker::Vitals;

/// The unit of times in `/proc`, on every architecture Linux is built for today.
const TICKS_PER_SECOND: u64 = 100;

/// One moment of the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) user: Duration,
    pub(crate) system: Duration,
    pub(crate) resident_bytes: u64,
    pub(crate) virtual_bytes: u64,
}

/// What this process uses now; nothing where it cannot be known.
pub fn vitals() -> Vitals {
    let Process { user, system, resident_bytes, virtual_bytes } = Process::read().unwrap_or_default();
    Vitals { user, system, resident_bytes, virtual_bytes }
}

impl Process {
    /// Now; `None` if it cannot be known here.
    pub(crate) fn read() -> Option<Self> {
        Self::parse(&read_to_string("/proc/self/stat").ok()?, &read_to_string("/proc/self/status").ok()?)
    }

    fn parse(stat: &str, status: &str) -> Option<Self> {
        // The second field is the program's name in parentheses, which may itself hold anything.
        let mut fields = stat.get(stat.rfind(')')? + 1..)?.split_ascii_whitespace().skip(11);
        let mut time = || {
            let ticks: u64 = fields.next()?.parse().ok()?;
            Some(Duration::from_millis(ticks.saturating_mul(1000 / TICKS_PER_SECOND)))
        };
        Some(Self {
            user: time()?,
            system: time()?,
            resident_bytes: kilobytes(status, "VmRSS:")?,
            virtual_bytes: kilobytes(status, "VmSize:")?,
        })
    }
}

/// A line like `VmRSS:     1234 kB`, in bytes.
fn kilobytes(status: &str, name: &str) -> Option<u64> {
    let rest = status.lines().find_map(|line| line.strip_prefix(name))?;
    let number: u64 = rest.split_ascii_whitespace().next()?.parse().ok()?;
    Some(number.saturating_mul(1024))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_of_proc_are_read() {
        let stat = "7 (a) b (c) S 1 7 7 0 -1 4194560 100 0 0 0 250 31 0 0 20 0 5 0 123 1000 200";
        let status = "Name:\tx\nVmPeak:\t  9 kB\nVmSize:\t  2048 kB\nVmRSS:\t   512 kB\n";
        let process = Process {
            user: Duration::from_millis(2500),
            system: Duration::from_millis(310),
            resident_bytes: 512 << 10,
            virtual_bytes: 2 << 20,
        };
        assert_eq!(Process::parse(stat, status), Some(process));
        assert_eq!(Process::parse("", ""), None);
        assert_eq!(Process::parse(stat, "VmRSS: x kB"), None);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn this_process_has_memory() {
        let process = Process::read().unwrap();
        assert!(process.resident_bytes > 100_000 && process.virtual_bytes >= process.resident_bytes);
    }
}
