//! The commands with a fixed rate.

use bugle_bench::{Cli, Outcome, run};
use clap::Parser;

use crate::fake::{self, Fault};
use crate::launching::Program;

async fn bench(arguments: &[&str]) -> anyhow::Result<Outcome> {
    let words = ["bugle-bench"].iter().chain(arguments);
    run(Cli::try_parse_from(words).expect("arguments")).await
}

#[tokio::test]
async fn pushes_at_a_fixed_rate_are_all_accounted_for() {
    let (url, _) = fake::start(Fault::None).await;
    let options = ["--batch", "5", "--connections", "4", "--rate", "500", "--seconds", "0.4"];
    let outcome =
        bench(&[&["open", "--url", &url, "--warmup-seconds", "0.1"], &options[..]].concat()).await.unwrap();
    assert!(outcome.ok, "{}", outcome.json);
    let number = |key: &str| outcome.json[key].as_u64().unwrap();
    assert!(number("messages") > 0, "{}", outcome.json);
    assert_eq!(number("messages") % 5, 0, "whole requests count: {}", outcome.json);
    assert_eq!(outcome.json["errors"], serde_json::json!({}));
    assert!(outcome.json["due_to_answer_ms"]["p99"].as_f64().unwrap() > 0.0);
}

#[tokio::test]
async fn a_server_that_has_too_much_to_do_is_seen_refusing() {
    let (url, _) = fake::start(Fault::RefusePushes).await;
    let options = ["--batch", "5", "--connections", "2", "--rate", "500", "--seconds", "0.2"];
    let outcome =
        bench(&[&["open", "--url", &url, "--warmup-seconds", "0"], &options[..]].concat()).await.unwrap();
    assert!(!outcome.ok, "nothing was stored: {}", outcome.json);
    assert!(outcome.json["refused_requests"].as_u64().unwrap() > 0, "{}", outcome.json);
    assert_eq!(outcome.json["errors"], serde_json::json!({}), "a refusal is no fault");
}

#[tokio::test]
async fn a_curve_has_every_step_and_a_drawing() {
    let (url, _) = fake::start(Fault::None).await;
    let program = Program::saying(&format!("Bugle is ready at {url}"));
    let svg = std::env::temp_dir().join(format!("bugle-bench-curve-{:016x}.svg", fastrand::u64(..)));
    let server = ["curve", "--server", program.0.to_str().unwrap(), "--svg", svg.to_str().unwrap()];
    let options = ["--batches", "2", "--connections", "2", "--seconds", "0.05", "--warmup-seconds", "0"];
    let outcome = bench(&[&server[..], &options[..]].concat()).await.unwrap();
    assert_eq!(outcome.json["curves"][0]["steps"].as_array().unwrap().len(), 10, "{}", outcome.json);
    assert!(outcome.table.unwrap().contains("embedded, batch 2"));
    let half = &outcome.json["curves"][0]["half_knee"];
    if !outcome.json["curves"][0]["knee"].is_null() {
        // Present exactly where there is a knee, which a busy machine may not show.
        for figure in ["p99_ms", "probe_p99_ms", "probe_before_p99_ms", "times", "after_flood_p99_ms"] {
            assert!(half[figure].as_f64().unwrap() > 0.0, "{figure}: {half}");
        }
    }
    assert!(std::fs::read_to_string(&svg).unwrap().starts_with("<svg "));
    std::fs::remove_file(&svg).unwrap();
}
