//! `bugle top`.

use rustix::process::Signal;

use crate::support::On;
use crate::terminal::Terminal;

on_both_engines! {
    fn one_frame_tells_rates_lag_and_waiters(on: On) {
        let server = on.start();
        server.push("orders", "a", &["1", "2", "3"]);
        server.bugle(&["pop", "orders", "-g", "g", "--subscribe", "all", "--ack"]).ok();
        let frame = server.bugle(&["top", "--once", "--interval", "100ms"]).ok();
        for part in ["store up", "push ", "waiters 0", "QUEUE", "p99 wake"] {
            assert!(frame.contains(part), "{part} in {frame}");
        }
        let row: Vec<&str> = frame.lines().find(|l| l.starts_with("orders")).unwrap().split_whitespace().collect();
        assert_eq!(row[5], "2", "lag: {frame}");
        assert!(frame.lines().all(|line| line.chars().count() <= 80), "{frame}");
    }
}

#[test]
fn the_screen_is_live_and_given_back() {
    let on = On::embedded();
    let server = on.start();
    let mut terminal = Terminal::start(server.command(&["top", "--interval", "50ms"]));
    terminal.until_shown("\x1b[?1049h");
    server.push("came-later", "a", &["1"]);
    terminal.until_shown("came-later");
    terminal.type_text("q");
    let (status, shown) = terminal.end();
    assert_eq!(status, 0, "{shown:?}");
    assert!(shown.trim_end().ends_with("\x1b[?25h\x1b[?1049l"), "{shown:?}");
}

#[test]
fn a_signal_gives_the_screen_back_too() {
    let on = On::embedded();
    let server = on.start();
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let terminal = Terminal::start(server.command(&["top"]));
        terminal.until_shown("q quits");
        terminal.signal(signal);
        let (status, shown) = terminal.end();
        assert!(status == 0 && shown.ends_with("\x1b[?1049l"), "{signal:?} {status} {shown:?}");
    }
}

#[test]
fn a_server_that_goes_away_is_shown_as_away() {
    let on = On::embedded();
    let server = on.start();
    let mut terminal = Terminal::start(server.command(&["top", "--interval", "50ms"]));
    terminal.until_shown("store up");
    drop(server);
    terminal.until_shown("no connection");
    terminal.type_text("q");
    assert_eq!(terminal.end().0, 0);
}

#[test]
fn without_a_terminal_it_says_what_to_do() {
    let on = On::embedded();
    let complaint = on.start().bugle(&["top"]).fails(2);
    assert!(complaint.contains("--once"), "{complaint}");
}
