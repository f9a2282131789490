//! `docs/config.md`: every setting, made of the same list that flags, variables and keys are made of.

use std::fmt::Write as _;

use clap::{Arg, Args, Command};

use super::ServeArgs;

const INTRODUCTION: &str = "\
# Settings

Made by `bugle config document` from the settings' types; do not edit.

Each setting is a flag of `bugle serve`, an environment variable and a key of the TOML file given by `--config` (the flag without its
dashes); the first of these wins. Durations read like `500ms`, `30s`, `5m`, `12h`, `7d`; sizes like `64MiB` or `65536`; ranges like `2,8`.
`bugle config print` shows what is in force and where it comes from.
";

/// The document.
pub(crate) fn markdown() -> String {
    let command = ServeArgs::augment_args(Command::new("serve"));
    let settings: Vec<&Arg> = command.get_arguments().filter(|arg| is_told(arg)).collect();
    let mut headings: Vec<&str> = Vec::new();
    for heading in settings.iter().map(|arg| heading(arg)) {
        if !headings.contains(&heading) {
            headings.push(heading);
        }
    }
    let mut text = INTRODUCTION.to_owned();
    for of in headings {
        let _ = write!(text, "\n## {of}\n\n| flag | variable | default | meaning |\n|---|---|---|---|\n");
        for arg in settings.iter().filter(|arg| heading(arg) == of) {
            text.push_str(&row(arg));
        }
    }
    text
}

/// Settings that only tests need are hidden.
fn is_told(arg: &Arg) -> bool {
    arg.get_env().is_some() && !arg.is_hide_set()
}

fn heading(arg: &Arg) -> &str {
    arg.get_help_heading().unwrap_or("Server")
}

fn row(arg: &Arg) -> String {
    let flag = arg.get_long().unwrap_or_default();
    let value = arg.get_value_names().and_then(|names| names.first()).map_or("", |name| name.as_str());
    let variable = arg.get_env().unwrap_or_default().to_string_lossy();
    let help = arg.get_long_help().or(arg.get_help()).map(ToString::to_string).unwrap_or_default();
    let (meaning, default) = apart(&help);
    let default = if default.is_empty() { String::new() } else { format!("`{default}`") };
    // A table's cell is one line, and its bars are its own.
    let paragraphs = meaning.split("\n\n").map(|one| one.split_whitespace().collect::<Vec<_>>().join(" "));
    let meaning = paragraphs.collect::<Vec<_>>().join(". ").replace('|', "\\|");
    format!(
        "| `--{flag} {}` | `{variable}` | {} | {meaning} |\n",
        value.replace('|', "\\|"),
        default.replace('|', "\\|")
    )
}

/// What a setting means, and its default, which stands in brackets at the end of the first paragraph.
fn apart(help: &str) -> (String, &str) {
    let Some((before, rest)) = help.split_once("[default: ") else { return (help.to_owned(), "") };
    let Some((default, after)) = rest.split_once(']') else { return (help.to_owned(), "") };
    (format!("{}{after}", before.trim_end()), default)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_default_is_taken_out_of_its_sentence() {
        assert_eq!(apart("Most bytes [default: 1MiB]"), ("Most bytes".to_owned(), "1MiB"));
        assert_eq!(apart("Name [default: its]\n\nMore."), ("Name\n\nMore.".to_owned(), "its"));
        assert_eq!(apart("None"), ("None".to_owned(), ""));
    }

    #[test]
    fn every_setting_has_a_row() {
        let text = markdown();
        let command = ServeArgs::augment_args(Command::new("serve"));
        let settings = command.get_arguments().filter(|arg| is_told(arg)).count();
        assert_eq!(text.lines().filter(|line| line.starts_with("| `--")).count(), settings);
        assert!(
            text.contains(
                "| `--listen HOST:PORT` | `BUGLE_LISTEN` | `127.0.0.1:6632` | Address to listen on."
            ),
            "{text}"
        );
    }
}
