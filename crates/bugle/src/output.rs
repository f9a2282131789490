//! What commands print: a table for people, or the server's own JSON for programs.
//!
//! JSON is passed on as the server wrote it, and so are numbers and payloads in tables: nothing is read into a float and
//! written again, which would round it. Text in tables cannot move the cursor or change colours: control characters are
//! spelled out.

use std::collections::BTreeMap;
use std::io::{IsTerminal, Write, stdout};

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use serde_json::Value;
use serde_json::value::RawValue;

/// How to print.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Columns for people.
    Table,
    /// The answer as one JSON document.
    Json,
    /// One JSON document per line and entry.
    Ndjson,
}

/// The flag for it.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct OutputArgs {
    /// How to print
    #[arg(short, long, env = "BUGLE_OUTPUT", value_enum, default_value_t = Format::Table, value_name = "FORMAT")]
    pub(crate) output: Format,
}

/// How a cell is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// As it is.
    Text,
    /// To the right.
    Number,
    /// Compact JSON.
    Json,
}

/// A column of a table: its title, where its cells are in an entry, and how they are written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column(pub(crate) &'static str, pub(crate) &'static str, pub(crate) Kind);

/// Standard output is a terminal that may be shown colours.
pub(crate) fn colours() -> bool {
    let forbidden = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    stdout().is_terminal() && !forbidden && !dumb
}

/// Write to standard output.
pub(crate) fn put(text: &str) -> Result<()> {
    let mut out = stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).context("standard output")
}

/// Text that is safe on a terminal and in a line.
pub(crate) fn plain(text: &str) -> String {
    let unsafe_here =
        |c: char| c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    if !text.contains(unsafe_here) {
        return text.to_owned();
    }
    text.chars().flat_map(|c| if unsafe_here(c) { c.escape_default().collect() } else { vec![c] }).collect()
}

impl OutputArgs {
    /// Print a list: `of` is where the answer keeps it, at the top if none. How many entries there were.
    pub(crate) fn list(self, answer: &RawValue, of: Option<&str>, columns: &[Column]) -> Result<usize> {
        let entries = entries(answer, of)?;
        match self.output {
            Format::Json => put(&format!("{}\n", answer.get()))?,
            Format::Ndjson => {
                put(&entries.iter().map(|entry| format!("{}\n", entry.get())).collect::<String>())?;
            }
            Format::Table => {
                let rows = entries.iter().map(|entry| row(entry, columns)).collect::<Result<Vec<_>>>()?;
                put(&table(columns, &rows, colours(), terminal_width()))?;
            }
        }
        Ok(entries.len())
    }

    /// Print entries that were made here.
    pub(crate) fn entries(self, entries: &[Value], columns: &[Column]) -> Result<()> {
        let answer = RawValue::from_string(serde_json::to_string(entries)?)?;
        self.list(&answer, None, columns).map(drop)
    }

    /// Print one thing: its lines for people, or its JSON.
    pub(crate) fn one(self, value: &Value, lines: &str) -> Result<()> {
        match self.output {
            Format::Table => put(lines),
            Format::Json | Format::Ndjson => put(&format!("{value}\n")),
        }
    }
}

/// Facts for people, one per line, their values below each other.
pub(crate) fn facts(facts: &[(&str, String)]) -> String {
    let width = facts.iter().map(|(name, _)| name.len()).max().unwrap_or_default();
    facts.iter().map(|(name, value)| format!("{name:<width$}  {}\n", plain(value))).collect()
}

/// The entries of a list as they were written.
pub(crate) fn entries(answer: &RawValue, of: Option<&str>) -> Result<Vec<Box<RawValue>>> {
    let list: Box<RawValue> = match of {
        None => answer.to_owned(),
        Some(name) => {
            let mut all: BTreeMap<String, Box<RawValue>> =
                serde_json::from_str(answer.get()).context("the answer is no object")?;
            all.remove(name).with_context(|| format!("the answer has no {name}"))?
        }
    };
    serde_json::from_str(list.get()).context("the answer is no list")
}

fn row(entry: &RawValue, columns: &[Column]) -> Result<Vec<String>> {
    let members: Members<'_> = serde_json::from_str(entry.get()).context("an entry of the answer")?;
    Ok(columns.iter().map(|Column(_, at, kind)| cell(find(&members, at), *kind)).collect())
}

/// What an object holds, as it was written.
pub(crate) type Members<'a> = BTreeMap<String, &'a RawValue>;

/// What is at a place like `/messages/total`.
pub(crate) fn find<'a>(members: &Members<'a>, at: &str) -> Option<&'a RawValue> {
    let at = at.trim_start_matches('/');
    let (name, inside) = at.split_once('/').map_or((at, None), |(name, rest)| (name, Some(rest)));
    let found = *members.get(name)?;
    match inside {
        None => Some(found),
        Some(rest) => find(&serde_json::from_str(found.get()).ok()?, rest),
    }
}

/// A value as it was written, but on one line; a text without its quotes, unless it is JSON that is wanted.
pub(crate) fn cell(value: Option<&RawValue>, kind: Kind) -> String {
    let written = value.map_or("null", RawValue::get);
    match serde_json::from_str::<String>(written) {
        _ if written == "null" => "-".to_owned(),
        Ok(text) if kind != Kind::Json => plain(&text),
        _ => plain(&compact(written)),
    }
}

