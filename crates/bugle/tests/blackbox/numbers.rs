//! Every number a server tells moves when the thing happens that it counts.

use std::collections::{BTreeMap, HashSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};

use crate::common::{Client, PATIENCE, Server, command, ids};
use crate::waking::NO_FLOOR;

/// All series of a page by name and labels.
type Series = BTreeMap<String, f64>;

/// Reads a page by the letter of the text format; anything unexpected is a failure.
fn parse(page: &str) -> Series {
    assert!(page.ends_with('\n'), "the last line ends too");
    let mut series = Series::new();
    let (mut helped, mut typed) = (HashSet::new(), HashSet::new());
    let mut family = ("", "");
    for line in page.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').expect(line);
            assert!(helped.insert(name) && !help.is_empty(), "{line}");
            family = (name, "");
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').expect(line);
            assert!(typed.insert(name) && family == (name, ""), "TYPE follows HELP, once: {line}");
            assert!(matches!(kind, "counter" | "gauge" | "histogram"), "{line}");
            assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
            family = (name, kind);
        } else {
            let (name, value) = sample(line);
            let suffix = name.split('{').next().unwrap().strip_prefix(family.0).expect(line);
            let suffixes: &[_] = if family.1 == "histogram" { &["_bucket", "_sum", "_count"] } else { &[""] };
            assert!(suffixes.contains(&suffix), "in another family: {line}");
            assert!(series.insert(name.to_owned(), value).is_none(), "twice: {line}");
        }
    }
    assert_eq!(helped, typed);
    series
}

/// `name{label="value",…} number`.
fn sample(line: &str) -> (&str, f64) {
    let (series, value) = line.rsplit_once(' ').expect(line);
    let word = |text: &str| {
        !text.is_empty()
            && !text.starts_with(|c: char| c.is_ascii_digit())
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
    };
    let (name, labels) = match series.split_once('{') {
        None => (series, None),
        Some((name, rest)) => (name, Some(rest.strip_suffix('}').expect(line))),
    };
    assert!(word(name) && name.starts_with("bugle_"), "{line}");
    let mut rest = labels.unwrap_or_default();
    assert_ne!(labels, Some(""), "{line}");
    while !rest.is_empty() {
        let (label, text) = rest.split_once("=\"").expect(line);
        assert!(word(label), "{line}");
        let mut escaped = false;
        let end = text.bytes().position(|b| {
            assert!(!escaped || matches!(b, b'\\' | b'"' | b'n'), "unknown escape: {line}");
            let ends = b == b'"' && !escaped;
            escaped = b == b'\\' && !escaped;
            ends
        });
        rest = &text[end.expect(line) + 1..];
        assert!(rest.is_empty() || (rest.starts_with(',') && rest.len() > 1), "{line}");
        rest = rest.strip_prefix(',').unwrap_or(rest);
    }
    (series, value.parse().expect(line))
}

async fn numbers(client: &Client) -> Series {
    let answer = client.get("/metrics/prometheus").await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.headers["content-type"], "text/plain; version=0.0.4; charset=utf-8");
    assert_eq!(answer.headers["cache-control"], "no-cache");
    parse(std::str::from_utf8(&answer.body).unwrap())
}

/// One number; absent series count as 0, since queues appear with their first traffic.
fn number(series: &Series, name: &str) -> f64 {
    series.get(name).copied().unwrap_or(0.0)
}

/// Wait until the numbers are as wanted. The server has no event for it, so they are read again until they fit.
async fn until(client: &Client, what: &str, fits: impl Fn(&Series) -> bool) -> Series {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let series = numbers(client).await;
        if fits(&series) {
            return series;
        }
        assert!(Instant::now() < deadline, "never {what}: {series:#?}");
        sleep(Duration::from_millis(5)).await;
    }
}

