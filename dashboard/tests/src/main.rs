//! Uses the dashboard as people do: a real browser, real servers, real traffic: one on the embedded engine, two on one PostgreSQL.
//! What a click does is looked for by the API. Pictures of every page are kept.
//!
//! `bugle-dashboard-tests --server target/debug/bugle --postgres DSN --shots target/browser [--sources dashboard/tests]`

mod chromium;
mod page;
mod server;
mod traffic;

mod checks;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result, bail};

use chromium::Chromium;
use page::Page;
use server::Server;

/// What was asked for.
struct Asked {
    server: PathBuf,
    postgres: String,
    shots: PathBuf,
    sources: PathBuf,
}

fn asked() -> Result<Asked> {
    let (mut server, mut shots) = (PathBuf::from("target/debug/bugle"), PathBuf::from("target/browser"));
    let (mut sources, mut postgres) = (PathBuf::from("dashboard/tests"), None);
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let value = words.next().with_context(|| format!("{word} needs a value"))?;
        match word.as_str() {
            "--server" => server = value.into(),
            "--postgres" => postgres = Some(value),
            "--shots" => shots = value.into(),
            "--sources" => sources = value.into(),
            _ => bail!("no option {word}"),
        }
    }
    let postgres = postgres.context("--postgres DSN is missing")?;
    Ok(Asked { server: std::path::absolute(server)?, postgres, shots, sources })
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("failed: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let Asked { server: program, postgres, shots, sources } = asked()?;
    let profile = tempfile::tempdir()?;
    let axe = std::fs::read_to_string(sources.join("vendor/axe.min.js")).context("read axe")?;
    let server = Server::start(&program, &[], &shots.join("server.log"))?;
    let browser = Chromium::start(profile.path())?;
    let mut page = Page::new(browser, server.url(), shots, axe)?;
    let begun = Instant::now();
    for (name, check) in checks::ALL {
        let start = Instant::now();
        check(&mut page, &server.api()).with_context(|| name.to_owned())?;
        page.settle(name)?;
        eprintln!("ok   {:>5.1} s  {name}", start.elapsed().as_secs_f64());
    }
    checks::cluster::two_servers(&mut page, &program, &postgres).context("two servers on one database")?;
    checks::login::signs_in(&mut page, &program).context("signing in")?;
    eprintln!("all  {:>5.1} s  pictures in {}", begun.elapsed().as_secs_f64(), page.shots().display());
    Ok(())
}
