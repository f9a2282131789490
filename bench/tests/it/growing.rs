//! The growth curves, against a server in this process: every axis has its points, and what goes wrong is told.

use bugle_bench::{Cli, Outcome, run};
use clap::Parser;
use serde_json::Value;

use crate::fake::{self, Fault};
use crate::launching::Program;

async fn growth(fault: Fault, options: &str) -> anyhow::Result<Outcome> {
    let (url, _) = fake::start(fault).await;
    let program = Program::saying(&format!("Bugle is ready at {url}"));
    let words =
        ["bugle-bench", "growth", "--quick", "--seconds", "0.05", "--server", program.0.to_str().unwrap()];
    run(Cli::try_parse_from(words.into_iter().chain(options.split(' '))).expect("arguments")).await
}

/// Point and verb of every row.
fn rows(outcome: &Outcome) -> Vec<(&str, &str)> {
    let rows = outcome.json["rows"].as_array().unwrap();
    rows.iter().map(|row| (row["point"].as_str().unwrap(), row["verb"].as_str().unwrap())).collect()
}

#[tokio::test]
async fn every_point_of_an_axis_is_measured_beside_its_base() {
    let outcome = growth(Fault::None, "--axis backlog --shrink 10000").await.unwrap();
    assert!(outcome.ok, "{}", outcome.json);
    let verbs = ["push", "pop + ack", "pop + ack of the group behind"];
    let expected = ["10", "100", "1,000"].map(|point| verbs.map(|verb| (point, verb)));
    assert_eq!(rows(&outcome), expected.concat());
    for row in outcome.json["rows"].as_array().unwrap() {
        assert_eq!(row["base_point"], "0");
        for side in ["base", "grown"] {
            assert!(row[side]["msgs_per_s"].as_f64().unwrap() > 0.0, "{row}");
            assert_eq!(row[side]["rounds"].as_array().unwrap().len(), 1, "the first round does not count");
        }
    }
    assert!(outcome.table.unwrap().contains("## Backlog"));
}

#[tokio::test]
async fn lanes_have_their_bars_and_a_drawing() {
    let svg = std::env::temp_dir().join(format!("bugle-bench-growth-{:016x}.svg", fastrand::u64(..)));
    let options = format!("--axis lanes --shrink 20000 --connections 2 --svg {}", svg.display());
    let outcome = growth(Fault::None, &options).await.unwrap();
    assert!(outcome.ok, "{}", outcome.json);
    assert_eq!(rows(&outcome).len(), 3 * 4, "three points, two ways to spread, push and pop");
    let bars = outcome.json["bars"].as_array().unwrap();
    assert!(
        bars.iter().any(|bar| bar["what"].as_str().unwrap().contains("memory of each of 50 lanes")),
        "{bars:?}"
    );
    assert!(std::fs::read_to_string(&svg).unwrap().starts_with("<svg "));
    std::fs::remove_file(&svg).unwrap();
}

#[tokio::test]
async fn groups_are_also_watched_at_a_fifth_of_the_knee() {
    let outcome = growth(Fault::None, "--axis groups --connections 2").await.unwrap();
    let lags = outcome.json["groups_at_a_fifth_of_the_knee"].as_array().unwrap();
    // A knee needs a server that keeps up, which this one on a busy machine may not: then it is a gap.
    let told = outcome.json["gaps"].to_string();
    assert!(lags.len() == 2 || told.contains("was not kept up with"), "{}", outcome.json);
    for lag in lags {
        assert!(lag["many"][0]["late_ms"].as_f64().is_some(), "every group has had everything: {lag}");
    }
    let points: Vec<&str> = rows(&outcome).iter().map(|row| row.0).collect();
    assert_eq!(points, ["10", "10", "50", "50"]);
}

#[tokio::test]
async fn waiters_are_parked_on_the_point_and_wakes_are_timed() {
    let outcome = growth(Fault::None, "--axis waiters --shrink 1000").await.unwrap();
    assert!(outcome.ok, "{}", outcome.json);
    let wakes: Vec<&Value> =
        outcome.json["rows"].as_array().unwrap().iter().filter(|row| row["verb"] == "wake").collect();
    assert_eq!(wakes.len(), 3);
    assert!(wakes.iter().all(|wake| wake["times_cpu"].is_null()), "{wakes:?}");
}

#[tokio::test]
async fn a_point_that_cannot_be_measured_is_a_gap_and_fails_the_run() {
    let outcome = growth(Fault::FailAck, "--axis retention").await.unwrap();
    assert!(!outcome.ok);
    assert!(outcome.json["rows"].as_array().unwrap().is_empty(), "{}", outcome.json);
    assert!(outcome.json["gaps"][0].as_str().unwrap().contains("Retention"), "{}", outcome.json);
}

#[tokio::test]
async fn a_database_is_asked_for_where_one_is_needed() {
    let error = growth(Fault::None, "--engine postgres").await.unwrap_err();
    assert!(error.to_string().contains("--pg"), "{error}");
}
