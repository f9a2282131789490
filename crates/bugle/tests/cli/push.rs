//! `bugle push`.

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::support::{On, until};
use crate::terminal::Terminal;

on_both_engines! {
    fn an_argument_a_file_and_standard_input_are_pushed(on: On) {
        let server = on.start();
        assert_eq!(server.bugle(&["push", "q", r#"{"n": 1.0}"#]).ok(), "1 queued\n");
        std::fs::write(server.dir().join("lines"), "2\n\n\"three\"").unwrap();
        assert_eq!(server.bugle(&["push", "q", "--file", "lines"]).ok(), "2 queued\n");
        assert_eq!(server.bugle_with(&["push", "q"], "[4]\r\n").ok(), "1 queued\n");
        let popped = server.bugle(&["pop", "q", "-b", "9", "--ack", "-o", "ndjson"]).ok();
        let data: Vec<&str> = popped.lines().map(|line| line.split_once("\"data\":").unwrap().1).collect();
        assert_eq!(data, [r#"{"n": 1.0}}"#, "2}", "\"three\"}", "[4]}"], "byte for byte and in order");
    }

    fn a_file_pushed_twice_is_stored_once(on: On) {
        let server = on.start();
        let push = || server.bugle_with(&["push", "q", "-t", "load-7", "-o", "json"], "1\n2\n3\n").ok();
        let counts = |text: String| serde_json::from_str::<Value>(&text).unwrap();
        assert_eq!(counts(push()), json!({"queued": 3, "duplicate": 0, "buffered": 0, "failed": 0, "bad": 0}));
        assert_eq!(counts(push())["duplicate"], 3);
        assert_eq!(server.payloads("q", "g"), ["1", "2", "3"]);
    }

    fn every_message_belongs_to_the_trace_that_was_named(on: On) {
        let server = on.start();
        let context = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        server.bugle(&["push", "q", "1", "--traceparent", context]).ok();
        server.bugle_with(&["push", "q", "--traceparent", context], "2\n3\n").ok();
        server.bugle(&["push", "q", "4"]).ok();
        let popped = server.json(&["pop", "q", "-b", "9"]);
        let contexts: Vec<&Value> = popped.as_array().unwrap().iter().map(|message| &message["traceparent"]).collect();
        assert_eq!(contexts, [&json!(context), &json!(context), &json!(context), &Value::Null], "{popped}");
        let complaint = server.bugle(&["push", "other", "5", "--traceparent", "00-nonsense-01"]).fails(4);
        assert!(complaint.contains("traceparent must be a W3C traceparent"), "{complaint}");
        server.bugle(&["pop", "other"]).fails(6);
    }

    fn more_than_memory_should_hold_at_once_is_pushed_in_order(on: On) {
        let server = on.start();
        let mut lines = String::new();
        for n in 0..3000 {
            writeln!(lines, "{{\"n\":{n},\"fill\":\"{}\"}}", "x".repeat(200)).unwrap();
        }
        let ran = server.bugle_with(&["push", "q", "-p", "p", "--batch", "100"], &lines);
        assert_eq!(ran.ok(), "3000 queued\n");
        let listed = server.bugle(&["pop", "q", "-b", "3000", "-o", "ndjson"]).ok();
        let numbers = listed.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let numbers: Vec<u64> = numbers.map(|message| message["data"]["n"].as_u64().unwrap()).collect();
        assert!(!numbers.is_empty() && numbers.iter().copied().eq(0..numbers.len() as u64));
    }
}

#[test]
fn a_line_that_is_no_json_is_named_and_what_came_before_it_is_kept() {
    let on = On::embedded();
    let server = on.start();
    let ran = server.bugle_with(&["push", "q"], "1\n2\n{no}\n4\n");
    assert_eq!(ran.out, "2 queued\n");
    let complaint = ran.fails(1);
    assert!(complaint.contains("line 3") && complaint.contains("--skip-bad"), "{complaint}");
    let ran = server.bugle_with(&["push", "q", "--skip-bad"], "3\n{no}\n4\n");
    assert_eq!(ran.ok(), "2 queued, 1 no JSON\n");
    assert_eq!(server.payloads("q", "g"), ["1", "2", "3", "4"]);
    let complaint = server.bugle(&["push", "q", "hello"]).fails(2);
    assert!(complaint.contains("PAYLOAD is no JSON") && complaint.contains("quotes"), "{complaint}");
}

#[test]
fn memory_does_not_grow_with_the_input() {
    let on = On::embedded();
    let server = on.start();
    let mut child =
        server.command(&["push", "q"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut input, line) = (child.stdin.take().unwrap(), format!("\"{}\"\n", "x".repeat(8000)));
    let lines = 12_000;
    for _ in 0..lines {
        input.write_all(line.as_bytes()).unwrap();
    }
    // It is still there, waiting for more, when all of that is stored.
    let stored = || server.json(&["queues"])["queues"][0]["messages"]["total"].as_u64();
    until("everything is stored", || stored() == Some(lines));
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let most = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let most: u64 = most.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(most < 64 << 10, "{most} KiB for 96 MB");
    drop(input);
    assert_eq!(child.wait_with_output().unwrap().stdout, b"12000 queued\n");
}

#[test]
fn progress_is_drawn_on_a_terminal_alone() {
    let on = On::embedded();
    let server = on.start();
    let lines: String = (0..2000).map(|n| format!("{n}\n")).collect();
    std::fs::write(server.dir().join("lines"), lines).unwrap();
    let push = ["push", "q", "-f", "lines", "--batch", "10"];
    let (status, shown) = Terminal::start(server.command(&push)).end();
    assert_eq!(status, 0, "{shown}");
    assert!(
        shown.contains("pushing  [") && shown.contains(" %  ") && shown.contains("2000 queued"),
        "{shown:?}"
    );
    let ran = server.bugle(&push);
    assert_eq!((ran.err.as_str(), ran.out.as_str()), ("", "2000 queued\n"));
}
