//! `cargo xtask`: the one way to check the repository, the same on a desk and in CI.
//!
//! Only the standard library and `anyhow`, because every run begins by compiling it.

mod documents;
mod files;
mod layers;
mod licence;
mod postgres;
mod tools;

mod server;
mod source;
mod tidy;

mod bench;
mod browser;
mod compare;
mod deny;
mod duroxide_import;
mod faults;
mod flames;
mod fuzz;
mod fuzz_input;
mod instructions;
mod models;
mod packages;
mod powercuts;
mod python_client;
mod rust_client;
mod suites;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};

const HELP: &str = "\
cargo xtask <command>

  test [suite]…   install what is missing, run the suites in order, print how long each took
  bench compare [--quick] [--seconds N] [--peer NAME]… [--engine E]…
                  compare Bugle with other queues and with the floors of this machine; writes bench/RESULTS.md and
                  its chart; `--help` shows the options
  bench curve     latency against throughput at fixed rates, up to the knee and past it, on both engines;
                  writes bench/CURVE.md and its drawing
  bench growth [--quick] [--axis NAME]… [--engine E]… [--minutes N]
                  what a message costs as lanes, groups, backlog, waiters and payloads grow; writes bench/GROWTH.md and its
                  drawing
  bench flames [LOAD]…
                  draw where the server's and the database's time goes under load; writes bench/flames
  bench instructions [--save]
                  count the instructions of the hot pure functions and compare them with the baseline
  bench duroxide  compare the duroxide providers; `-- --help` shows the options
  faults [--minutes N] [--engine E] [--fault NAME]…
                  break servers, databases, networks, clocks and disks under load and check every promise;
                  `--help` shows the options, `--list` the faults
  deny            check licences, bans, duplicates and sources, and advisories if cargo-deny is installed
  fuzz [--minutes N]
                  play new random cases against the model on every engine, for so long (10)
  fuzz-input [--minutes N] [--target NAME]
                  feed every decoder hostile input, guided by coverage, for so long in all (10)
  powercuts [--minutes N]
                  cut power by new chances under the embedded engine and the spool, for so long (10)
  models [--minutes N]
                  explore new orders of steps in the concurrency models, for so long (10)
  openapi         renew docs/openapi.json from the code
  packages [--no-build]
                  build the Debian package, install it into a clean Debian and use it; follow the Dockerfile; check
                  manifests against their schemas (needs root; not part of `test`)
  screenshots     renew the pictures in docs/screenshots by what the suite browser sees
  tidy            check headers, sizes, words, paths and layers of the sources
  help            this text

Suites:
";

fn main() -> ExitCode {
    dispatch().unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}

fn dispatch() -> Result<ExitCode> {
    let mut arguments = std::env::args().skip(1);
    let command = arguments.next().unwrap_or_else(|| "help".to_owned());
    let rest: Vec<String> = arguments.collect();
    let root = root()?;
    match command.as_str() {
        "test" => suites::run(&root, &rest),
        "bench" => bench::run(&root, &rest),
        "tidy" if rest.is_empty() => {
            Ok(if tidy::run(&root)? { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
        "faults" => faults::run(&root, &rest),
        "deny" if rest.is_empty() => deny::run(&root),
        "fuzz" => fuzz::run(&root, &rest),
        "fuzz-input" => fuzz_input::run(&root, &rest),
        "powercuts" => powercuts::run(&root, &rest),
        "models" => models::run(&root, &rest),
        "screenshots" if rest.is_empty() => browser::screenshots(&root),
        "packages" => packages::run(&root, &rest),
        "openapi" if rest.is_empty() => suites::openapi(&root),
        "help" | "--help" | "-h" => {
            eprint!("{HELP}{}", suites::list());
            Ok(ExitCode::SUCCESS)
        }
        _ => bail!("unknown command: {command} {}\n\n{HELP}{}", rest.join(" "), suites::list()),
    }
}

/// The top of the repository.
fn root() -> Result<PathBuf> {
    let own = std::env::var("CARGO_MANIFEST_DIR").context("run this as `cargo xtask`")?;
    Ok(Path::new(&own).parent().context("xtask has no parent folder")?.to_owned())
}
