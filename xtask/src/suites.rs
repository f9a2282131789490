//! `cargo xtask test`: the suites in order, each timed, stopping at the first that fails.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::postgres::Postgres;
use crate::server::Engine;
use crate::tools::{self, Tool};
use crate::{
    bench, browser, compare, deny, duroxide_import, faults, models, python_client, rust_client, tidy,
};

/// Where tests find the database.
const DSN: &str = "BUGLE_TEST_PG";

/// One suite. A new one (other languages' clients) is a line in `SUITES` and its tools in `tools.rs`.
struct Suite {
    name: &'static str,
    about: &'static str,
    needs: &'static [Tool],
    run: fn(&Run<'_>) -> Result<()>,
}

/// In the order of their price.
const SUITES: [Suite; 12] = [
    Suite { name: "fmt", about: "sources are formatted", needs: &[], run: fmt },
    Suite { name: "tidy", about: "headers, sizes, words, paths, layers, links", needs: &[], run: tidy },
    Suite {
        name: "deny",
        about: "licences, bans, duplicates and sources of dependencies",
        needs: &[],
        run: deny,
    },
    Suite { name: "clippy", about: "no warning anywhere", needs: &[], run: clippy },
    Suite { name: "build", about: "everything builds", needs: &[], run: build },
    Suite {
        name: "tests",
        about: "unit and integration tests",
        needs: &[
            Tool::Nextest,
            Tool::Postgres,
            Tool::PgBouncer,
            Tool::Curl,
            Tool::Python,
            Tool::Node,
            Tool::Openssl,
            Tool::Haproxy,
            Tool::Nginx,
            Tool::Yaml,
        ],
        run: tests,
    },
    Suite {
        name: "doctests",
        about: "examples in the documentation",
        needs: &[Tool::Postgres],
        run: doctests,
    },
    Suite {
        name: "faults",
        about: "a short round of every fault under load, checked",
        needs: &[Tool::Postgres, Tool::Faketime],
        run: faults::suite,
    },
    Suite {
        name: "browser",
        about: "the dashboard in a real browser",
        needs: &[Tool::Chromium, Tool::Postgres],
        run: browser::suite,
    },
    Suite {
        name: "rust-client",
        about: "the published Rust client's own tests",
        needs: &[Tool::Postgres, Tool::Curl],
        run: rust_client::run,
    },
    Suite {
        name: "python-client",
        about: "the published Python clients",
        needs: &[Tool::Postgres, Tool::Python],
        run: python_client::run,
    },
    Suite {
        name: "duroxide-import",
        about: "moving from the published duroxide-pg provider to ours",
        needs: &[Tool::Postgres],
        run: duroxide_import::run,
    },
];

/// What the suites of one run share.
pub(crate) struct Run<'r> {
    root: &'r Path,
    dsn: Option<String>,
}

impl Run<'_> {
    /// The top of the repository.
    pub(crate) fn root(&self) -> &Path {
        self.root
    }

    /// Where everything is built.
    pub(crate) fn target(&self) -> PathBuf {
        // As cargo reads it: relative to where it is started, which is the top.
        self.root.join(std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()))
    }

    /// The server, built as the suite `build` does it, with overflow checks and assertions; where the program is.
    pub(crate) fn server(&self) -> Result<PathBuf> {
        build(self)?;
        Ok(self.target().join("debug/bugle"))
    }

    /// The database of this run.
    pub(crate) fn dsn(&self) -> Result<&str> {
        self.dsn.as_deref().context("there is no PostgreSQL")
    }

    /// Runs `suite` on every engine, and on the next even if it fails on one: both answers are wanted.
    pub(crate) fn on_every_engine(&self, suite: impl Fn(Engine<'_>) -> Result<()>) -> Result<()> {
        let dsn = self.dsn()?;
        let mut faults = Vec::new();
        for engine in [Engine::Embedded, Engine::Postgres { dsn }] {
            eprintln!("\n-- on {}", engine.name());
            if let Err(error) = suite(engine) {
                faults.push(format!("on {}: {error:#}", engine.name()));
            }
        }
        ensure!(faults.is_empty(), "{}", faults.join("; "));
        Ok(())
    }

    fn cargo(&self, arguments: &[&str]) -> Result<()> {
        tools::run(self.cargo_command().args(arguments))
    }

    /// The cargo that runs this, at the top of the repository.
    pub(crate) fn cargo_command(&self) -> Command {
        let mut command = tools::cargo(self.root);
        if let Some(dsn) = &self.dsn {
            command.env(DSN, dsn);
        }
        command
    }
}

fn fmt(run: &Run<'_>) -> Result<()> {
    run.cargo(&["fmt", "--all", "--check"])?;
    run.cargo(&["fmt", "--manifest-path", compare::MANIFEST, "--check"])?;
    run.cargo(&["fmt", "--manifest-path", bench::DUROXIDE, "--check"])
}

fn tidy(run: &Run<'_>) -> Result<()> {
    ensure!(tidy::run(run.root)?, "the sources are not tidy");
    Ok(())
}

fn deny(run: &Run<'_>) -> Result<()> {
    deny::check(run.root)
}

fn clippy(run: &Run<'_>) -> Result<()> {
    // The models build the product's sources a second time, without their unit tests, which `--all-targets` would want too.
    let models = |flag| models::PACKAGES.iter().flat_map(move |package| [flag, *package]);
    let deny = ["--", "-D", "warnings"];
    let mut all = vec!["clippy", "--workspace", "--all-targets", "--all-features"];
    all.extend(models("--exclude").chain(deny));
    run.cargo(&all)?;
    let mut rest = vec!["clippy", "--test", "*"];
    rest.extend(models("--package").chain(deny));
    run.cargo(&rest)
}

