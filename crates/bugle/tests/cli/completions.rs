//! `bugle completions`.

use std::process::Command;

use crate::support::{Ran, program};

#[test]
fn a_shell_reads_the_script_and_completes_by_it() {
    let dir = tempfile::tempdir().unwrap();
    for shell in ["bash", "zsh", "fish"] {
        let mut command = program(dir.path());
        command.args(["completions", shell]);
        let script = Ran::of(command, "").ok();
        assert!(script.contains("bugle") && script.contains("redrive"), "{shell}");
        if shell == "bash" {
            std::fs::write(dir.path().join("script"), script).unwrap();
        }
    }
    let mut bash = Command::new("bash");
    bash.current_dir(dir.path()).args([
        "--norc",
        "-c",
        "source ./script; COMP_WORDS=(bugle dlq re); COMP_CWORD=2; _bugle bugle re dlq; echo \"${COMPREPLY[@]}\"",
    ]);
    assert_eq!(Ran::of(bash, "").ok(), "redrive\n");
    let mut command = program(dir.path());
    command.args(["completions", "cmd.exe"]);
    Ran::of(command, "").fails(2);
}
