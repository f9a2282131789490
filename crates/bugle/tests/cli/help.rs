//! The help of every command against a golden file. `BUGLE_BLESS=1` writes it anew; read the difference.

use std::path::Path;

use crate::support::{Ran, program};

pub(crate) fn help(words: &[&str]) -> String {
    let dir = tempfile::tempdir().unwrap();
    let mut command = program(dir.path());
    // The width of a page, whatever terminal the tests run in.
    command.args(words).arg("--help").env("COLUMNS", "100");
    Ran::of(command, "").ok()
}

/// Names of the commands below one, as its help lists them.
fn commands(help: &str) -> Vec<String> {
    let listed = help.split_once("\nCommands:\n").map_or("", |(_, rest)| rest);
    let lines = listed.lines().take_while(|line| !line.is_empty());
    // Below a name stands the rest of what is said of it, further in.
    let named = lines.filter_map(|line| line.strip_prefix("  ").filter(|line| !line.starts_with(' ')));
    let names = named.filter_map(|line| line.split_whitespace().next().map(str::to_owned));
    names.filter(|name| name != "help").collect()
}

/// All commands, by their words.
pub(crate) fn all() -> Vec<Vec<String>> {
    let mut found = Vec::new();
    let mut open: Vec<Vec<String>> = vec![Vec::new()];
    while let Some(words) = open.pop() {
        let text = help(&words.iter().map(String::as_str).collect::<Vec<_>>());
        open.extend(commands(&text).into_iter().map(|name| [words.clone(), vec![name]].concat()));
        found.push(words);
    }
    found.sort_unstable();
    found
}

#[test]
fn the_help_of_every_command_is_as_it_was_read() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/help.golden");
    // Those with all settings of a server are described by the settings, and those of the load generator in bench/.
    let long = |words: &[String]| {
        let settings = ["serve", "migrate", "rekey", "config print"].contains(&words.join(" ").as_str());
        settings || words.first().is_some_and(|word| word == "bench") && words.len() > 1
    };
    let mut text = String::new();
    for words in all() {
        let shown = help(&words.iter().map(String::as_str).collect::<Vec<_>>());
        let shown = if long(&words) { shown.split("\nOptions:\n").next().unwrap() } else { &shown };
        text.push_str(&format!("===== bugle {}\n{}\n", words.join(" "), shown.trim_end()));
    }
    if std::env::var_os("BUGLE_BLESS").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let golden = std::fs::read_to_string(&path).unwrap();
    for (line, (is, was)) in text.lines().zip(golden.lines()).enumerate() {
        assert_eq!(is, was, "line {} of help.golden; BUGLE_BLESS=1 writes it anew", line + 1);
    }
    assert_eq!(text.len(), golden.len(), "BUGLE_BLESS=1 writes it anew");
}

#[test]
fn every_exit_status_is_in_the_help() {
    let shown = help(&[]);
    assert!((0..=6).all(|status| shown.contains(&format!("\n  {status}  "))), "{shown}");
}
