//! What documents point at exists: files and headings that they link to, and the tests that `docs/guarantees.md` names.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use crate::files::File;

/// A promise without a test would be a hope.
const PROMISES: &str = "docs/guarantees.md";

/// What is pointed at and is not there.
pub(crate) fn check(root: &Path, files: &[File]) -> Vec<String> {
    let headings: BTreeMap<&str, BTreeSet<String>> =
        files.iter().filter(|f| f.is("md")).map(|f| (f.path.as_str(), anchors(&f.text))).collect();
    let mut faults = Vec::new();
    for file in files.iter().filter(|f| f.is("md")) {
        for link in links(&file.text) {
            if let Some(what) = missing(&file.path, link, &headings, |path| root.join(path).exists()) {
                faults.push(format!("{}: the link to {link}: {what}", file.path));
            }
        }
    }
    let promises = files.iter().filter(|f| f.path == PROMISES);
    faults.extend(promises.flat_map(|f| unknown_tests(&f.text, files)));
    faults
}

/// Why a link leads nowhere, if it does. Links to other sites are not followed.
fn missing(
    from: &str,
    link: &str,
    headings: &BTreeMap<&str, BTreeSet<String>>,
    exists: impl Fn(&Path) -> bool,
) -> Option<&'static str> {
    if link.contains("://") || link.starts_with("mailto:") {
        return None;
    }
    let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
    let place = if path.is_empty() { PathBuf::from(from) } else { beside(from, path) };
    match headings.get(place.to_str()?) {
        Some(known) if !anchor.is_empty() && !known.contains(anchor) => Some("no such heading"),
        None if !exists(&place) => Some("no such file"),
        _ => None,
    }
}

/// A path as seen from a file, from the top.
fn beside(from: &str, path: &str) -> PathBuf {
    let mut place = Path::new(from).parent().unwrap_or(Path::new("")).to_owned();
    for part in Path::new(path).components() {
        match part {
            Component::ParentDir => drop(place.pop()),
            Component::CurDir => (),
            part => place.push(part),
        }
    }
    place
}

/// Where `[words](place)` leads to.
fn links(text: &str) -> impl Iterator<Item = &str> {
    let ends = text.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    ends.map(|(place, _)| place).filter(|place| !place.contains(char::is_whitespace))
}

/// What readers' tools call the headings of a text.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = text.lines().filter(|line| line.starts_with('#'));
    let headings = headings.filter_map(|line| line.trim_start_matches('#').strip_prefix(' '));
    let letter = |c: char| match c {
        ' ' => Some('-'),
        c if c.is_alphanumeric() || c == '-' || c == '_' => Some(c.to_ascii_lowercase()),
        _ => None,
    };
    headings.map(|heading| heading.chars().filter_map(letter).collect()).collect()
}

/// Tests that a text names as `module::test`, and that no source has.
fn unknown_tests(text: &str, files: &[File]) -> Vec<String> {
    let names = text.split('`').skip(1).step_by(2).filter_map(|span| span.rsplit_once("::"));
    let in_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let names: BTreeSet<&str> =
        names.map(|(_, name)| name).filter(|name| name.chars().all(in_name)).collect();
    let sources: Vec<&File> = files.iter().filter(|f| f.is("rs")).collect();
    let is_known = |name: &str| {
        let function = format!("fn {name}(");
        sources.iter().any(|source| source.text.contains(&function))
    };
    let unknown = names.into_iter().filter(|name| !name.is_empty() && !is_known(name));
    unknown.map(|name| format!("{PROMISES}: there is no test {name}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> File {
        File { path: path.to_owned(), text: text.to_owned() }
    }

    #[test]
    fn links_that_lead_nowhere_are_found() {
        let guide = "# The `guide`, 2\n[a](#the-guide-2) [b](../README.md#top) [c](https://x/y) [d](e.png)\n";
        let files = [file("README.md", "## Top\n[g](docs/guide.md)"), file("docs/guide.md", guide)];
        let headings = files.iter().map(|f| (f.path.as_str(), anchors(&f.text))).collect();
        let faults = |text: &'static str| {
            let exists = |path: &Path| path == Path::new("docs/e.png");
            links(text)
                .filter_map(|link| missing("docs/guide.md", link, &headings, exists))
                .collect::<Vec<_>>()
        };
        assert_eq!(faults("[a](#the-guide-2) [b](../README.md#top) [c](https://x/y) [d](e.png)"), [""; 0]);
        assert_eq!(faults("[a](#the-guide-3) [b](../README.md#bottom)"), ["no such heading"; 2]);
        assert_eq!(faults("[a](f.png) [b](README.md)"), ["no such file"; 2]);
    }

    #[test]
    fn promises_without_their_test_are_found() {
        let sources = [file("crates/a/tests/b.rs", "async fn it_holds(on: On) {}")];
        let text = "* B `b::it_holds`, `b::it_does_not`, `b` (all of it), `a::…_over_two`, `Inner::tell`";
        assert_eq!(
            unknown_tests(text, &sources),
            [
                format!("{PROMISES}: there is no test it_does_not"),
                format!("{PROMISES}: there is no test tell")
            ]
        );
    }
}
