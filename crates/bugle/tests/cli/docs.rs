//! `docs/cli.md`: every command is there, every command that is there exists, and every example works.

use std::path::Path;
use std::process::Command;

use crate::help;
use crate::support::{On, Ran};

fn page() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/cli.md");
    std::fs::read_to_string(path).unwrap()
}

/// The blocks that are run.
fn examples(page: &str) -> Vec<String> {
    page.split("```sh\n").skip(1).map(|rest| rest.split("```").next().unwrap().to_owned()).collect()
}

#[test]
fn every_command_is_described_and_no_other() {
    // Lines end where there is room, which says nothing.
    let page = page().split_whitespace().collect::<Vec<_>>().join(" ");
    let all: Vec<String> =
        help::all().into_iter().map(|words| words.join(" ")).filter(|name| !name.is_empty()).collect();
    // What the load generator measures is described in bench/.
    for name in all.iter().filter(|name| !name.starts_with("bench ")) {
        assert!(page.contains(&format!("bugle {name}")), "bugle {name} is not in docs/cli.md");
    }
    let first: Vec<&str> = all.iter().filter_map(|name| name.split(' ').next()).collect();
    for (at, _) in page.match_indices("`bugle ") {
        let named = page[at + 7..].split(|c: char| !c.is_ascii_alphanumeric() && c != '-').next().unwrap();
        assert!(
            named.is_empty() || first.contains(&named),
            "docs/cli.md names bugle {named}, which does not exist"
        );
    }
}

/// One after the other in one place, as a reader would.
#[test]
fn every_example_works() {
    let (on, other) = (On::embedded(), On::embedded());
    let (server, to) = (on.start(), other.start());
    let program = Path::new(env!("CARGO_BIN_EXE_bugle")).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    for example in examples(&page()) {
        let mut shell = Command::new("bash");
        shell.current_dir(server.dir()).args(["-euo", "pipefail", "-c", &example]).env("PATH", &path);
        shell.env("BUGLE_SERVER", server.url()).env("NEW_SERVER", to.url());
        let ran = Ran::of(shell, "");
        assert_eq!(ran.status, 0, "{example}\n{ran:?}");
    }
}
