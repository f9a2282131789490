//! What goes wrong, and what is said then.

use std::process::Command;

use crate::support::{On, Ran, program};

fn run(change: impl FnOnce(&mut Command)) -> Ran {
    let dir = tempfile::tempdir().unwrap();
    let mut command = program(dir.path());
    change(&mut command);
    Ran::of(command, "")
}

#[test]
fn a_server_that_is_not_there_is_told_with_what_to_do() {
    for args in [&["queues"][..], &["push", "q", "1"], &["pop", "q"], &["groups"], &["dlq", "list"]] {
        let complaint = run(|c| {
            c.args(args).args(["--server", "http://127.0.0.1:1"]);
        })
        .fails(5);
        assert!(complaint.contains("bugle serve") && complaint.contains("--server"), "{complaint}");
    }
    let complaint = run(|c| {
        c.arg("queues").env("BUGLE_SERVER", "nonsense");
    })
    .fails(2);
    assert!(complaint.contains("nonsense"), "{complaint}");
}

#[test]
fn what_is_not_there_and_what_makes_no_sense_is_told_by_name_with_what_to_do() {
    let on = On::embedded();
    let server = on.start();
    for (args, status, wanted) in [
        (&["queue", "describe", "nowhere"][..], 3, ["Queue not found", "`bugle queues`"]),
        (&["group", "describe", "nobody"], 3, ["nobody", "`bugle groups`"]),
        (&["queue", "configure", "q", "leaseTime=long"], 2, ["option leaseTime", "expected u64"]),
        (&["queue", "configure", "q", "leaseTim=1"], 2, ["option leaseTim:", "prints all"]),
    ] {
        let complaint = server.bugle(args).fails(status);
        assert!(wanted.iter().all(|part| complaint.contains(part)), "{args:?}: {complaint}");
    }
    assert_eq!(server.json(&["queues"])["total"], 0, "and nothing is made by it");
}

#[test]
fn an_api_key_is_taken_from_the_environment_or_a_file_and_its_absence_told() {
    let on = On::embedded();
    let server = on.start_with(&["--api-keys=me:read-only:0123456789abcdef0123456789abcdef"]);
    let complaint = server.bugle(&["queues"]).fails(4);
    assert!(complaint.contains("BUGLE_API_KEY"), "{complaint}");
    let mut command = server.command(&["queues"]);
    command.env("BUGLE_API_KEY", "0123456789abcdef0123456789abcdef");
    Ran::of(command, "").ok();
    std::fs::write(server.dir().join("key"), "0123456789abcdef0123456789abcdef\n").unwrap();
    server.bugle(&["queues", "--api-key-file", "key"]).ok();
    let complaint = server.bugle(&["push", "q", "1", "--api-key-file", "key"]).fails(4);
    assert!(complaint.contains("role"), "{complaint}");
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    let on = On::embedded();
    let server = on.start();
    server.push("q", "a", &["1"]);
    let script = format!("{} tail q -f --from 10m --interval 20ms | head -n 1", env!("CARGO_BIN_EXE_bugle"));
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("set -e; {script}")]).env("BUGLE_SERVER", server.url());
    let shell = std::thread::spawn(move || Ran::of(shell, ""));
    // The next message finds nobody who reads.
    while !shell.is_finished() {
        server.push("q", "a", &["2"]);
    }
    let ran = shell.join().unwrap();
    assert_eq!((ran.status, ran.err.as_str()), (0, ""), "{ran:?}");
    assert_eq!(ran.out.lines().count(), 1);
}
