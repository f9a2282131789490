//! Settings, links and files that the guides and the packages in `deploy/` name exist. Their commands are run by the tests of the
//! command line (`tests/cli/docs.rs`).

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Output;

use crate::common::command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

pub(crate) fn read(file: impl AsRef<Path>) -> String {
    let file = root().join(file);
    std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

pub(crate) fn told(output: &Output) -> String {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {errors}", output.status);
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// Files below `dir` with their contents.
fn files(dir: &Path, found: &mut Vec<(PathBuf, String)>) {
    for entry in std::fs::read_dir(dir).unwrap().flatten().map(|entry| entry.path()) {
        if entry.is_dir() {
            files(&entry, found);
        } else if let Ok(text) = std::fs::read_to_string(&entry) {
            found.push((entry, text));
        }
    }
}

fn in_variable(letter: char) -> bool {
    letter.is_ascii_uppercase() || letter == '_' || letter.is_ascii_digit()
}

#[test]
fn settings_that_packages_and_guides_name_exist() {
    let dir = tempfile::tempdir().unwrap();
    let help = command(dir.path()).args(["serve", "--help"]).output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let variables = |text: &str| -> BTreeSet<String> {
        let starts = text.match_indices("BUGLE_").map(|(at, _)| &text[at..]);
        starts.map(|rest| rest.chars().take_while(|c| in_variable(*c)).collect()).collect()
    };
    let known = variables(&help);
    // What clients read.
    let of_clients = ["BUGLE_SERVER", "BUGLE_API_KEY"];
    let (mut found, mut count) = (Vec::new(), 0);
    files(&root().join("deploy"), &mut found);
    files(&root().join("docs"), &mut found);
    // These name variables of developers and of clients too, which are not settings.
    let others = |file: &Path| {
        file.parent().is_some_and(|dir| dir.ends_with("decisions"))
            || file.ends_with("guarantees.md")
            || file.ends_with("cli.md")
    };
    for (file, text) in found.iter().filter(|(file, _)| !others(file)) {
        for name in variables(text).iter().filter(|name| !of_clients.contains(&name.as_str())) {
            assert!(known.contains(name), "{}: there is no setting {name}", file.display());
            count += 1;
        }
    }
    assert!(count > 10, "{count}");
}

#[test]
fn the_packaged_settings_are_accepted() {
    let dir = tempfile::tempdir().unwrap();
    let file = root().join("deploy/systemd/bugle.toml");
    let output =
        command(dir.path()).args(["serve", "--print-config", "--config"]).arg(file).output().unwrap();
    assert!(told(&output).contains("data-dir = \"/var/lib/bugle/data\""));
    let unit = read("deploy/systemd/bugle.service");
    assert!(unit.contains("ExecStart=/usr/bin/bugle serve --config /etc/bugle/bugle.toml"), "{unit}");
}

#[test]
fn links_between_documents_lead_somewhere() {
    let mut found = Vec::new();
    files(&root().join("docs"), &mut found);
    for file in ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "bench/README.md"] {
        found.push((root().join(file), read(file)));
    }
    let mut count = 0;
    for (file, text) in found.iter().filter(|(file, _)| file.extension().is_some_and(|kind| kind == "md")) {
        let targets = text.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(to, _)| to);
        for target in targets.filter(|to| !to.contains("://") && !to.starts_with('#')) {
            let place = target.split('#').next().unwrap();
            assert!(
                file.parent().unwrap().join(place).exists(),
                "{}: {target} leads nowhere",
                file.display()
            );
            count += 1;
        }
    }
    assert!(count > 30, "{count}");
}
