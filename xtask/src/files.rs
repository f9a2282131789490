//! Finds the files of the repository that people write.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// Folders with nothing of ours in them.
const SKIPPED: [&str; 6] = ["target", ".git", "node_modules", "vendor", "dist", "__pycache__"];
/// Files that are looked at, by extension.
const KINDS: [&str; 14] =
    ["rs", "sql", "toml", "md", "sh", "py", "yml", "yaml", "html", "css", "js", "ts", "json", "txt"];

/// A file with its text, named relative to the top.
pub(crate) struct File {
    pub(crate) path: String,
    pub(crate) text: String,
}

impl File {
    pub(crate) fn is(&self, extension: &str) -> bool {
        Path::new(&self.path).extension().is_some_and(|e| e == extension)
    }

    pub(crate) fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }

    /// Whether the whole file is a test.
    pub(crate) fn is_test(&self) -> bool {
        self.name() == "tests.rs" || self.path.split('/').any(|part| part == "tests")
    }
}

/// All text files under `root`, sorted by name.
pub(crate) fn read(root: &Path) -> Result<Vec<File>> {
    let mut found = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).with_context(|| format!("read {}", folder.display()))? {
            let entry = entry?;
            let (name, path) = (entry.file_name(), entry.path());
            let kind = entry.file_type()?;
            if kind.is_dir() && !SKIPPED.iter().any(|s| name == *s) {
                folders.push(path);
            } else if kind.is_file() && wanted(&path) {
                found.push(path);
            }
        }
    }
    found.sort();
    found.into_iter().map(|path| load(root, path)).collect()
}

fn wanted(path: &Path) -> bool {
    let minified = path.file_name().is_some_and(|n| n.to_string_lossy().contains(".min."));
    let text = path.extension().is_some_and(|e| KINDS.iter().any(|k| e == *k));
    // Scripts of CI have no extension.
    let script = path.parent().and_then(Path::file_name).is_some_and(|folder| folder == ".ci");
    (text || script) && !minified
}

fn load(root: &Path, path: PathBuf) -> Result<File> {
    let text = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
    let relative = path.strip_prefix(root).unwrap_or(&path);
    Ok(File { path: relative.to_string_lossy().into_owned(), text })
}
