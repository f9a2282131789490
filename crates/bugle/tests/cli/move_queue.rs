//! `bugle move`.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::support::{On, until};

/// From one engine to the other, offline: neither has a server.
async fn between(from: On, to: On) {
    let source = from.start();
    source.push("q", "a", &["1", "2", "3"]);
    source.push("stays", "a", &["4"]);
    source.bugle(&["pop", "q", "-g", "g", "--subscribe", "all", "--ack"]).ok();
    let dir = tempfile::tempdir().unwrap();
    drop(source);
    let mut command = crate::support::program(dir.path());
    let (place_from, place_to) = (from.place(), to.place());
    command.args(["move", "q", "--from", &place_from, "--to", &place_to, "--delete-source", "--yes"]);
    // Only the database has a schema, and a server on files does not mind the setting.
    command.envs(from.schema().or(to.schema()).map(|schema| ("BUGLE_PG_SCHEMA", schema)));
    let told = crate::support::Ran::of(command, "").ok();
    assert!(
        told.contains("3 messages and the positions of 1 groups") && told.contains("deleted at the source"),
        "{told}"
    );
    let (source, target) = (from.start(), to.start());
    source.bugle(&["queue", "describe", "q"]).fails(3);
    assert_eq!(source.payloads("stays", "g"), ["4"]);
    assert_eq!(target.payloads("q", "g"), ["2", "3"], "where it was at the source");
}

#[tokio::test]
async fn from_files_to_a_database() {
    let (from, to) = (On::embedded(), On::postgres().await);
    between(from, to).await;
}

#[tokio::test]
async fn from_a_database_to_files() {
    let (from, to) = (On::postgres().await, On::embedded());
    between(from, to).await;
}

#[test]
fn between_running_servers_it_stays_unless_told_otherwise() {
    let (on, other) = (On::embedded(), On::embedded());
    let (from, to) = (on.start(), other.start());
    from.push("q", "a", &["1"]);
    let told = from.bugle(&["move", "q", "--to", to.url()]).ok();
    assert!(told.contains("kept at the source"), "{told}");
    assert_eq!((from.payloads("q", "g"), to.payloads("q", "g")), (vec!["1".into()], vec!["1".into()]));
    from.bugle(&["move", "q", "--to", to.url(), "--delete-source"]).fails(2);
    let used = from.bugle(&["move", "q", "--to", &on.place()]).fails(1);
    assert!(used.contains("by its URL"), "{used}");
}

on_both_engines! {
    fn nothing_is_deleted_while_messages_come(on: On) {
        let other = On::embedded();
        let (from, to) = (on.start(), other.start());
        let (over, pushed) = (AtomicBool::new(false), AtomicUsize::new(0));
        let deletes = ["move", "q", "--to", to.url(), "--delete-source", "--yes", "--quiet", "2s"];
        std::thread::scope(|scope| {
            // A producer that nobody stopped; each push is a program, which takes its time.
            scope.spawn(|| {
                while !over.load(Ordering::Acquire) {
                    let n = pushed.load(Ordering::Acquire);
                    from.push("q", &format!("p{}", n % 3), &[&n.to_string()]);
                    pushed.store(n + 1, Ordering::Release);
                }
            });
            until("some are there", || pushed.load(Ordering::Acquire) > 3);
            let told = from.bugle(&deletes).fails(1);
            over.store(true, Ordering::Release);
            assert!(told.contains("still pushed at the source"), "{told}");
        });
        from.bugle(&["queue", "describe", "q"]).ok();
        // The same command goes on, and is done when it is quiet.
        assert!(from.bugle(&deletes).ok().contains("deleted at the source"));
        from.bugle(&["queue", "describe", "q"]).fails(3);
        let mut arrived: Vec<usize> =
            to.payloads("q", "g").iter().map(|payload| payload.parse().unwrap()).collect();
        assert!((0..3).all(|lane| arrived.iter().filter(|n| *n % 3 == lane).is_sorted()), "{arrived:?}");
        arrived.sort_unstable();
        assert_eq!(arrived, (0..pushed.into_inner()).collect::<Vec<_>>(), "all of them, each once");
    }
}

/// One that comes after the copy, into a partition of its own, and not again: the deletion is refused by it alone.
#[test]
fn one_message_is_enough() {
    let (on, other) = (On::embedded(), On::embedded());
    let (from, to) = (on.start(), other.start());
    from.push("q", "a", &["1"]);
    let mut moving = from
        .command(&["move", "q", "--to", to.url(), "--delete-source", "--yes", "--quiet", "5s"])
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    // It is copied when its groups are carried, which is the last of it.
    until("it is over there", || to.payloads("q", "g") == ["1"]);
    until("the options are those of the source", || {
        let window = |server: &crate::support::Server| {
            server.json(&["queue", "configure", "q"])["options"]["dedupWindowSeconds"].clone()
        };
        window(&to) == window(&from)
    });
    from.push("q", "late", &["2"]);
    assert_eq!(moving.wait().unwrap().code(), Some(1));
    let mut kept = from.payloads("q", "g");
    kept.sort_unstable();
    assert_eq!(kept, ["1", "2"], "nothing is lost");
}
