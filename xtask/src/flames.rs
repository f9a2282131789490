//! `cargo xtask bench flames`: where the time goes, as flame graphs: the server under single pushes, large pushes, and pops with
//! acknowledgements, on both engines, and PostgreSQL under the same.
//!
//! Stacks are sampled by `perf` (the processor's clock, so that virtual machines without counters will do) while the load
//! generator runs, and drawn by `inferno`. Frames below half a percent of a picture are left out of it.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::postgres::Postgres;
use crate::server::{Engine, Server};
use crate::tools::{self, Tool};

const PICTURES: &str = "bench/flames";
/// What draws; installed here when it is missing.
const INFERNO: (&str, &str) = ("0.12.8", "target/tools");
/// Samples a second, and how much of a stack is kept.
const RATE: &str = "499";
const STACKS: &str = "dwarf,16384";
/// Time before the samples are taken, and how long they are.
const BEFORE: Duration = Duration::from_millis(1500);
const SECONDS: &str = "4";
/// The generator runs longer than the samples are taken.
const LOAD_SECONDS: &str = "8";

/// A load, by the arguments of the generator.
struct Load {
    name: &'static str,
    arguments: &'static [&'static str],
}

const LOADS: [Load; 3] = [
    Load { name: "push-1", arguments: &["push", "--batch", "1", "--connections", "64"] },
    Load { name: "push-100", arguments: &["push", "--batch", "100", "--connections", "16"] },
    Load { name: "pop-10", arguments: &["pop", "--batch", "10", "--connections", "64"] },
];

/// Draws all pictures, or those of loads named.
pub(crate) fn run(root: &Path, names: &[String]) -> Result<ExitCode> {
    if let Some(unknown) = names.iter().find(|name| LOADS.iter().all(|load| load.name != **name)) {
        bail!("which load? There are: {}. Not {unknown}", LOADS.map(|load| load.name).join(", "));
    }
    tools::ensure_installed(&[Tool::Postgres, Tool::Perf])?;
    let inferno = install(root)?;
    let mut build = tools::cargo(root);
    build.args(["build", "--release", "--locked", "--package", "bugle", "--package", "bugle-bench"]);
    tools::run(&mut build)?;
    fs::create_dir_all(root.join(PICTURES)).context("create the folder of the pictures")?;
    let postgres = Postgres::start_durable()?;
    let studio = Studio { root, inferno };
    for load in LOADS.iter().filter(|load| names.is_empty() || names.iter().any(|name| name == load.name)) {
        studio.take(load, Engine::Embedded, None)?;
        studio.take(load, Engine::Postgres { dsn: postgres.dsn() }, Some(&postgres))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn install(root: &Path) -> Result<PathBuf> {
    let (version, folder) = INFERNO;
    let folder = root.join(folder);
    if !folder.join("bin/inferno-flamegraph").is_file() {
        let mut cargo = tools::cargo(root);
        cargo.args(["install", "inferno", "--locked", "--version", version, "--root"]).arg(&folder);
        tools::run(&mut cargo)?;
    }
    Ok(folder.join("bin"))
}

struct Studio<'a> {
    root: &'a Path,
    inferno: PathBuf,
}

impl Studio<'_> {
    /// A server under a load, and its database beside it.
    #[expect(clippy::disallowed_methods, reason = "a load has to be under way, and says nothing of it")]
    fn take(&self, load: &Load, engine: Engine<'_>, database: Option<&Postgres>) -> Result<()> {
        let folder = self.root.join("target/flames").join(format!("{}-{}", engine.name(), load.name));
        let server = Server::start(&self.root.join("target/release/bugle"), engine, &folder)?;
        let mut generator = Command::new(self.root.join("target/release/bugle-bench"));
        generator.args(load.arguments).args(["--url", &server.url, "--partitions", "100"]);
        generator.args(["--seconds", LOAD_SECONDS]).stdout(Stdio::null());
        let mut generator = generator.spawn().context("start the load generator")?;
        std::thread::sleep(BEFORE);
        let sampled = self.sample(load, &server, engine, database, &folder);
        let ended = generator.wait().context("wait for the load generator")?;
        sampled?;
        ensure!(ended.success(), "the load generator failed: {ended}");
        Ok(())
    }

    fn sample(
        &self,
        load: &Load,
        server: &Server,
        engine: Engine<'_>,
        database: Option<&Postgres>,
        folder: &Path,
    ) -> Result<()> {
        let mut subjects = vec![(format!("{}-{}", engine.name(), load.name), vec![server.process()?])];
        if let Some(database) = database {
            subjects.push((format!("database-{}", load.name), database.processes()?));
        }
        // Both at once: they are two sides of the same work.
        let mut recordings = Vec::new();
        for (name, processes) in subjects {
            let ids: Vec<String> = processes.iter().map(u32::to_string).collect();
            let data = folder.join(format!("{name}.perf"));
            let mut perf = Command::new("perf");
            perf.args(["record", "--quiet", "--event", "cpu-clock", "--freq", RATE, "--call-graph", STACKS]);
            perf.args(["--pid", &ids.join(","), "--output"]).arg(&data).args(["--", "sleep", SECONDS]);
            recordings.push((name, data, perf.spawn().context("start perf")?));
        }
        for (name, data, mut perf) in recordings {
            let ended = perf.wait().context("wait for perf")?;
            ensure!(ended.success(), "perf failed: {ended}");
            self.draw(&name, &data)?;
        }
        Ok(())
    }

    /// `perf script | inferno-collapse-perf | inferno-flamegraph`.
    fn draw(&self, name: &str, data: &Path) -> Result<()> {
        let mut script = Command::new("perf");
        script.args(["script", "--no-inline", "--input"]).arg(data);
        let mut script =
            script.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().context("start perf script")?;
        let mut collapse = Command::new(self.inferno.join("inferno-collapse-perf"));
        collapse.stdin(script.stdout.take().context("perf script has no output")?);
        let mut collapse =
            collapse.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().context("start inferno")?;
        let picture = self.root.join(PICTURES).join(format!("{name}.svg"));
        let mut draw = Command::new(self.inferno.join("inferno-flamegraph"));
        draw.args(["--minwidth", "0.5", "--title", name]);
        draw.stdin(collapse.stdout.take().context("inferno has no output")?);
        draw.stdout(File::create(&picture).with_context(|| format!("create {}", picture.display()))?);
        tools::run(&mut draw)?;
        for (step, ended) in [("perf script", script.wait()?), ("inferno-collapse-perf", collapse.wait()?)] {
            ensure!(ended.success(), "{step} failed: {ended}");
        }
        eprintln!("{}", picture.display());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_load_is_refused() {
        let error = run(Path::new("."), &["push-7".to_owned()]).unwrap_err();
        assert!(error.to_string().contains("push-1, push-100, pop-10"), "{error}");
    }
}
