//! `bugle consume --exec`.

use rustix::process::{Pid, Signal, kill_process};

use crate::support::{On, Ran, until};

on_both_engines! {
    fn the_exit_status_decides_what_becomes_of_a_message(on: On) {
        let server = on.start();
        server.bugle(&["queue", "configure", "q", "retryLimit=1"]).ok();
        for partition in ["done", "hopeless", "failing"] {
            server.push("q", partition, &["1"]);
        }
        let script = r#"read payload; echo "$BUGLE_PARTITION $payload $BUGLE_ATTEMPT" >> seen
            case $BUGLE_PARTITION in done) exit 0;; hopeless) echo never >&2; exit 65;; *) exit 1;; esac"#;
        let ran = server.bugle(&["consume", "q", "-g", "g", "--subscribe", "all", "-e", script, "-n", "4", "-o", "json"]);
        let told: serde_json::Value = serde_json::from_str(&ran.ok()).unwrap();
        assert_eq!((told["completed"].as_u64(), told["deadLettered"].as_u64()), (Some(1), Some(2)), "{told}");
        let seen = std::fs::read_to_string(server.dir().join("seen")).unwrap();
        let mut seen: Vec<&str> = seen.lines().collect();
        seen.sort_unstable();
        assert_eq!(seen, ["done 1 1", "failing 1 1", "failing 1 2", "hopeless 1 1"]);
        let letters = server.json(&["dlq", "list", "q"]);
        let mut errors: Vec<&str> =
            letters["messages"].as_array().unwrap().iter().map(|l| l["errorMessage"].as_str().unwrap()).collect();
        errors.sort_unstable();
        assert_eq!(errors, ["exit status: 1", "exit status: 65: never"]);
    }

    fn a_message_given_back_comes_again_without_blame(on: On) {
        let server = on.start();
        server.push("q", "a", &["1"]);
        let script = "echo $BUGLE_ATTEMPT >> seen; [ $(wc -l < seen) -ge 3 ] || exit 75";
        let ran = server.bugle(&["consume", "q", "-e", script, "-n", "3"]);
        assert_eq!(ran.ok(), "1 done, 0 failed, 0 dead letters\n");
    }

    fn what_runs_is_finished_when_it_is_told_to_end(on: On) {
        let server = on.start();
        server.push("q", "a", &["1", "2"]);
        let script = "touch begun; while [ ! -e go ]; do sleep 0.05; done; touch finished";
        let child = server.command(&["consume", "q", "-e", script, "--lease", "1s"]).spawn().unwrap();
        until("the program runs", || server.dir().join("begun").exists());
        kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
        std::fs::write(server.dir().join("go"), "").unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success() && server.dir().join("finished").exists());
        // The first is done, the second was not begun.
        let left = server.json(&["pop", "q", "-b", "9"]);
        assert_eq!(left.as_array().unwrap().iter().map(|m| m["data"].clone()).collect::<Vec<_>>(), [2]);
    }
}

#[test]
fn the_lease_is_renewed_while_a_program_runs() {
    let on = On::embedded();
    let server = on.start();
    server.push("q", "a", &["1"]);
    let script = "touch begun; while [ ! -e go ]; do sleep 0.05; done";
    let child = server.command(&["consume", "q", "-e", script, "--lease", "1s", "-n", "1"]).spawn().unwrap();
    until("the program runs", || server.dir().join("begun").exists());
    // Longer than the lease: somebody else who waits for the message does not get it.
    server.bugle(&["pop", "q", "--wait", "2500ms"]).fails(6);
    std::fs::write(server.dir().join("go"), "").unwrap();
    assert!(child.wait_with_output().unwrap().status.success());
    server.bugle(&["pop", "q"]).fails(6);
    assert_eq!(server.json(&["queue", "describe", "q"])["totals"]["completed"], 1);
}

#[test]
fn programs_run_side_by_side_up_to_the_bound() {
    let on = On::embedded();
    let server = on.start();
    for partition in ["a", "b", "c"] {
        server.push("q", partition, &["1"]);
    }
    // Each waits until two are there: with one at a time nobody would ever get on.
    let script = "touch run.$BUGLE_PARTITION; while [ $(ls run.* | wc -l) -lt 2 ]; do sleep 0.05; done";
    let ran = Ran::of(server.command(&["consume", "q", "-e", script, "-c", "2", "-n", "3"]), "");
    assert_eq!(ran.ok(), "3 done, 0 failed, 0 dead letters\n");
}

#[test]
fn a_server_that_is_not_there_is_told_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = crate::support::program(dir.path());
    command.args(["consume", "q", "-e", "true", "--server", "http://127.0.0.1:1"]);
    let complaint = Ran::of(command, "").fails(5);
    assert!(complaint.contains("bugle serve"), "{complaint}");
}
