//! `bugle queue`.

use crate::support::On;
use crate::terminal::Terminal;

on_both_engines! {
    fn a_queue_is_configured_described_cleared_and_deleted(on: On) {
        let server = on.start();
        let told = server.json(&["queue", "configure", "q", "leaseTime=7", "enforce=ttl,priority", "--namespace", "n"]);
        assert_eq!((told["options"]["leaseTime"].as_u64(), told["namespace"].as_str()), (Some(7), Some("n")));
        let shown = server.bugle(&["queue", "configure", "q", "retry-limit=9"]).ok();
        let has = |name: &str, value: &str| shown.lines().any(|l| l.split_whitespace().eq([name, value]));
        assert!(has("leaseTime", "7") && has("retryLimit", "9"), "what is not named stays: {shown}");
        server.push("q", "a", &["1", "2"]);
        server.push("q", "b", &["3"]);
        let described = server.bugle(&["queue", "describe", "q"]).ok();
        assert!(described.lines().any(|l| l.split_whitespace().eq(["messages", "3"])), "{described}");
        assert!(described.lines().any(|l| l.starts_with("b ")), "{described}");
        let cleared = server.bugle(&["queue", "clear", "q", "-p", "a", "--yes"]).ok();
        assert_eq!(cleared, "2 messages of 1 partitions removed\n");
        assert_eq!(server.payloads("q", "g"), ["3"]);
        assert_eq!(server.bugle(&["queue", "delete", "q", "--yes"]).ok(), "q deleted\n");
        server.bugle(&["queue", "describe", "q"]).fails(3);
        server.bugle(&["queue", "delete", "q", "--yes"]).fails(3);
    }
}

#[test]
fn every_option_that_is_printed_can_be_set() {
    let on = On::embedded();
    let server = on.start();
    let told = server.json(&["queue", "configure", "q", "enforce=ttl,priority", "retentionSinkHold=later"]);
    let options = told["options"].as_object().unwrap();
    assert!(options.len() > 15 && options["retentionSinkHold"] == "later", "{options:?}");
    let spelled = |value: &serde_json::Value| match value {
        serde_json::Value::Array(parts) => {
            parts.iter().filter_map(|part| part.as_str()).collect::<Vec<_>>().join(",")
        }
        serde_json::Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let all: Vec<String> = options.iter().map(|(name, value)| format!("{name}={}", spelled(value))).collect();
    let mut words = vec!["queue", "configure", "q"];
    words.extend(all.iter().map(String::as_str));
    assert_eq!(server.json(&words)["options"], told["options"]);
}

#[test]
fn what_makes_no_sense_changes_nothing() {
    let on = On::embedded();
    let server = on.start();
    let complaint = server.bugle(&["queue", "configure", "q", "leaseTim=7"]).fails(2);
    assert!(complaint.contains("leaseTim"), "{complaint}");
    server.push("q", "a", &["1"]);
    let complaint = server.bugle(&["queue", "delete", "q"]).fails(2);
    assert!(complaint.contains("--yes"), "{complaint}");
    assert_eq!(server.payloads("q", "g"), ["1"]);
}

#[test]
fn a_deletion_is_confirmed_by_typing_the_name() {
    let on = On::embedded();
    let server = on.start();
    server.push("q", "a", &["1"]);
    let mut terminal = Terminal::start(server.command(&["queue", "delete", "q"]));
    terminal.until_shown("Type q to go on: ");
    terminal.type_text("yes\n");
    let (status, shown) = terminal.end();
    assert!(status == 1 && shown.contains("nothing was changed"), "{status} {shown}");
    let mut terminal = Terminal::start(server.command(&["queue", "delete", "q"]));
    terminal.until_shown("delete queue q with 1 messages");
    terminal.type_text("q\n");
    let (status, shown) = terminal.end();
    assert!(status == 0 && shown.contains("q deleted"), "{status} {shown}");
    server.bugle(&["queue", "describe", "q"]).fails(3);
}
