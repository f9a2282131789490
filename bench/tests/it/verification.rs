//! The generator against a server that keeps its promises, and against one that breaks them one at a time.

use bugle_bench::{Cli, Outcome, run};
use clap::Parser;

use crate::fake::{self, Fault};

async fn bench(url: &str, arguments: &str) -> Outcome {
    let directory = std::env::temp_dir();
    let fixed = ["bugle-bench", arguments.split(' ').next().unwrap(), "--url", url, "--fsync-dir"];
    let words = fixed.into_iter().chain([directory.to_str().unwrap()]).chain(arguments.split(' ').skip(1));
    run(Cli::try_parse_from(words).expect("arguments")).await.expect("run")
}

/// Pops 400 messages in 4 lanes from a server with a fault.
async fn pop(fault: Fault, more: &str) -> Outcome {
    let (url, _) = fake::start(fault).await;
    bench(
        &url,
        &format!("pop --messages 400 --partitions 4 --batch 10 --connections 3 --idle-seconds 0.2{more}"),
    )
    .await
}

/// Asserts the five verdicts of a report: verified, missing, duplicates, reordered, corrupt.
fn assert_verdict(outcome: &Outcome, expected: [u64; 5]) {
    let keys = ["verified", "missing", "duplicates", "reordered", "corrupt"];
    let found = keys.map(|key| outcome.json[key].as_u64().unwrap());
    assert_eq!(found, expected, "{keys:?} of {}", outcome.json);
    assert_eq!(outcome.ok, expected[1..] == [0, 0, 0, 0], "{}", outcome.json);
}

#[tokio::test]
async fn every_mode_verifies_everything_on_an_honest_server() {
    for mode in [
        " --mode queue",
        " --mode direct",
        " --mode filter",
        " --mode queue --ack last --claim-partitions 3",
        " --mode queue --auto-ack --claim-partitions 2",
        " --mode direct --auto-ack",
        " --mode direct --connections 7",
        " --mode queue --preload-run 3 --partitions 7",
    ] {
        let (url, _) = fake::start(Fault::None).await;
        let mut arguments = "pop --messages 400 --batch 10 --idle-seconds 0.2".to_owned() + mode;
        for (name, value) in [("--partitions", 4), ("--connections", 3)] {
            if !mode.contains(&format!(" {name} ")) {
                arguments += &format!(" {name} {value}");
            }
        }
        let outcome = bench(&url, &arguments).await;
        assert_verdict(&outcome, [400, 0, 0, 0, 0]);
        assert_eq!(outcome.json["errors"], serde_json::json!({}), "{mode}");
        assert_eq!(outcome.json["drained"], true, "{mode}");
        assert_eq!(outcome.json["swept"], true, "{mode}");
    }
}

#[tokio::test]
async fn each_group_gets_everything() {
    let outcome = pop(Fault::None, " --groups 2").await;
    assert_verdict(&outcome, [800, 0, 0, 0, 0]);
    assert_eq!(outcome.json["messages"], 800);
}

#[tokio::test]
async fn a_lost_message_is_missing_in_every_mode() {
    for mode in ["", " --mode direct", " --auto-ack", " --ack last"] {
        assert_verdict(&pop(Fault::Lose, mode).await, [399, 1, 0, 0, 0]);
        assert_verdict(&pop(Fault::LoseLast, mode).await, [399, 1, 0, 0, 0]);
    }
}

#[tokio::test]
async fn a_message_stored_twice_is_a_duplicate() {
    assert_verdict(&pop(Fault::StoreTwice, "").await, [400, 0, 1, 0, 0]);
    assert_verdict(&pop(Fault::StoreTwice, " --auto-ack").await, [400, 0, 1, 0, 0]);
}

#[tokio::test]
async fn a_confirmed_ack_that_is_forgotten_shows_as_duplicates() {
    let outcome = pop(Fault::ForgetAck, "").await;
    assert_verdict(&outcome, [400, 0, 10, 0, 0]);
}

#[tokio::test]
async fn a_failed_ack_may_redeliver_without_being_blamed() {
    let outcome = pop(Fault::FailAck, "").await;
    assert_verdict(&outcome, [400, 0, 0, 0, 0]);
    assert_eq!(outcome.json["redelivered"], 10);
    assert_eq!(outcome.json["errors"], serde_json::json!({"http_503": 1}));
}

