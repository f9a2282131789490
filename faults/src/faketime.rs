//! A clock that is set while a process runs, by Debian's `faketime`: a library that is loaded before all others reads an
//! offset from a file. The monotonic clock stays as it is, as when somebody sets the clock of a machine.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// A clock that can be set.
pub struct Clock {
    file: PathBuf,
}

impl Clock {
    /// One that is right at first.
    pub fn right(dir: &Path, name: &str) -> Result<Self> {
        let clock = Self { file: dir.join(format!("{name}.offset")) };
        clock.set(0)?;
        Ok(clock)
    }

    /// Set it to so many seconds after the right time, or before it.
    pub fn set(&self, seconds: i64) -> Result<()> {
        // Renamed into place: nobody reads half a number.
        let new = self.file.with_extension("new");
        std::fs::write(&new, format!("{seconds:+}\n")).context("set a clock")?;
        std::fs::rename(&new, &self.file).context("set a clock")
    }

    /// What a process has to be started with to use it. `threads`: it has several.
    pub fn env(&self, threads: bool) -> Result<Vec<(String, String)>> {
        let name = if threads { "libfaketimeMT.so.1" } else { "libfaketime.so.1" };
        let libraries = std::fs::read_dir("/usr/lib").into_iter().flatten().flatten();
        let mut places = libraries.map(|entry| entry.path().join("faketime").join(name));
        let library = places.find(|file| file.is_file()).context("faketime is not installed")?;
        let set = |name: &str, value: String| (name.to_owned(), value);
        Ok(vec![
            set("LD_PRELOAD", library.display().to_string()),
            set("FAKETIME_TIMESTAMP_FILE", self.file.display().to_string()),
            set("FAKETIME_CACHE_DURATION", "1".to_owned()),
            set("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
        ])
    }
}
