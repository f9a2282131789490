//! The documents that a reader follows, cut into what can be tried: fenced blocks and commands inside of sentences.

use std::path::{Path, PathBuf};

/// A piece of a document between two fences.
#[derive(Debug)]
pub(super) struct Block {
    /// What stands behind the first fence.
    pub(super) language: String,
    pub(super) text: String,
    pub(super) line: usize,
}

/// A document.
#[derive(Debug)]
pub(super) struct Document {
    /// From the top of the repository.
    pub(super) name: String,
    pub(super) text: String,
}

pub(super) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

pub(super) fn document(name: &str) -> Document {
    let text = std::fs::read_to_string(root().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    Document { name: name.to_owned(), text }
}

/// All that are written for those who use the product.
pub(super) fn all() -> Vec<Document> {
    let mut names = vec!["README.md".to_owned(), "CONTRIBUTING.md".to_owned(), "deploy/README.md".to_owned()];
    for dir in ["docs", "docs/decisions"] {
        let entries = std::fs::read_dir(root().join(dir)).unwrap().flatten();
        let files = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        names.extend(files.filter(|file| file.ends_with(".md")).map(|file| format!("{dir}/{file}")));
    }
    names.sort_unstable();
    names.iter().map(|name| document(name)).collect()
}

impl Document {
    /// Its fenced blocks, in order.
    pub(super) fn blocks(&self) -> Vec<Block> {
        let mut found: Vec<Block> = Vec::new();
        let mut open = false;
        for (number, line) in self.text.lines().enumerate() {
            match (line.trim_start().strip_prefix("```"), open) {
                (Some(language), false) => {
                    let language = language.trim().to_owned();
                    found.push(Block { language, text: String::new(), line: number + 1 });
                    open = true;
                }
                (Some(_), true) => open = false,
                (None, true) => {
                    let block = found.last_mut().unwrap();
                    block.text.push_str(line);
                    block.text.push('\n');
                }
                (None, false) => {}
            }
        }
        assert!(!open, "{}: a fence is not closed", self.name);
        found
    }

    /// What stands between two fences is left out.
    fn prose(&self) -> String {
        let mut fenced = false;
        let mut kept = String::new();
        for line in self.text.lines() {
            let fence = line.trim_start().starts_with("```");
            fenced ^= fence;
            if !fenced && !fence {
                kept.push_str(line);
                kept.push('\n');
            }
        }
        kept
    }

    /// Code inside of sentences, on one line each however it was broken.
    pub(super) fn spans(&self) -> Vec<String> {
        let prose = self.prose();
        let spans = prose.split('`').skip(1).step_by(2);
        spans.map(|span| span.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
    }

    /// Lines that Markdown would show as a block because they are indented.
    pub(super) fn indented(&self) -> Vec<String> {
        let prose = self.prose();
        let mut lines = vec![""];
        lines.extend(prose.lines());
        let begins = lines.windows(2).filter(|pair| pair[0].is_empty() && pair[1].starts_with("    "));
        begins.map(|pair| pair[1].trim().to_owned()).filter(|line| !line.starts_with('*')).collect()
    }
}
