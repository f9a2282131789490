//! Uses the dashboard as people do: a real browser, a real server on the embedded engine, real traffic. What a click does is
//! looked for by the API. Pictures of every page are kept.
//!
//! `bugle-dashboard-tests --server target/debug/bugle --shots target/browser [--sources dashboard/tests]`

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
    shots: PathBuf,
    sources: PathBuf,
}

fn asked() -> Result<Asked> {
    let (mut server, mut shots) = (PathBuf::from("target/debug/bugle"), PathBuf::from("target/browser"));
    let mut sources = PathBuf::from("dashboard/tests");
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let value = words.next().with_context(|| format!("{word} needs a value"))?;
        match word.as_str() {
            "--server" => server = value.into(),
            "--shots" => shots = value.into(),
            "--sources" => sources = value.into(),
            _ => bail!("no option {word}"),
        }
    }
    Ok(Asked { server: std::path::absolute(server)?, shots, sources })
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
    let Asked { server: program, shots, sources } = asked()?;
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
    checks::login::signs_in(&mut page, &program).context("signing in")?;
    eprintln!("all  {:>5.1} s  pictures in {}", begun.elapsed().as_secs_f64(), page.shots().display());
    Ok(())
}