/// How far each named number moved.
#[track_caller]
fn moved(before: &Series, after: &Series, wanted: &[(&str, f64)]) {
    for (name, by) in wanted {
        assert!(after.contains_key(*name), "no {name} in {after:#?}");
        assert_eq!(number(after, name) - number(before, name), *by, "{name}");
    }
}

#[track_caller]
fn grew(before: &Series, after: &Series, names: &[&str]) {
    for name in names {
        assert!(number(after, name) > number(before, name), "{name}: {before:#?} {after:#?}");
    }
}

/// The head and the body of an answer to a client that accepts this.
fn accepting(address: &str, accept: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let head =
        format!("GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\naccept: {accept}\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").expect("an answer");
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    (head.to_ascii_lowercase(), body.to_owned())
}

/// A server of this test alone; killed when dropped.
struct Own(Child);

impl Drop for Own {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn metrics_are_text_for_those_who_prefer_it_and_json_for_all_others() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = command(dir.path());
    command.args(["serve", "--listen=127.0.0.1:0", "--log-level=warn"]).stdout(Stdio::piped());
    let mut server = Own(command.spawn().unwrap());
    let mut lines = BufReader::new(server.0.stdout.take().unwrap());
    let mut greeting = String::new();
    lines.read_line(&mut greeting).unwrap();
    let address = greeting.trim().strip_prefix("Bugle is ready at http://").expect("a greeting");

    for accept in ["*/*", "image/png, application/x-unheard-of", "application/json, text/plain, */*"] {
        let (head, body) = accepting(address, accept);
        assert!(head.contains("content-type: application/json"), "{accept}: {head}");
        serde_json::from_str::<Value>(&body).expect(accept);
    }
    let (head, body) = accepting(address, "text/plain, */*;q=0.1");
    assert!(head.contains("content-type: text/plain; version=0.0.4; charset=utf-8"), "{head}");
    assert_eq!(number(&parse(&body), "bugle_store_up"), 1.0);
    let (head, body) = accepting(address, "application/openmetrics-text;version=1.0.0,text/plain;q=0.5");
    assert!(
        head.contains("content-type: application/openmetrics-text; version=1.0.0; charset=utf-8"),
        "{head}"
    );
    assert!(body.contains("# TYPE bugle_requests counter\n") && body.ends_with("\n# EOF\n"), "{body}");
}

fn waiting_pop(server: &Server, rest: &'static str) -> tokio::task::JoinHandle<Option<Value>> {
    let client = server.client();
    tokio::spawn(async move { client.pop(rest).await })
}

