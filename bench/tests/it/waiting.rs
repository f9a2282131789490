//! The waiting commands against a server that keeps its promises, and against one that loses or doubles a message.

use bugle_bench::{Cli, Outcome, run};
use clap::Parser;

use crate::fake::{self, Fault};

async fn bench(url: &str, arguments: &str) -> anyhow::Result<Outcome> {
    let (command, rest) = arguments.split_once(' ').unwrap();
    let words = ["bugle-bench", command, "--url", url].into_iter().chain(rest.split(' '));
    run(Cli::try_parse_from(words).expect("arguments")).await
}

/// Sends 100 messages to 8 waiters on a server with a fault.
async fn wake(fault: Fault, more: &str) -> Outcome {
    let (url, _) = fake::start(fault).await;
    let directory = std::env::temp_dir();
    // Only what never comes is waited for to the end.
    let never = matches!(fault, Fault::Lose | Fault::Corrupt | Fault::WrongId | Fault::WrongLane);
    let drain = if never || more.contains("--pop-url") { 1 } else { 30 };
    let arguments = format!(
        "wake --waiters 8 --rate 500 --seconds 0.15 --warmup-seconds 0.05 --settle-seconds 0 --linger-seconds 0.1 \
         --partitions 4 --drain-seconds {drain} --fsync-dir {}{more}",
        directory.display()
    );
    bench(&url, &arguments).await.expect("run")
}

/// Asserts deliveries, missing, doubled and corrupt messages of a report.
fn assert_verdict(outcome: &Outcome, expected: [u64; 4]) {
    let keys = ["deliveries", "missing", "doubled", "corrupt"];
    let found = keys.map(|key| outcome.json[key].as_u64().unwrap());
    assert_eq!(found, expected, "{keys:?} of {}", outcome.json);
    assert_eq!(outcome.ok, expected[1..] == [0, 0, 0], "{}", outcome.json);
}

#[tokio::test]
async fn an_honest_server_delivers_everything_once_to_each_group() {
    for (more, deliveries) in [
        ("", 100),
        (" --groups 0", 100),
        (" --groups 2", 200),
        (" --auto-ack false", 100),
        (" --queues 2 --groups 2 --auto-ack false", 200),
        (" --other-waiters 20 --other-queues 3", 100),
        (" --h2", 100),
        (" --h2 --streams-per-connection 2 --groups 2 --auto-ack false --other-waiters 5", 200),
    ] {
        let outcome = wake(Fault::None, more).await;
        assert_verdict(&outcome, [deliveries, 0, 0, 0]);
        assert_eq!(outcome.json["errors"], serde_json::json!({}), "{more}");
        assert_eq!(outcome.json["measured_deliveries"], deliveries * 3 / 4, "{more}");
        for kind in ["scheduled_push_start_to_delivery_ms", "scheduled_push_start_to_answer_ms"] {
            assert!(outcome.json[kind]["p50"].as_f64().unwrap() > 0.0, "{kind} of {}", outcome.json);
        }
        assert!(outcome.json["push_answer_to_delivery_ms"]["p99.9"].is_f64(), "{}", outcome.json);
    }
}

#[tokio::test]
async fn a_lost_message_is_missing() {
    for more in ["", " --auto-ack false"] {
        let outcome = wake(Fault::Lose, more).await;
        assert_verdict(&outcome, [99, 1, 0, 0]);
        assert_eq!(outcome.json["errors"], serde_json::json!({"message missing": 1}));
    }
}

#[tokio::test]
async fn a_message_stored_twice_is_doubled() {
    for more in ["", " --auto-ack false"] {
        let outcome = wake(Fault::StoreTwice, more).await;
        assert_verdict(&outcome, [100, 0, 1, 0]);
        assert_eq!(outcome.json["errors"], serde_json::json!({"message doubled": 1}));
    }
}

#[tokio::test]
async fn a_message_redelivered_after_a_failed_ack_is_not_doubled() {
    let outcome = wake(Fault::FailAck, " --auto-ack false").await;
    assert_verdict(&outcome, [100, 0, 0, 0]);
    assert!(outcome.json["redelivered"].as_u64().unwrap() > 0, "{}", outcome.json);
    assert_eq!(outcome.json["errors"], serde_json::json!({"ack: http_503": 1}));
}

#[tokio::test]
async fn damaged_and_misrouted_messages_are_corrupt() {
    for fault in [Fault::Corrupt, Fault::WrongId, Fault::WrongLane] {
        let outcome = wake(fault, "").await;
        assert_verdict(&outcome, [99, 1, 0, 1]);
    }
}

#[tokio::test]
async fn waiters_may_wait_elsewhere_than_messages_are_pushed() {
    let (elsewhere, _) = fake::start(Fault::None).await;
    // Two servers that know nothing of each other: whoever waits at the wrong one gets nothing.
    let outcome = wake(Fault::None, &format!(" --pop-url {elsewhere}")).await;
    assert_verdict(&outcome, [0, 100, 0, 0]);
}

#[tokio::test]
async fn idle_keeps_all_waiters_waiting_and_sees_them_forgotten() {
    idle("", serde_json::Value::Null).await;
}

#[tokio::test]
async fn idle_over_http2_opens_as_many_connections_as_the_servers_stream_limit_needs() {
    idle(" --h2", fake::MAX_STREAMS.into()).await;
}

async fn idle(more: &str, streams: serde_json::Value) {
    let (url, state) = fake::start(Fault::None).await;
    let arguments = "idle --waiters 40 --keys 10 --queues 5 --seconds 0.4 --settle-seconds 0 \
                     --repoll-seconds 0.2 --depart";
    let outcome = bench(&url, &format!("{arguments}{more}")).await.expect("run");
    assert!(outcome.ok, "{}", outcome.json);
    assert_eq!(outcome.json["streams_per_connection"], streams);
    assert_eq!(state.lock().unwrap().most_waiting(), 40);
    assert_eq!(outcome.json["errors"], serde_json::json!({}));
    // 40 waiters that ask every 0.2 s: 200 per second, less what a busy machine costs.
    let rate = outcome.json["repolls_per_s"].as_f64().unwrap();
    assert!(rate > 50.0 && rate < 260.0, "{}", outcome.json);
    assert!(outcome.json["departure"]["server_has_no_waiters_after_ms"].is_f64(), "{}", outcome.json);
}

#[tokio::test]
async fn more_waiters_than_descriptors_are_refused_without_http2() {
    let (url, _) = fake::start(Fault::None).await;
    let error = bench(&url, "idle --waiters 15001 --keys 10").await.unwrap_err();
    assert!(error.to_string().contains("--h2"), "{error}");
}

#[tokio::test]
async fn a_server_without_http2_is_named_as_such() {
    let (url, _) = fake::start(Fault::NoHttp2).await;
    let error = bench(&url, "idle --waiters 10 --keys 10 --h2").await.unwrap_err();
    assert!(error.to_string().contains("does not answer over HTTP/2"), "{error}");
}
