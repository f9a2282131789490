//! The commands that start servers themselves, with a program that greets in the name of the server in this process.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use bugle_bench::{Cli, Outcome, run};
use clap::Parser;

use crate::fake::{self, Fault};

/// A program that says these words and then does nothing; removed when dropped.
pub(crate) struct Program(pub(crate) PathBuf);

impl Program {
    pub(crate) fn saying(words: &str) -> Self {
        let path = std::env::temp_dir().join(format!("bugle-bench-program-{:016x}", fastrand::u64(..)));
        std::fs::write(&path, format!("#!/bin/sh\necho '{words}'\nexec /bin/sleep 600\n")).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o700)).unwrap();
        Self(path)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

async fn bench(program: &Program, arguments: &str) -> anyhow::Result<Outcome> {
    let (command, rest) = arguments.split_once(' ').unwrap();
    let words = ["bugle-bench", command, "--server", program.0.to_str().unwrap()];
    run(Cli::try_parse_from(words.into_iter().chain(rest.split(' '))).expect("arguments")).await
}

#[tokio::test]
async fn starve_measures_every_verb_with_and_without_waiters() {
    let (url, state) = fake::start(Fault::None).await;
    let program = Program::saying(&format!("Bugle is ready at {url}"));
    let arguments = "starve --waiters 20 --keys 5 --connections 1 --seconds 0.05 --stock 300 --rounds 1";
    let outcome = bench(&program, arguments).await.unwrap();
    assert!(outcome.ok, "{}", outcome.json);
    for verb in ["push", "ack", "transaction"] {
        let rates = &outcome.json["verbs"][verb];
        for side in ["median_without", "median_with", "ratio"] {
            assert!(rates[side].as_f64().unwrap() > 0.0, "{side} of {verb}: {rates}");
        }
        assert_eq!(rates["with_per_s"].as_array().unwrap().len(), 1, "the first round does not count");
    }
    assert_eq!(state.lock().unwrap().most_waiting(), 20);
}

#[tokio::test]
async fn a_server_that_says_something_else_is_named() {
    let program = Program::saying("error: the port is taken");
    let error = bench(&program, "starve --rounds 1").await.unwrap_err();
    assert!(error.to_string().contains("the port is taken"), "{error}");
}

#[tokio::test]
async fn a_matrix_of_two_servers_needs_a_database() {
    let program = Program::saying("nothing");
    let error = bench(&program, "matrix --rounds 1").await.unwrap_err();
    assert!(error.to_string().contains("--pg"), "{error}");
}
