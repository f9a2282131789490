//! `cargo xtask tidy`: rules of the house that neither rustfmt nor clippy knows.

use std::path::Path;

use anyhow::Result;

use crate::documents;
use crate::files::{self, File};
use crate::layers;
use crate::source::{functions, lines_with, production_lines};

const MAX_FILE: usize = 600;
const LARGE_FILE: usize = 400;
const MAX_FUNCTION: usize = 100;
/// Unfinished work belongs in the tracker. Written in two parts so that this file passes its own check.
const WORDS: [&str; 2] = [concat!("TO", "DO"), concat!("FIX", "ME")];
const MACROS: [&str; 2] = [concat!("todo", "!"), concat!("unimplemented", "!")];
/// Paths of somebody's machine.
const PATHS: [&str; 2] = [concat!("/wo", "rk/"), concat!("/ro", "ot/")];

/// Checks everything, prints what is wrong, and says whether all is well.
pub(crate) fn run(root: &Path) -> Result<bool> {
    let files = files::read(root)?;
    let mut faults: Vec<String> = files.iter().flat_map(check).collect();
    faults.extend(layers::check(root)?);
    faults.extend(documents::check(root, &files));
    for file in files.iter().filter(|f| f.is("rs") && !f.is_test()) {
        let lines = production_lines(&file.text);
        if lines > LARGE_FILE && lines <= MAX_FILE {
            eprintln!("note: {}: {lines} lines of production code", file.path);
        }
    }
    for fault in &faults {
        eprintln!("{fault}");
    }
    eprintln!("tidy: {} files, {} faults", files.len(), faults.len());
    Ok(faults.is_empty())
}

/// What is wrong with one file.
fn check(file: &File) -> Vec<String> {
    let mut faults = Vec::new();
    let mut fault = |line: usize, what: String| faults.push(format!("{}:{line}: {what}", file.path));
    for (needles, what) in [(WORDS, "unfinished work"), (PATHS, "path of a local machine")] {
        for needle in needles {
            lines_with(&file.text, needle)
                .into_iter()
                .for_each(|line| fault(line, format!("{what}: {needle}")));
        }
    }
    if file.is("sql") && !file.text.trim_start().starts_with("--") {
        fault(1, "no header comment".to_owned());
    }
    if !file.is("rs") {
        return faults;
    }
    // A build script and a module of unit tests explain themselves by their place.
    if !file.text.starts_with("//!") && !matches!(file.name(), "build.rs" | "tests.rs") {
        fault(1, "no `//!` header saying what the file is for".to_owned());
    }
    for needle in MACROS {
        lines_with(&file.text, needle)
            .into_iter()
            .for_each(|line| fault(line, format!("unfinished work: {needle}")));
    }
    let lines = production_lines(&file.text);
    if lines > MAX_FILE && !file.is_test() {
        fault(1, format!("{lines} lines of production code, at most {MAX_FILE} allowed"));
    }
    for function in functions(&file.text).into_iter().filter(|f| f.lines > MAX_FUNCTION) {
        fault(
            function.line,
            format!("fn {} has {} lines, at most {MAX_FUNCTION} allowed", function.name, function.lines),
        );
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(path: &str, text: String) -> Vec<String> {
        check(&File { path: path.to_owned(), text })
    }

    #[test]
    fn a_proper_file_has_no_faults() {
        assert!(faults("crates/a/src/lib.rs", "//! For a reason.\nfn a() {\n}\n".to_owned()).is_empty());
        assert!(faults("a.sql", "\n-- For a reason.\nSELECT 1;\n".to_owned()).is_empty());
    }

    #[test]
    fn headers_are_required_where_they_are_needed() {
        assert_eq!(faults("a/src/lib.rs", "fn a() {}\n".to_owned()).len(), 1);
        assert_eq!(faults("a.sql", "SELECT 1; -- late\n".to_owned()).len(), 1);
        assert!(faults("a/build.rs", "fn main() {}\n".to_owned()).is_empty());
    }

    #[test]
    fn unfinished_work_and_local_paths_are_found_in_every_kind_of_file() {
        for needle in WORDS.iter().chain(&PATHS) {
            for path in ["a.md", "a.sql", "a/src/a.rs", ".ci/run"] {
                let text = format!("//! x\n-- {needle} x\n");
                let found = faults(path, if path == "a.sql" { format!("--\n{text}") } else { text });
                assert_eq!(found.len(), 1, "{needle} in {path}: {found:?}");
            }
        }
        let text = format!("//! x\nfn a() {{\n    {}()\n}}\n", MACROS[0]);
        assert_eq!(faults("a.rs", text), [format!("a.rs:3: unfinished work: {}", MACROS[0])]);
    }

    #[test]
    fn long_files_and_functions_are_found_but_unit_tests_are_not_counted() {
        let long = format!("//! x\n{}", "\n".repeat(MAX_FILE));
        assert_eq!(faults("a/src/a.rs", long.clone()).len(), 1);
        assert!(faults("a/tests/a.rs", long).is_empty());
        let tested = format!("//! x\n#[cfg(test)]\nmod tests {{\n{}}}\n", "\n".repeat(MAX_FILE));
        assert!(faults("a/src/a.rs", tested).is_empty());
        let function = format!("//! x\nfn a() {{\n{}}}\n", "    b();\n".repeat(MAX_FUNCTION));
        assert_eq!(faults("a/src/a.rs", function).len(), 1);
    }
}
