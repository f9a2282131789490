//! The yardstick for a push on files: appends of 4 KiB with fdatasync, a few at a time beside the load. They are due at fixed
//! moments, as the pushes are: one long sync counts for all that had to wait for it.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};

use crate::schedule::Beat;
use crate::stats::Latency;

/// Between two syncs: often enough for a percentile, seldom enough not to be the load.
pub(crate) const EVERY: Duration = Duration::from_millis(5);

/// A probe that runs beside a load.
pub(crate) struct Fsyncs {
    stop: Arc<AtomicBool>,
    thread: std::thread::JoinHandle<Result<Latency>>,
}

impl Fsyncs {
    /// Starts to append to a file of the directory.
    pub(crate) fn start(directory: &Path) -> Result<Self> {
        let path = directory.join(format!(".bugle-bench-fsyncs-{}", std::process::id()));
        let file = File::create(&path).with_context(|| format!("create {}", path.display()))?;
        // The name is not needed any more: nothing is left behind however this ends.
        std::fs::remove_file(&path).with_context(|| format!("remove {}", path.display()))?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread =
            std::thread::Builder::new().name("fsyncs".to_owned()).spawn(move || probe(file, &stopped))?;
        Ok(Self { stop, thread })
    }

    /// Ends it and returns what was measured.
    pub(crate) fn finish(self) -> Result<Latency> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| anyhow::anyhow!("the probe of the disk has failed"))?
    }
}

#[expect(clippy::disallowed_methods, reason = "a thread of its own")]
fn probe(mut file: File, stop: &AtomicBool) -> Result<Latency> {
    let mut latency = Latency::new()?;
    let mut beat = Beat::new(EVERY);
    while !stop.load(Ordering::Relaxed) {
        std::thread::sleep(beat.wait());
        let start = beat.start();
        file.write_all(&[7; 4096])?;
        file.sync_data()?;
        latency.record(start.elapsed());
    }
    Ok(latency)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn syncs_are_timed_and_no_file_is_left() {
        let directory = std::env::temp_dir().join(format!("bugle-bench-fsyncs-{:016x}", fastrand::u64(..)));
        std::fs::create_dir(&directory).unwrap();
        let probe = Fsyncs::start(&directory).unwrap();
        assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 0);
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(probe.finish().unwrap().count() > 0);
        std::fs::remove_dir(&directory).unwrap();
        assert!(Fsyncs::start(&directory).is_err());
    }
}
