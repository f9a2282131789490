//! `bugle pop`.

use crate::support::On;
use crate::terminal::Terminal;

on_both_engines! {
    fn messages_are_leased_until_they_are_acknowledged(on: On) {
        let server = on.start();
        server.push("q", "a", &["1", "2"]);
        let popped = server.json(&["pop", "q", "-g", "g", "--subscribe", "all"]);
        assert_eq!((popped[0]["data"].clone(), popped[0]["partition"].clone()), (1.into(), "a".into()));
        assert!(popped[0]["leaseId"].is_string() && popped[0]["partitionId"].is_string(), "{popped}");
        // The partition is leased: nothing there for the same group, everything for another one.
        let complaint = server.bugle(&["pop", "q", "-g", "g"]).fails(6);
        assert!(complaint.contains("nothing there"), "{complaint}");
        assert_eq!(server.payloads("q", "other"), ["1", "2"]);
        assert!(server.payloads("q", "other").is_empty(), "--ack means done");
    }

    fn a_pop_that_waits_gets_what_is_pushed(on: On) {
        let server = on.start();
        server.push("q", "a", &["0"]);
        server.bugle(&["pop", "q", "--ack"]).ok();
        let waiting = server.command(&["pop", "q", "--wait", "60s", "--ack", "-o", "ndjson"]);
        let waiting = std::thread::spawn(move || crate::support::Ran::of(waiting, ""));
        // It waits, or comes later and finds it: both are right.
        server.push("q", "a", &["\"awaited\""]);
        let popped = waiting.join().unwrap().ok();
        assert!(popped.contains("\"data\":\"awaited\""), "{popped}");
    }
}

#[test]
fn an_empty_queue_has_its_own_exit_status() {
    let on = On::embedded();
    let server = on.start();
    let complaint = server.bugle(&["pop", "nowhere"]).fails(6);
    assert!(complaint.contains("nowhere: nothing there"), "{complaint}");
}

#[test]
fn colours_and_cuts_are_for_terminals_alone() {
    let on = On::embedded();
    let server = on.start();
    let payload = format!("\"{}\"", "x".repeat(300));
    server.push("q", "a", &[&payload, "\"\\u001b[31mred\""]);
    let plain = server.bugle(&["pop", "q", "-b", "2", "-g", "a", "--subscribe", "all"]).ok();
    assert!(plain.contains(&payload) && !plain.contains('\x1b'), "{plain}");
    let (status, shown) =
        Terminal::start(server.command(&["pop", "q", "-b", "2", "-g", "b", "--subscribe", "all"])).end();
    assert_eq!(status, 0);
    assert!(
        shown.contains("\x1b[1mPARTITION") && shown.contains('…') && !shown.contains(&payload),
        "{shown:?}"
    );
    assert!(!shown.contains("\x1b[31m"), "a payload must not reach the terminal as it is: {shown:?}");
    let mut command = server.command(&["pop", "q", "-b", "2", "-g", "c", "--subscribe", "all"]);
    command.env("NO_COLOR", "1");
    let (_, shown) = Terminal::start(command).end();
    assert!(shown.contains("PARTITION") && !shown.contains('\x1b'), "{shown:?}");
}
