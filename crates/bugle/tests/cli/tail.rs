//! `bugle tail`.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use crate::support::On;

on_both_engines! {
    fn what_is_pushed_is_followed_and_nothing_is_left_behind(on: On) {
        let server = on.start();
        server.push("q", "a", &["\"before\""]);
        let groups = server.bugle(&["groups", "-o", "json"]).ok();
        let mut tail = server
            .command(&["tail", "q", "-f", "--from", "10m", "--interval", "20ms", "-o", "ndjson"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(tail.stdout.take().unwrap()).lines();
        let mut next = || {
            let line = lines.next().unwrap().unwrap();
            serde_json::from_str::<serde_json::Value>(&line).unwrap()["data"].to_string()
        };
        assert_eq!(next(), "\"before\"");
        server.push("q", "a", &["1", "2"]);
        server.push("q", "b", &["3"]);
        assert_eq!([next(), next(), next()], ["1", "2", "3"]);
        // Killed: not even then is anything left.
        tail.kill().unwrap();
        tail.wait().unwrap();
        assert_eq!(server.bugle(&["groups", "-o", "json"]).ok(), groups);
        assert_eq!(server.payloads("q", "g").len(), 4, "nothing was consumed");
    }
}

#[test]
fn without_following_it_prints_what_is_there_and_ends() {
    let on = On::embedded();
    let server = on.start();
    server.push("q", "a", &["1", "2", "3"]);
    let shown = server.bugle(&["tail", "q"]).ok();
    let payloads: Vec<&str> = shown.lines().map(|line| line.rsplit_once("  ").unwrap().1).collect();
    assert_eq!(payloads, ["1", "2", "3"]);
    assert_eq!(server.bugle(&["tail", "q", "-n", "2"]).ok().lines().count(), 2);
    server.bugle(&["tail", "q", "--from", "2100-01-01T00:00:00Z"]).fails(6);
}
