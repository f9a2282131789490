//! `matrix`: for each thing that makes a message due on one server, how late it reaches a waiter on another.

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::Outcome;
use crate::cli_servers::MatrixArgs;
use crate::launch::Place;
use crate::matrix_rows::{Row, Stage};
use crate::samples::Samples;

const HEAD: &str = "| what happens on A while one waits on B | bar, ms | late p50, ms | p99 | max |\n|---|---|---|---|---|\n";

/// Runs the command.
pub(crate) async fn run(args: MatrixArgs) -> Result<Outcome> {
    args.check()?;
    let place = Place::new(&args.servers)?;
    let measured = Box::pin(measure(&args, &place)).await;
    let removed = place.remove().await;
    let rows = measured?;
    removed?;
    let json = json!({
        "command": "matrix", "carrier": if args.udp { "udp" } else { "notify" }, "rounds": args.rounds,
        "rows": rows,
    });
    let table = rows.iter().fold(HEAD.to_owned(), |table, row| table + &line(row));
    Ok(Outcome { table: Some(format!("{table}\n{json}")), ok: !rows.is_empty(), json })
}

async fn measure(args: &MatrixArgs, place: &Place) -> Result<Vec<Value>> {
    let mut rows = Vec::new();
    for row in Row::ALL.into_iter().filter(|row| wanted(*row, args)) {
        let (name, bar) = row.title();
        let mut stage = Box::pin(Stage::set(row, args, place)).await.with_context(|| name.to_owned())?;
        let mut late = Samples::default();
        for number in 0..args.rounds {
            let micros = Box::pin(stage.round(number)).await;
            late.micros(micros.with_context(|| format!("{name}, round {number}"))?);
        }
        // A long run shows how far it is.
        eprintln!("{name}: {}", late.json());
        rows.push(json!({"name": name, "bar_ms": bar, "late_ms": late.json()}));
    }
    Ok(rows)
}

fn wanted(row: Row, args: &MatrixArgs) -> bool {
    let name = row.title().0;
    row.possible(args) && (args.row.is_empty() || args.row.iter().any(|part| name.contains(part.as_str())))
}

fn line(row: &Value) -> String {
    let late = &row["late_ms"];
    let name = row["name"].as_str().unwrap_or_default();
    format!("| {name} | {} | {} | {} | {} |\n", row["bar_ms"], late["p50"], late["p99"], late["max"])
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    fn rows(more: &str) -> Vec<Row> {
        let words = "bugle-bench matrix --server x --pg y".split(' ').chain(more.split_terminator(' '));
        let cli = crate::Cli::try_parse_from(words).unwrap();
        let crate::Command::Matrix(args) = cli.command else { unreachable!("it is a matrix") };
        Row::ALL.into_iter().filter(|row| wanted(*row, &args)).collect()
    }

    #[test]
    fn rows_that_need_another_carrier_or_another_database_are_left_out() {
        let has = |more: &str, row| rows(more).contains(&row);
        assert!(has("", Row::ListenCut) && !has("", Row::HintLost) && !has("", Row::DatabaseRestarted));
        assert!(!has("--udp", Row::ListenCut) && has("--udp", Row::HintLost));
        assert!(has("--pg-data /d", Row::DatabaseRestarted));
        assert_eq!(rows("--row frees"), [Row::AckFrees]);
    }

    #[test]
    fn a_line_has_a_cell_for_each_column() {
        let row = json!({"name": "x", "bar_ms": 15, "late_ms": {"p50": -0.5, "p99": 2.0, "max": 3.0}});
        assert_eq!(line(&row), "| x | 15 | -0.5 | 2.0 | 3.0 |\n");
        let columns = |line: &str| line.matches('|').count();
        assert!(HEAD.lines().all(|head| columns(head) == columns(&line(&row))));
    }
}
