//! Programs the suites need. What is missing is installed when that is possible, and named when it is not.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use crate::postgres;

/// A program that has to be there. A suite that needs another one (an interpreter) adds it here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tool {
    Nextest,
    Postgres,
    PgBouncer,
    Curl,
    /// An interpreter that can make virtual environments.
    Python,
    /// An interpreter of JavaScript.
    Node,
    Openssl,
    /// A library that gives a process another clock.
    Faketime,
    /// Runs PostgreSQL clusters, with etcd.
    Patroni,
    Etcd,
    Haproxy,
    Nginx,
    /// Reads YAML, for the system's interpreter of Python.
    Yaml,
    /// Systems we are compared with.
    Redis,
    RabbitMq,
    Nats,
    /// An interpreter for libraries we are compared with, with their installer.
    Npm,
    /// Counts system calls of other processes.
    Strace,
    /// Counts instructions.
    Valgrind,
    /// Samples where programs spend their time.
    Perf,
    /// A browser without a window.
    Chromium,
    /// Makes a small Debian in a directory.
    Debootstrap,
}

impl Tool {
    fn is_there(self) -> bool {
        match self {
            Self::Nextest => on_path("cargo-nextest").is_some(),
            Self::Postgres => postgres::programs().is_some(),
            Self::PgBouncer => on_path("pgbouncer").is_some(),
            Self::Curl => on_path("curl").is_some(),
            Self::Python => succeeds("python3", &["-c", "import ensurepip, venv"]),
            Self::Node => on_path("node").is_some(),
            Self::Openssl => on_path("openssl").is_some(),
            Self::Faketime => on_path("faketime").is_some(),
            Self::Patroni => on_path("patroni").is_some(),
            Self::Etcd => on_path("etcd").is_some(),
            Self::Haproxy => on_path("haproxy").is_some(),
            Self::Nginx => on_path("nginx").is_some(),
            Self::Yaml => succeeds("/usr/bin/python3", &["-c", "import yaml"]),
            Self::Redis => on_path("redis-server").is_some(),
            Self::RabbitMq => Path::new("/usr/lib/rabbitmq/bin/rabbitmq-server").is_file(),
            Self::Nats => on_path("nats-server").is_some(),
            Self::Npm => on_path("node").is_some() && on_path("npm").is_some(),
            Self::Strace => on_path("strace").is_some(),
            Self::Valgrind => on_path("valgrind").is_some(),
            Self::Perf => on_path("perf").is_some(),
            Self::Chromium => on_path("chromium").is_some(),
            Self::Debootstrap => on_path("debootstrap").is_some(),
        }
    }

    /// The Debian package, for tools that come from one.
    fn package(self) -> Option<&'static str> {
        match self {
            Self::Nextest => None,
            Self::Postgres => Some("postgresql"),
            Self::PgBouncer => Some("pgbouncer"),
            Self::Curl => Some("curl"),
            Self::Python => Some("python3-venv"),
            Self::Node => Some("nodejs"),
            Self::Openssl => Some("openssl"),
            Self::Faketime => Some("faketime"),
            Self::Patroni => Some("patroni"),
            Self::Etcd => Some("etcd-server"),
            Self::Haproxy => Some("haproxy"),
            Self::Nginx => Some("nginx-light"),
            Self::Yaml => Some("python3-yaml"),
            Self::Redis => Some("redis-server"),
            Self::RabbitMq => Some("rabbitmq-server"),
            Self::Nats => Some("nats-server"),
            Self::Npm => Some("npm"),
            Self::Strace => Some("strace"),
            Self::Valgrind => Some("valgrind"),
            Self::Perf => Some("linux-perf"),
            Self::Chromium => Some("chromium"),
            Self::Debootstrap => Some("debootstrap"),
        }
    }
}

/// Installs those of `tools` that are missing.
pub(crate) fn ensure_installed(tools: &[Tool]) -> Result<()> {
    let missing: Vec<Tool> = tools.iter().copied().filter(|t| !t.is_there()).collect();
    let packages: Vec<&str> = missing.iter().filter_map(|t| t.package()).collect();
    if !packages.is_empty() {
        install_packages(&packages)?;
    }
    if missing.contains(&Tool::Nextest) {
        run(Command::new("cargo").args(["install", "cargo-nextest", "--locked"]))?;
    }
    for tool in missing {
        ensure!(tool.is_there(), "{tool:?} was installed but cannot be found");
    }
    Ok(())
}

fn install_packages(packages: &[&str]) -> Result<()> {
    let names = packages.join(" ");
    if !is_root() || on_path("apt-get").is_none() {
        bail!("missing: {names}. Install with: sudo apt-get install --no-install-recommends {names}");
    }
    let apt = || {
        let mut command = Command::new("apt-get");
        command.env("DEBIAN_FRONTEND", "noninteractive");
        command
    };
    run(apt().arg("update"))?;
    run(apt().args(["install", "--yes", "--no-install-recommends"]).args(packages))
}

/// The cargo that runs this, at the top of the repository.
pub(crate) fn cargo(root: &Path) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root);
    // Set by cargo for xtask itself; inherited, they would rebuild what reads them.
    for (name, _) in std::env::vars_os().filter(|(n, _)| n.to_string_lossy().starts_with("CARGO_PKG_")) {
        command.env_remove(name);
    }
    command.env_remove("CARGO_MANIFEST_DIR").env_remove("CARGO_MANIFEST_PATH");
    if std::env::var_os("CI").is_some() {
        // Nobody builds there a second time, and what the next build would use takes half of the disk.
        command.env("CARGO_INCREMENTAL", "0");
    }
    command
}

/// Runs a command to its end; a failure names it.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let line = words.map(|w| w.to_string_lossy()).collect::<Vec<_>>().join(" ");
    let status = command.status().with_context(|| format!("cannot start: {line}"))?;
    ensure!(status.success(), "{line}: {status}");
    Ok(())
}

/// Whether a command ends well. One that cannot be started does not.
fn succeeds(program: &str, arguments: &[&str]) -> bool {
    let mut command = Command::new(program);
    command.args(arguments).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Where a program is. `/usr/sbin` is looked at as well: servers are there and it is not on everybody's path.
pub(crate) fn on_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain([Path::new("/usr/sbin").to_owned()]);
    folders.map(|folder| folder.join(program)).find(|file| file.is_file())
}

/// The children of a process.
pub(crate) fn children(process: u32) -> Result<Vec<u32>> {
    let list = std::fs::read_to_string(format!("/proc/{process}/task/{process}/children"))
        .with_context(|| format!("look for the children of process {process}"))?;
    Ok(list.split_whitespace().filter_map(|child| child.parse().ok()).collect())
}

/// Whether this process may do everything.
pub(crate) fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|m| m.uid() == 0)
}
