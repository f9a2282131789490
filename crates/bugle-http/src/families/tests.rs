use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use super::*;
use crate::sample::{crowded, lonely, queue, reading};

const EDGE: EdgeReading = EdgeReading {
    connections: 131,
    shed: 132,
    limited: [133, 134, 135, 136],
    bodies: 137,
    exports: [141, 142, 143, 144, 145, 146],
};

fn lines(reading: &Reading) -> BTreeSet<String> {
    let process = Process {
        user: Duration::from_millis(1250),
        system: Duration::from_millis(500),
        resident_bytes: 4096,
        virtual_bytes: 8192,
    };
    let text = write(reading, &EDGE, Some(process), false);
    let lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let set: BTreeSet<String> = lines.iter().cloned().collect();
    assert_eq!(lines.len(), set.len(), "no line stands twice");
    set
}

#[track_caller]
fn has(lines: &BTreeSet<String>, wanted: &[&str]) {
    for line in wanted {
        assert!(lines.contains(*line), "no {line} in {lines:#?}");
    }
}

#[test]
fn every_number_of_a_server_is_written_in_its_place() {
    let lines = lines(&reading());
    has(
        &lines,
        &[
            concat!("bugle_build_info{version=\"", env!("CARGO_PKG_VERSION"), "\"} 1"),
            "bugle_uptime_seconds 2.5",
            "bugle_process_cpu_seconds_total{mode=\"user\"} 1.25",
            "bugle_process_cpu_seconds_total{mode=\"system\"} 0.5",
            "bugle_process_resident_memory_bytes 4096",
            "bugle_process_virtual_memory_bytes 8192",
            "bugle_requests_total{verb=\"push\"} 10",
            "bugle_messages_total{verb=\"pop\"} 21",
            "bugle_requests_refused_total{verb=\"ack\"} 32",
            "bugle_queued{verb=\"transaction\"} 43",
            "bugle_push_seconds_bucket{le=\"0.1\"} 10",
            "bugle_push_seconds_count 11",
            "bugle_ack_seconds_sum 30.5",
            "bugle_transaction_seconds_count 41",
            "bugle_acks_rejected_total 45",
            "bugle_dead_lettered_total 46",
            "bugle_redriven_total 47",
            "bugle_connections 131",
            "bugle_connections_shed_total 132",
            "bugle_requests_limited_total{limit=\"requests\"} 133",
            "bugle_requests_limited_total{limit=\"messages\"} 134",
            "bugle_requests_limited_total{limit=\"in_flight\"} 135",
            "bugle_requests_limited_total{limit=\"bodies\"} 136",
            "bugle_body_bytes 137",
            "bugle_telemetry_spans_total{outcome=\"dropped\"} 142",
            "bugle_telemetry_exports_total{signal=\"traces\",outcome=\"sent\"} 143",
            "bugle_telemetry_exports_total{signal=\"metrics\",outcome=\"failed\"} 146",
            "bugle_floor_interval_seconds 0.1",
            "bugle_floor_surveys_total 91",
            "bugle_floor_errors_total 92",
            "bugle_store_up 1",
            "bugle_store_calls_total 101",
            "bugle_store_errors_total 102",
            "bugle_store_timelines_total 106",
            "bugle_store_connections{state=\"in_use\"} 103",
            "bugle_store_connections{state=\"idle\"} 104",
            "bugle_store_connections{state=\"max\"} 105",
            "bugle_maintenance{of=\"push\"} 1",
            "bugle_maintenance{of=\"pop\"} 0",
            "bugle_spool_up 1",
            "bugle_spool_messages 121",
            "bugle_spool_bytes{state=\"used\"} 122",
            "bugle_spool_bytes{state=\"max\"} 123",
            "bugle_spool_moved_total{direction=\"in\"} 124",
            "bugle_spool_moved_total{direction=\"out\"} 125",
            "bugle_inbox_moved_total{result=\"stored\"} 141",
            "bugle_inbox_moved_total{result=\"duplicate\"} 142",
            "bugle_inbox_failures_total 143",
            "bugle_inbox_waiting 144",
            "bugle_inbox_oldest_seconds 1.45",
            "bugle_inbox_blocked_queues 146",
            "bugle_inbox_delay_seconds_bucket{le=\"0.1\"} 147",
            "bugle_inbox_delay_seconds_count 148",
            "bugle_inbox_delay_seconds_sum 149.5",
        ],
    );
}

#[test]
fn every_number_of_waiting_and_claiming_is_written_in_its_place() {
    let lines = lines(&reading());
    has(
        &lines,
        &[
            "bugle_waiters 51",
            "bugle_waiters_parked 52",
            "bugle_waiting_total{outcome=\"registered\"} 53",
            "bugle_waiting_total{outcome=\"served\"} 54",
            "bugle_waiting_total{outcome=\"expired\"} 55",
            "bugle_waiting_total{outcome=\"cancelled\"} 56",
            "bugle_waiting_keys{state=\"tracked\"} 57",
            "bugle_waiting_keys{state=\"in_flight\"} 58",
            "bugle_waiting_keys{state=\"backed_off\"} 59",
            "bugle_waiting_shards 60",
            "bugle_wakes_total{source=\"local\"} 61",
            "bugle_wakes_total{source=\"notify\"} 62",
            "bugle_wakes_total{source=\"udp\"} 63",
            "bugle_wakes_total{source=\"timer\"} 64",
            "bugle_wakes_total{source=\"floor\"} 65",
            "bugle_wait_mean_seconds 0.25",
            "bugle_wake_to_delivery_seconds_bucket{le=\"5.0\"} 3",
            "bugle_wake_to_delivery_seconds_bucket{le=\"+Inf\"} 4",
            "bugle_wake_to_delivery_seconds_sum 9.5",
            "bugle_wake_to_delivery_seconds_count 4",
            "bugle_claim_calls_total 4",
            "bugle_claim_pops_total 10",
            "bugle_claim_served_total 6",
            "bugle_claim_lanes_total 72",
            "bugle_claim_lost_total 73",
            "bugle_claim_cached_total 75",
            "bugle_claim_empty_total 74",
            "bugle_claim_served_per_call 1.5",
            "bugle_pending_checks_total{result=\"check\"} 81",
            "bugle_pending_checks_total{result=\"hit\"} 82",
            "bugle_pending_checks_total{result=\"miss\"} 83",
        ],
    );
}

