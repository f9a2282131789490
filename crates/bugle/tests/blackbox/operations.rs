//! What operators are told exists: every metric, label, setting, log line, route and anchor in `docs/operations.md`, the alert rules and
//! the dashboard.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::common::{On, command};

const GUIDE: &str = "docs/operations.md";
const RULES: &str = "deploy/prometheus/bugle.rules.yml";
const DASHBOARD: &str = "deploy/grafana/bugle.json";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(file: &str) -> String {
    std::fs::read_to_string(root().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// All texts in a JSON document.
fn texts(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::String(text) => found.push(text.clone()),
        Value::Array(list) => list.iter().for_each(|value| texts(value, found)),
        Value::Object(fields) => fields.values().for_each(|value| texts(value, found)),
        _ => {}
    }
}

fn dashboard() -> Vec<String> {
    let mut found = Vec::new();
    texts(&serde_json::from_str(&read(DASHBOARD)).unwrap(), &mut found);
    found
}

/// Words of `text` that begin with `start` and consist of `letters`.
fn words<'t>(text: &'t str, start: &str, letters: impl Fn(char) -> bool + Copy) -> Vec<&'t str> {
    let at = text.match_indices(start).map(|(at, _)| at);
    let begins = at.filter(|at| !text[..*at].ends_with(letters));
    begins.map(|at| &text[at..at + text[at..].find(|c| !letters(c)).unwrap_or(text.len() - at)]).collect()
}

fn in_name(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '_'
}

/// Metrics named in a text, each with what stands in the braces behind it.
fn metrics(text: &str) -> Vec<(&str, &str)> {
    let with_labels = |name: &'_ str| {
        let behind = &text[name.as_ptr() as usize - text.as_ptr() as usize + name.len()..];
        let labels = behind.strip_prefix('{').and_then(|rest| rest.split_once('}'));
        labels.map_or("", |(labels, _)| labels)
    };
    words(text, "bugle_", in_name).into_iter().map(|name| (name, with_labels(name))).collect()
}

/// What stands between backquotes.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// What a server on PostgreSQL tells after a little traffic, as a scraper sees it.
async fn exposition() -> String {
    let on = On::postgres().await;
    let server = on.start().await;
    server.push_ids("orders", "a", &["1"]).await;
    let popped = server.pop_some("/queue/orders?consumerGroup=g").await;
    server.ack_all(&popped, "completed").await;
    String::from_utf8(server.get("/metrics/prometheus").await.body.to_vec()).unwrap()
}

#[tokio::test]
async fn every_metric_and_label_that_operators_are_told_of_exists() {
    let page = exposition().await;
    let mut names: BTreeSet<&str> = page.lines().filter_map(|line| line.split(['{', ' ']).next()).collect();
    names.extend(page.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()));
    let told =
        |name: &str, label: &str| page.lines().any(|line| line.starts_with(name) && line.contains(label));
    let mut count = 0;
    for text in [read(GUIDE), read(RULES), dashboard().join("\n")] {
        for (name, labels) in metrics(&text) {
            assert!(names.contains(name), "there is no metric {name}");
            // A family of a histogram is named without what its series end with.
            let exact = labels.split(',').filter(|label| label.contains("=\"") && !label.contains('$'));
            for label in exact.filter(|label| !label.starts_with("instance") && !label.starts_with("job")) {
                assert!(told(name, label), "{name} has no {label}");
            }
            count += 1;
        }
    }
    assert!(count > 150, "{count}");
}

#[test]
fn every_setting_that_operators_are_told_of_exists() {
    let dir = tempfile::tempdir().unwrap();
    let help = |verb: &[&str]| {
        let output = command(dir.path()).args(verb).arg("--help").output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let all = help(&[]);
    let verbs = all.split("Commands:").nth(1).unwrap().lines().skip(1).take_while(|line| !line.is_empty());
    let verbs: Vec<&str> = verbs.filter_map(|line| line.split_whitespace().next()).collect();
    let helps: String = verbs.iter().filter(|verb| **verb != "help").map(|verb| help(&[verb])).collect();
    let in_flag = |letter: char| letter.is_ascii_lowercase() || letter == '-' || letter.is_ascii_digit();
    let known: BTreeSet<&str> = words(&helps, "--", in_flag).into_iter().collect();
    let guide = read(GUIDE);
    for flag in words(&guide, "--", in_flag).iter().filter(|flag| flag.len() > 3) {
        assert!(known.contains(flag), "no command knows {flag}");
    }
    for span in quoted(&guide).filter_map(|span| span.strip_prefix("bugle ")) {
        let verb = span.split_whitespace().next().unwrap();
        assert!(verbs.contains(&verb), "there is no command {verb}");
    }
}

fn sources(dir: &Path, all: &mut String) {
    for entry in std::fs::read_dir(dir).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, all);
        } else if path.extension().is_some_and(|kind| kind == "rs") {
            all.push_str(&std::fs::read_to_string(path).unwrap());
        }
    }
}

#[test]
fn every_log_line_that_operators_are_told_of_is_written() {
    let mut all = String::new();
    for krate in std::fs::read_dir(root().join("crates")).unwrap().flatten() {
        sources(&krate.path().join("src"), &mut all);
    }
    let guide = read(GUIDE);
    let mut count = 0;
    for entry in guide.split("\n* ").filter(|entry| entry.starts_with("Log:")) {
        let entry = entry.split("\n\n").next().unwrap();
        for span in quoted(entry).filter(|span| !span.starts_with("--")) {
            assert!(all.contains(span), "nothing says {span:?}");
            count += 1;
        }
    }
    assert!(count > 25, "{count}");
}

#[test]
fn every_route_that_operators_are_told_of_exists() {
    let api: Value = serde_json::from_str(&read("docs/openapi.json")).unwrap();
    let guide = read(GUIDE);
    let mut count = 0;
    for (method, path) in quoted(&guide).filter_map(|span| span.split_once(" /")) {
        let known = &api["paths"][format!("/{path}")][method.to_ascii_lowercase()];
        assert!(known.is_object(), "there is no {method} /{path}");
        count += 1;
    }
    assert!(count > 5, "{count}");
}

/// The anchors that readers' tools make of headings.
fn anchors(guide: &str) -> BTreeSet<String> {
    let headings = guide
        .lines()
        .filter_map(|line| line.trim_start_matches('#').strip_prefix(' ').filter(|_| line.starts_with('#')));
    let letter = |c: char| match c {
        ' ' => Some('-'),
        c if c.is_alphanumeric() || c == '-' || c == '_' => Some(c.to_ascii_lowercase()),
        _ => None,
    };
    headings.map(|heading| heading.chars().filter_map(letter).collect()).collect()
}

#[test]
fn every_alert_and_panel_leads_to_an_entry_that_exists() {
    let (guide, rules) = (read(GUIDE), read(RULES));
    let known = anchors(&guide);
    let in_anchor = |letter: char| in_name(letter) || letter == '-';
    let leads = |text: &str, before: &str| {
        let found = words(text, before, |c| before.contains(c) || in_anchor(c));
        found.into_iter().map(|word| word[before.len()..].to_owned()).collect::<Vec<_>>()
    };
    let place = "docs/operations.md#";
    let alerts = rules.matches("- alert: ").count();
    assert!(alerts > 15 && leads(&rules, place).len() == alerts, "every alert leads somewhere");
    let panels = dashboard().join("\n");
    for anchor in leads(&rules, place).iter().chain(&leads(&panels, place)).chain(&leads(&guide, "(#")) {
        assert!(known.contains(anchor), "there is no entry {anchor}");
    }
}
