//! Commands inside of sentences: they are of programs that exist, with flags that exist. Questions in SQL are asked.

use std::collections::HashMap;

use super::documents::{Document, all, root};
use super::list::NOT_RUN;
use super::reader::Reader;
use crate::help;
use crate::support::On;

/// Programs whose commands a reader may copy.
const PROGRAMS: [&str; 14] = [
    "apt-get",
    "cargo",
    "createdb",
    "curl",
    "docker",
    "dpkg",
    "helm",
    "kubectl",
    "npm",
    "pip",
    "pg_dump",
    "psql",
    "pg_basebackup",
    "systemctl",
];

#[test]
fn commands_inside_of_sentences_exist() {
    let ours: HashMap<String, String> = help::all()
        .into_iter()
        .map(|words| {
            let text = help::help(&words.iter().map(String::as_str).collect::<Vec<_>>());
            (words.join(" "), text)
        })
        .collect();
    let xtask = ["main.rs", "suites.rs"]
        .map(|file| std::fs::read_to_string(root().join("xtask/src").join(file)).unwrap())
        .concat();
    let mut count = 0;
    for document in all() {
        for span in document.spans() {
            let (program, rest) = span.split_once(' ').unwrap_or((&span, ""));
            match program {
                _ if rest.is_empty() || is_listed(&document, &span) => continue,
                "bugle" => of_ours(&document, rest, &ours),
                "cargo" if rest.starts_with("xtask ") => of_xtask(&document, rest, &xtask),
                "cargo" if rest == "run" => {}
                _ if PROGRAMS.contains(&program) => {
                    panic!("{}: `{span}` is in no block that is run, and not in the list", document.name)
                }
                _ => continue,
            }
            count += 1;
        }
    }
    assert!(count > 50, "{count}");
}

fn is_listed(document: &Document, span: &str) -> bool {
    NOT_RUN.iter().any(|entry| entry.file == document.name && span.starts_with(entry.begins))
}

/// The longest of our commands that it begins with has all its flags.
fn of_ours(document: &Document, rest: &str, ours: &HashMap<String, String>) {
    let words: Vec<&str> = rest.split(' ').collect();
    let command = (0..=words.len()).rev().map(|n| words[..n].join(" ")).find(|name| ours.contains_key(name));
    let command = command.unwrap();
    let plain = words[0].chars().all(|c| c.is_ascii_lowercase() || c == '-') && !words[0].starts_with('-');
    assert!(!(command.is_empty() && plain), "{}: there is no `bugle {rest}`", document.name);
    for flag in words.iter().filter(|word| word.starts_with('-')) {
        let flag = flag.split('=').next().unwrap();
        let known = |part: &str| part.trim_end_matches(',') == flag;
        assert!(
            ours[&command].split_whitespace().any(known),
            "{}: `bugle {rest}`: {command:?} has no {flag}",
            document.name
        );
    }
}

/// Commands and suites of xtask, by its own help.
fn of_xtask(document: &Document, rest: &str, sources: &str) {
    let mut words = rest.split(' ').skip(1);
    let command = words.next().unwrap_or_default();
    let known = sources.contains(&format!("\"{command}\" "));
    assert!(known, "{}: there is no `cargo {rest}`", document.name);
    if let (true, Some(suite)) = (command == "test", words.next().filter(|word| !word.starts_with('<'))) {
        let named = format!("name: \"{suite}\"");
        assert!(sources.contains(&named), "{}: there is no suite {suite}", document.name);
    }
}

#[tokio::test]
async fn questions_inside_of_sentences_are_answered() {
    let document = super::document("docs/postgres.md");
    let reader = Reader::new(On::embedded(), &document).await;
    let asked = tokio::task::spawn_blocking(move || {
        let questions: Vec<String> = all()
            .iter()
            .flat_map(Document::spans)
            .filter(|span| span.starts_with("SELECT ") && span.contains(" FROM "))
            .collect();
        questions.iter().for_each(|question| drop(reader.sql(question).ok()));
        questions.len()
    });
    assert!(asked.await.unwrap() > 0);
}