on_every_engine! {
    async fn pushes_pops_acks_and_transactions_are_counted_with_their_messages(on: On) {
        let server = on.start().await;
        let before = numbers(&server).await;
        server.push_ids("q", "p", &["a", "b", "c"]).await;
        server.push_ids("other", "p", &["x"]).await;
        let popped = server.pop_some("/queue/q?batch=10").await;
        server.ack_all(&popped, "completed").await;
        assert_eq!(server.pop("/queue/q").await, None);
        let body = json!({"operations": [{"type": "push", "items": [{"queue": "q", "payload": 1}, {"queue": "q", "payload": 2}]}]});
        assert_eq!(server.post("/api/v1/transaction", body).await.expect(200)["success"], true);
        let bad = json!({"items": [{"queue": "q", "payload": 1, "traceId": "no uuid"}]});
        assert_eq!(server.post("/api/v1/push", bad).await.status, 400, "refused before it is counted");
        let after = numbers(&server).await;
        moved(&before, &after, &[
            ("bugle_requests_total{verb=\"push\"}", 2.0),
            ("bugle_messages_total{verb=\"push\"}", 4.0),
            ("bugle_requests_total{verb=\"pop\"}", 2.0),
            ("bugle_messages_total{verb=\"pop\"}", 3.0),
            ("bugle_requests_total{verb=\"ack\"}", 1.0),
            ("bugle_messages_total{verb=\"ack\"}", 3.0),
            ("bugle_requests_total{verb=\"transaction\"}", 1.0),
            ("bugle_messages_total{verb=\"transaction\"}", 2.0),
            ("bugle_requests_refused_total{verb=\"push\"}", 0.0),
            ("bugle_queue_pushed_total{queue=\"q\"}", 5.0),
            ("bugle_queue_popped_total{queue=\"q\"}", 3.0),
            ("bugle_queue_acked_total{queue=\"q\"}", 3.0),
            ("bugle_queue_pushed_total{queue=\"other\"}", 1.0),
            ("bugle_queue_unread_overdue{queue=\"q\"}", 0.0),
        ]);
        grew(&before, &after, &["bugle_uptime_seconds", "bugle_store_calls_total", "bugle_claim_calls_total",
            "bugle_claim_pops_total", "bugle_claim_lanes_total"]);
        assert_eq!((number(&after, "bugle_store_up"), number(&after, "bugle_store_errors_total")), (1.0, 0.0));
        assert!(number(&after, "bugle_process_resident_memory_bytes") > 1e6);
        assert!(number(&after, "bugle_floor_interval_seconds") > 0.0);
    }

    async fn waiting_pops_are_counted_by_what_becomes_of_them(on: On) {
        let server = on.start_with(&NO_FLOOR).await;
        let before = numbers(&server).await;
        // The group and the queue are known from here on, so that nothing but the waiting is counted below.
        server.push_ids("q", "p", &["first"]).await;
        server.pop_some("/queue/q?autoAck=true").await;

        assert_eq!(server.pop("/queue/q?wait=true&timeout=500").await, None, "expires");
        let leaver = waiting_pop(&server, "/queue/q?wait=true&timeout=60000");
        until(&server, "parked", |s| number(s, "bugle_waiters_parked") == 1.0).await;
        leaver.abort();
        until(&server, "gone", |s| number(s, "bugle_waiters") == 0.0).await;
        let waiter = waiting_pop(&server, "/queue/q?wait=true&timeout=60000&autoAck=true");
        let parked = until(&server, "parked", |s| number(s, "bugle_waiters_parked") == 1.0).await;
        moved(&before, &parked, &[
            ("bugle_waiters", 1.0),
            ("bugle_waiting_keys{state=\"tracked\"}", 1.0),
            ("bugle_queue_waiting{queue=\"q\"}", 1.0),
        ]);
        server.push_ids("q", "p", &["t"]).await;
        let popped = timeout(PATIENCE, waiter).await.expect("woken").unwrap().expect("a message");
        assert_eq!(ids(&popped), ["t"]);
        let after = until(&server, "nobody here", |s| number(s, "bugle_waiters") == 0.0).await;
        moved(&before, &after, &[
            ("bugle_waiting_total{outcome=\"registered\"}", 3.0),
            ("bugle_waiting_total{outcome=\"served\"}", 1.0),
            ("bugle_waiting_total{outcome=\"expired\"}", 1.0),
            ("bugle_waiting_total{outcome=\"cancelled\"}", 1.0),
            ("bugle_waiters_parked", 0.0),
            ("bugle_waiting_keys{state=\"tracked\"}", 0.0),
            ("bugle_queue_waiting{queue=\"q\"}", 0.0),
            ("bugle_wake_to_delivery_seconds_count", 1.0),
            ("bugle_wake_to_delivery_seconds_bucket{le=\"+Inf\"}", 1.0),
        ]);
        grew(&before, &after, &["bugle_wakes_total{source=\"local\"}", "bugle_wait_mean_seconds",
            "bugle_claim_calls_total", "bugle_claim_served_total", "bugle_claim_served_per_call",
            "bugle_wake_to_delivery_seconds_sum"]);
    }

    async fn a_wake_by_a_timer_is_counted_as_one(on: On) {
        let server = on.start().await;
        server.configure(json!({"queue": "q", "options": {"delayedProcessing": 1}})).await;
        let waiter = waiting_pop(&server, "/queue/q?wait=true&timeout=60000&autoAck=true");
        let before = until(&server, "parked", |s| number(s, "bugle_waiters_parked") == 1.0).await;
        server.push_ids("q", "p", &["t"]).await;
        timeout(PATIENCE, waiter).await.expect("woken").unwrap().expect("a message");
        grew(&before, &numbers(&server).await, &["bugle_wakes_total{source=\"timer\"}"]);
    }

    async fn queues_have_series_whatever_their_names_until_they_are_deleted(on: On) {
        let server = on.start().await;
        server.push_ids("a \"b\"\\c\nd,e}", "p", &["t"]).await;
        let name = "bugle_queue_pushed_total{queue=\"a \\\"b\\\"\\\\c\\nd,e}\"}";
        assert_eq!(numbers(&server).await.get(name), Some(&1.0));
        server.send("DELETE", "/api/v1/resources/queues/a%20%22b%22%5Cc%0Ad%2Ce%7D", "").await.expect(200);
        assert_eq!(numbers(&server).await.get(name), None);
    }

    async fn the_json_of_metrics_moves_with_the_traffic(on: On) {
        let server = on.start().await;
        server.push_ids("q", "p", &["a", "b"]).await;
        server.pop_some("/queue/q?batch=2").await;
        let answer = server.get("/metrics").await;
        assert_eq!(answer.headers["content-type"], "application/json");
        let body = answer.expect(200);
        assert_eq!((&body["requests"]["total"], &body["messages"]["total"]), (&json!(2), &json!(4)));
        assert!(body["uptime"].as_f64().unwrap() > 0.0 && body["requests"]["rate"].as_f64().unwrap() > 0.0);
        assert!(body["memory"]["rss"].as_u64().unwrap() > 1_000_000);
        assert!(body["cpu"]["user"].is_u64() && body["cpu"]["system"].is_u64());
        for field in ["poolSize", "idleConnections", "waitingRequests"] {
            assert!(body["database"][field].is_u64(), "{field}");
        }
    }

    async fn the_shared_state_and_health_tell_of_waiters_and_carriers(on: On) {
        let server = on.start_with(&NO_FLOOR).await;
        let waiter = waiting_pop(&server, "/queue/q?wait=true&timeout=60000&autoAck=true");
        until(&server, "parked", |s| number(s, "bugle_waiters_parked") == 1.0).await;
        let state = server.get("/api/v1/system/shared-state").await.expect(200);
        assert_eq!(state["group_backoff"]["groups_tracked"], 1);
        assert_eq!((&state["waiters"]["waiting"], &state["waiters"]["parked"]), (&json!(1), &json!(1)));
        server.push_ids("q", "p", &["t"]).await;
        timeout(PATIENCE, waiter).await.expect("woken").unwrap().expect("a message");
        let state = server.get("/api/v1/system/shared-state").await.expect(200);
        assert_eq!(state["waiters"]["served"], 1);
        assert!(state["wakes"]["local"].as_u64().unwrap() >= 1, "{state}");
        assert!(state["pop_batch_size"].as_f64().unwrap() >= 1.0, "{state}");
        assert!(state["pop_batch_count"].as_u64().unwrap() >= 1, "{state}");
        assert!(state["mean_wait_ms"].as_f64().unwrap() > 0.0, "{state}");
        let health = server.get("/health").await.expect(200);
        let carriers = health["carriers"].as_array().unwrap();
        assert_eq!(health["hearing"] == "none", carriers.is_empty(), "{health}");
        assert_eq!(state["enabled"], !carriers.is_empty());
        let series = numbers(&server).await;
        let hearings = ["connected", "degraded", "isolated", "none"];
        let sum: f64 = hearings.map(|state| series[&format!("bugle_hearing{{state=\"{state}\"}}")]).iter().sum();
        assert_eq!(sum, 1.0, "one of them is the present one");
    }
}