#[tokio::test]
async fn a_swapped_pair_is_reordered() {
    assert_verdict(&pop(Fault::Reorder, "").await, [399, 0, 0, 1, 0]);
    assert_verdict(&pop(Fault::Reorder, " --auto-ack").await, [399, 0, 0, 1, 0]);
}

#[tokio::test]
async fn damaged_payloads_lanes_and_ids_are_corrupt() {
    for fault in [Fault::Corrupt, Fault::WrongId] {
        assert_verdict(&pop(fault, "").await, [399, 0, 0, 0, 1]);
    }
    let misrouted = pop(Fault::WrongLane, "").await;
    assert_eq!(misrouted.json["corrupt"], 1, "{}", misrouted.json);
    assert!(!misrouted.ok);
}

#[tokio::test]
async fn a_message_without_a_lease_is_against_the_contract() {
    let (url, _) = fake::start(Fault::NoLeaseId).await;
    let outcome =
        bench(&url, "pop --messages 10 --partitions 1 --connections 1 --lease-seconds 0 --idle-seconds 0.2")
            .await;
    assert!(!outcome.ok);
    assert_eq!(outcome.json["errors"]["malformed pop answer"], 1);
}

#[tokio::test]
async fn the_clock_stops_a_run_that_is_not_drained_without_calling_the_rest_missing() {
    let (url, _) = fake::start(Fault::None).await;
    let arguments =
        "pop --messages 20000 --partitions 2 --batch 1 --connections 2 --payload-bytes 64 --seconds 0.1";
    let outcome = bench(&url, arguments).await;
    assert!(outcome.ok, "{}", outcome.json);
    assert_eq!(outcome.json["drained"], false);
    assert_eq!(outcome.json["missing"], 0);
}

#[tokio::test]
async fn without_a_count_a_small_queue_is_drained_first_to_learn_the_rate() {
    let (url, state) = fake::start(Fault::None).await;
    let arguments = "pop --queue q --partitions 8 --max-messages 2000 --connections 4 --seconds 5";
    let outcome = bench(&url, arguments).await;
    assert!(outcome.ok, "{}", outcome.json);
    assert_eq!(outcome.json["preloaded"], 2000);
    let stored = |queue| state.lock().unwrap().lane_sizes(queue).iter().sum::<usize>();
    assert_eq!((stored("q"), stored("q-calibrate")), (2000, 2000));
}

#[tokio::test]
async fn push_reports_its_rate_and_spreads_as_asked() {
    for (spread, dealt_out) in [("request", false), ("item", true)] {
        let (url, state) = fake::start(Fault::None).await;
        let arguments = format!(
            "push --queue q --batch 10 --partitions 4 --connections 2 --seconds 0.3 --warmup-seconds 0 --spread {spread}"
        );
        let outcome = bench(&url, &arguments).await;
        assert!(outcome.ok, "{}", outcome.json);
        assert_eq!(outcome.json["errors"], serde_json::json!({}));
        assert!(outcome.json["msgs_per_s"].as_f64().unwrap() > 0.0);
        assert!(outcome.json["latency_ms"]["p99.9"].as_f64().unwrap() > 0.0);
        assert!(outcome.json["fdatasync_ms"].as_f64().unwrap() > 0.0);
        let lanes = state.lock().unwrap().lane_sizes("q");
        assert_eq!(lanes.len(), 4);
        // Whole requests of ten in a lane, or single messages dealt out over all of them.
        let whole = lanes.iter().all(|size| size % 10 == 0);
        let even = lanes.iter().max().unwrap() - lanes.iter().min().unwrap() <= 4;
        assert!(if dealt_out { even } else { whole }, "{spread}: {lanes:?}");
    }
}

#[tokio::test]
async fn a_push_answered_with_200_is_an_error_unless_the_old_codes_are_allowed() {
    let (url, _) = fake::start(Fault::PushStatus200).await;
    let arguments = "push --connections 1 --seconds 0.2 --warmup-seconds 0";
    let strict = bench(&url, arguments).await;
    assert!(!strict.ok);
    assert!(strict.json["errors"]["http_200"].as_u64().unwrap() > 0);
    assert!(bench(&url, &format!("{arguments} --legacy-status")).await.ok);
}