/// JSON without the space between its parts.
pub(crate) fn compact(json: &str) -> String {
    let (mut quoted, mut escaped) = (false, false);
    let keep = |c: &char| {
        let inside = quoted;
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = quoted,
            '"' => quoted = !quoted,
            _ => (),
        }
        inside || !c.is_ascii_whitespace()
    };
    json.chars().filter(keep).collect()
}

/// Columns of a terminal, if it is one.
fn terminal_width() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(stdout()).ok()?;
    (size.ws_col > 0).then_some(size.ws_col.into())
}

/// The last column is cut to what is left of the width.
fn table(columns: &[Column], rows: &[Vec<String>], colours: bool, width: Option<usize>) -> String {
    let widths: Vec<usize> = columns
        .iter()
        .enumerate()
        .map(|(at, column)| {
            let cells = rows.iter().map(|row| row[at].chars().count());
            cells.max().unwrap_or_default().max(column.0.chars().count())
        })
        .collect();
    let (bold, normal) = if colours { ("\x1b[1m", "\x1b[0m") } else { ("", "") };
    let titles: Vec<String> = columns.iter().map(|column| column.0.to_owned()).collect();
    let mut text = format!("{bold}{}{normal}\n", line(columns, &titles, &widths, width));
    for row in rows {
        text.push_str(&line(columns, row, &widths, width));
        text.push('\n');
    }
    text
}

fn line(columns: &[Column], cells: &[String], widths: &[usize], width: Option<usize>) -> String {
    let mut text = String::new();
    for (at, (cell, column)) in cells.iter().zip(columns).enumerate() {
        if at > 0 {
            text.push_str("  ");
        }
        let pad = " ".repeat(widths[at].saturating_sub(cell.chars().count()));
        match column.2 {
            Kind::Number => text.extend([pad.as_str(), cell]),
            Kind::Text | Kind::Json => text.extend([cell, pad.as_str()]),
        }
    }
    let text = text.trim_end();
    match width {
        Some(width) if text.chars().count() > width => {
            text.chars().take(width.saturating_sub(1)).chain(['…']).collect()
        }
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: [Column; 2] =
        [Column("NAME", "/name", Kind::Text), Column("HELD", "/messages/total", Kind::Number)];

    #[test]
    fn columns_stand_below_each_other_and_colours_only_where_wanted() {
        let rows = vec![vec!["a".to_owned(), "10".to_owned()], vec!["long name".to_owned(), "7".to_owned()]];
        assert_eq!(
            table(&COLUMNS, &rows, false, None),
            "NAME       HELD\na            10\nlong name     7\n"
        );
        assert_eq!(table(&COLUMNS, &[], true, None), "\x1b[1mNAME  HELD\x1b[0m\n");
        assert_eq!(table(&COLUMNS, &rows, false, Some(8)).lines().last(), Some("long na…"));
    }

    #[test]
    fn cells_are_found_and_cannot_harm_a_terminal() {
        let entry =
            RawValue::from_string(r#"{"name":"a\u001b[2Jb\n","messages":{"total":3}}"#.into()).unwrap();
        assert_eq!(row(&entry, &COLUMNS).unwrap(), ["a\\u{1b}[2Jb\\n", "3"]);
        assert_eq!(row(&RawValue::from_string("{}".into()).unwrap(), &COLUMNS).unwrap(), ["-", "-"]);
        assert_eq!(plain("\u{202e}abc"), "\\u{202e}abc");
    }

    #[test]
    fn no_number_is_rounded_and_no_order_changed() {
        let columns = [Column("TOTAL", "/total", Kind::Number), Column("PAYLOAD", "/data", Kind::Json)];
        let shown = |total: &str, data: &str| {
            let entry = RawValue::from_string(format!(r#"{{"data":{data},"total":{total}}}"#)).unwrap();
            row(&entry, &columns).unwrap()
        };
        let precise = "123456789012345678901234567890.10";
        assert_eq!(shown(precise, "1e400"), [precise, "1e400"]);
        let spaced = "{ \"z\": 1.0,\n \"a\" : [ 0.1000, \"a \\\" b\\\\\" , 18446744073709551617 ] }";
        let wanted = r#"{"z":1.0,"a":[0.1000,"a \" b\\",18446744073709551617]}"#;
        assert_eq!(shown("null", spaced), ["-", wanted]);
        assert_eq!(shown("7", "\"text\""), ["7", "\"text\""], "a payload that is a text has quotes");
    }

    #[test]
    fn entries_keep_their_bytes() {
        let answer = RawValue::from_string(r#"{"n":1,"list":[{"a": 1.0},{"a":2e5}]}"#.into()).unwrap();
        let found = entries(&answer, Some("list")).unwrap();
        assert_eq!(found.iter().map(|e| e.get()).collect::<Vec<_>>(), [r#"{"a": 1.0}"#, r#"{"a":2e5}"#]);
        assert!(entries(&answer, Some("other")).is_err());
    }
}
