//! What a copy remembers between two runs: its group at the source, and which queues are whole.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Written {
    from: String,
    to: String,
    id: String,
    done: BTreeSet<String>,
}

/// See the module.
pub(super) struct State {
    path: PathBuf,
    written: Written,
}

impl State {
    /// Go on with the copy in this file, or begin one.
    pub(super) fn open(path: &Path, from: &str, to: &str) -> Result<Self> {
        let shown = || path.display().to_string();
        let written = match fs::read_to_string(path) {
            Ok(text) => serde_json::from_str(&text).with_context(shown)?,
            Err(error) if error.kind() == ErrorKind::NotFound => Written {
                from: from.to_owned(),
                to: to.to_owned(),
                id: uuid::Uuid::new_v4().simple().to_string(),
                done: BTreeSet::new(),
            },
            Err(error) => return Err(error).with_context(shown),
        };
        if (written.from.as_str(), written.to.as_str()) != (from, to) {
            let Written { from, to, .. } = &written;
            bail!(
                "{} is of a copy from {from} to {to}; finish that one, or name another file by --state",
                shown()
            );
        }
        let state = Self { path: path.to_owned(), written };
        state.write()?;
        Ok(state)
    }

    /// The consumer group by which the source remembers how far the copy is.
    pub(super) fn group(&self) -> String {
        format!("{}{}", super::route::GROUPS, self.written.id)
    }

    pub(super) fn is_done(&self, queue: &str) -> bool {
        self.written.done.contains(queue)
    }

    /// This queue is whole.
    pub(super) fn done(&mut self, queue: &str) -> Result<()> {
        self.written.done.insert(queue.to_owned());
        self.write()
    }

    /// Everything is.
    pub(super) fn remove(self) -> Result<()> {
        fs::remove_file(&self.path).with_context(|| self.path.display().to_string())
    }

    /// The file is whole at any time.
    fn write(&self) -> Result<()> {
        let mut name = self.path.clone().into_os_string();
        name.push(".new");
        let new = PathBuf::from(name);
        let text = serde_json::to_string_pretty(&self.written)?;
        fs::write(&new, text)
            .and_then(|()| fs::rename(&new, &self.path))
            .with_context(|| self.path.display().to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_goes_on_where_it_was_and_is_not_taken_for_another() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state");
        let mut state = State::open(&path, "a", "b").unwrap();
        state.done("q").unwrap();
        let again = State::open(&path, "a", "b").unwrap();
        assert!(again.is_done("q") && !again.is_done("r"));
        assert_eq!(again.group(), state.group());
        let error = State::open(&path, "a", "c").err().unwrap().to_string();
        assert!(error.contains("from a to b"), "{error}");
        again.remove().unwrap();
        assert_ne!(State::open(&path, "a", "b").unwrap().group(), state.group());
    }
}