fn build(run: &Run<'_>) -> Result<()> {
    run.cargo(&["build", "--workspace", "--all-features"])
}

fn tests(run: &Run<'_>) -> Result<()> {
    run.cargo(&["nextest", "run", "--workspace", "--all-features"])
}

fn doctests(run: &Run<'_>) -> Result<()> {
    run.cargo(&["test", "--doc", "--workspace", "--all-features"])
}

/// `cargo xtask openapi`: the test that compares the description of the API with the code writes it instead.
pub(crate) fn openapi(root: &Path) -> Result<ExitCode> {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(["test", "--package", "bugle-http", "--lib", "openapi::tests::the_file_in_the_repository"]);
    tools::run(command.current_dir(root).env("BUGLE_RENEW_OPENAPI", "1"))?;
    Ok(ExitCode::SUCCESS)
}

/// The suites, for the help text.
pub(crate) fn list() -> String {
    SUITES.iter().fold(String::new(), |mut text, suite| {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  {:<16} {}", suite.name, suite.about);
        text
    })
}

/// Runs the named suites, or all.
pub(crate) fn run(root: &Path, names: &[String]) -> Result<ExitCode> {
    if let Some(unknown) = names.iter().find(|n| SUITES.iter().all(|s| s.name != **n)) {
        bail!("no suite {unknown:?}. Suites:\n{}", list());
    }
    let chosen: Vec<&Suite> =
        SUITES.iter().filter(|s| names.is_empty() || names.iter().any(|n| n == s.name)).collect();
    let needs: Vec<Tool> = chosen.iter().flat_map(|s| s.needs).copied().collect();
    prepared(root, &needs, |run| Ok(run_in_order(run, &chosen)))
}

/// Does `work` with what it needs installed, and with a database if it needs one.
pub(crate) fn prepared<T>(
    root: &Path,
    needs: &[Tool],
    work: impl FnOnce(&Run<'_>) -> Result<T>,
) -> Result<T> {
    tools::ensure_installed(needs)?;
    let given = std::env::var(DSN).ok().filter(|dsn| !dsn.is_empty());
    // Held until the work is done; its drop stops the server.
    let server = (given.is_none() && needs.contains(&Tool::Postgres)).then(Postgres::start).transpose()?;
    let dsn = given.or_else(|| server.as_ref().map(|s| s.dsn().to_owned()));
    work(&Run { root, dsn })
}

fn run_in_order(run: &Run<'_>, chosen: &[&Suite]) -> ExitCode {
    let mut table: Vec<(&str, &str, Duration)> = Vec::new();
    let mut failure = None;
    for suite in chosen {
        if failure.is_some() {
            table.push((suite.name, "not run", Duration::ZERO));
            continue;
        }
        eprintln!("\n== {}: {}", suite.name, suite.about);
        let start = Instant::now();
        let outcome = (suite.run)(run);
        table.push((suite.name, if outcome.is_ok() { "ok" } else { "FAILED" }, start.elapsed()));
        failure = outcome.err();
    }
    eprintln!("\n{:<16} {:<8} {:>9}", "suite", "result", "seconds");
    for (name, result, time) in &table {
        eprintln!("{name:<16} {result:<8} {:>9.1}", time.as_secs_f64());
    }
    eprintln!("{:<16} {:<8} {:>9.1}", "all", "", table.iter().map(|row| row.2.as_secs_f64()).sum::<f64>());
    match failure {
        None => ExitCode::SUCCESS,
        Some(error) => {
            eprintln!("\nfailed: {error:#}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod order_tests {
    use super::*;

    fn passes(_: &Run<'_>) -> Result<()> {
        Ok(())
    }

    fn fails(_: &Run<'_>) -> Result<()> {
        bail!("on purpose")
    }

    fn panics(_: &Run<'_>) -> Result<()> {
        panic!("a suite after a failed one must not run")
    }

    #[test]
    fn the_first_failure_ends_the_run() {
        let suite = |run| Suite { name: "s", about: "", needs: &[], run };
        let context = Run { root: Path::new("."), dsn: None };
        let (good, bad, never) = (suite(passes), suite(fails), suite(panics));
        assert_eq!(run_in_order(&context, &[&good, &good]), ExitCode::SUCCESS);
        assert_eq!(run_in_order(&context, &[&good, &bad, &never]), ExitCode::FAILURE);
    }

    #[test]
    fn both_engines_are_tried_and_every_failure_is_told() {
        let run = Run { root: Path::new("."), dsn: Some("postgres://x".to_owned()) };
        let tried = std::cell::Cell::new(0);
        let outcome = run.on_every_engine(|engine| {
            tried.set(tried.get() + 1);
            bail!("{} is bad", engine.name())
        });
        assert_eq!(tried.get(), 2);
        let text = outcome.unwrap_err().to_string();
        assert_eq!(text, "on embedded: embedded is bad; on postgres: postgres is bad");
        run.on_every_engine(|_| Ok(())).unwrap();
    }

    #[test]
    fn an_unknown_suite_is_named() {
        let error = run(Path::new("."), &["tidy".to_owned(), "nonsense".to_owned()]).unwrap_err();
        assert!(error.to_string().contains("nonsense"));
    }
}