#[test]
fn every_number_of_a_carrier_is_written_in_its_place() {
    has(
        &lines(&reading()),
        &[
            "bugle_hearing{state=\"connected\"} 0",
            "bugle_hearing{state=\"degraded\"} 1",
            "bugle_hearing_lapses_total 3",
            "bugle_carrier_up{carrier=\"notify\"} 1",
            "bugle_carrier_round_trip_seconds{carrier=\"notify\"} 0.0015",
            "bugle_carrier_peers{carrier=\"udp\",state=\"healthy\"} 1",
            "bugle_carrier_peers{carrier=\"udp\",state=\"silent\"} 1",
            "bugle_carrier_frames_total{carrier=\"udp\",direction=\"sent\"} 111",
            "bugle_carrier_frames_total{carrier=\"udp\",direction=\"received\"} 112",
            "bugle_carrier_send_failures_total{carrier=\"udp\"} 113",
            "bugle_carrier_dropped_total{carrier=\"udp\",reason=\"forged\"} 1",
            "bugle_carrier_dropped_total{carrier=\"udp\",reason=\"own\"} 5",
            "bugle_carrier_gaps_total{carrier=\"notify\"} 114",
            "bugle_carrier_reconnects_total{carrier=\"notify\"} 115",
        ],
    );
    let lonely = lines(&lonely());
    has(&lonely, &["bugle_hearing{state=\"none\"} 1", "bugle_hearing{state=\"isolated\"} 0"]);
    assert!(!lonely.iter().any(|line| line.contains("carrier=")));
}

#[test]
fn queues_have_series_whatever_their_names() {
    has(
        &lines(&reading()),
        &[
            "bugle_queue_pushed_total{queue=\"orders\"} 200",
            "bugle_queue_popped_total{queue=\"orders\"} 201",
            "bugle_queue_acked_total{queue=\"orders\"} 202",
            "bugle_queue_waiting{queue=\"orders\"} 203",
            "bugle_queue_unread_overdue{queue=\"orders\"} 204",
            "bugle_queue_pushed_total{queue=\"a\\\"b\\\\c\\nd\"} 100",
        ],
    );
}

#[test]
fn queues_beyond_the_cap_are_summed_and_one_named_like_the_sum_is_in_it() {
    let mut reading = crowded(1002);
    reading.queues.insert(0, queue("other", 5000));
    let lines = lines(&reading);
    // The two least busy ones have pushed 2 and 1.
    has(
        &lines,
        &[
            "bugle_queue_pushed_total{queue=\"other\"} 5003",
            "bugle_queue_popped_total{queue=\"other\"} 5006",
            "bugle_queue_acked_total{queue=\"other\"} 5009",
            "bugle_queue_waiting{queue=\"other\"} 5012",
            "bugle_queue_unread_overdue{queue=\"other\"} 5015",
            "bugle_queue_pushed_total{queue=\"queue-999\"} 3",
        ],
    );
    assert_eq!(lines.iter().filter(|line| line.starts_with("bugle_queue_pushed_total{")).count(), 1001);
}

#[test]
fn a_server_with_20_000_queues_is_written_in_a_few_milliseconds() {
    let reading = crowded(20_000);
    let took = |_| {
        let begun = Instant::now();
        let text = write(&reading, &EDGE, None, false);
        assert!(text.len() < 500_000, "{}", text.len());
        begun.elapsed()
    };
    // The best of several: others may hold the processor. Unoptimised code may take some times longer.
    let best = (0..10).map(took).min().unwrap();
    assert!(best < Duration::from_millis(if cfg!(debug_assertions) { 50 } else { 5 }), "{best:?}");
}

#[test]
fn answers_that_were_errors_are_counted_by_status() {
    use axum::response::IntoResponse;

    let count = |status: &str| {
        let start = format!("bugle_http_errors_total{{status=\"{status}\"}} ");
        let line = lines(&reading()).into_iter().find_map(|line| Some(line.strip_prefix(&start)?.to_owned()));
        line.unwrap().parse::<u64>().unwrap()
    };
    // The counts are of the process, which other tests share when they are threads of it.
    let (large, teapot) = (count("413"), count("other"));
    for status in [http::StatusCode::PAYLOAD_TOO_LARGE, http::StatusCode::IM_A_TEAPOT] {
        let _ = crate::error::Failure::new(status, "x").into_response();
    }
    assert!(count("413") > large && count("other") > teapot);
}
