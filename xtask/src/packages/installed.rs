//! The Debian package in a clean Debian: installed, looked at by systemd's own tools, used as its unit would use it, removed.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::Packages;
use super::system::{Serving, System};
use crate::tools;

/// The worst that `systemd-analyze security` may say, in tenths: 2.0 is "OK".
const EXPOSURE: &str = "20";

pub(super) fn check(packages: &Packages<'_>, clean: &System, debian: &Path) -> Result<()> {
    let system = clean.copy(&packages.dir.join("installed"))?;
    fs::copy(debian, system.path("/tmp/bugle.deb"))?;
    system.run(&["apt-get", "update", "-qq"])?;
    system.run(&["apt-get", "install", "--yes", "-qq", "--no-install-recommends", "/tmp/bugle.deb"])?;
    system.run(&["dpkg", "--verify", "bugle"])?;
    files(&system)?;
    unit(&system)?;
    serves(&system)?;
    removed(&system)
}

/// What is where, and whose.
fn files(system: &System) -> Result<()> {
    let user = fs::read_to_string(system.path("/etc/passwd"))?;
    let line = user.lines().find(|line| line.starts_with("bugle:")).context("no user bugle was made")?;
    ensure!(line.ends_with("/usr/sbin/nologin"), "nobody should log in as: {line}");
    let settings = fs::metadata(system.path("/etc/bugle/bugle.toml"))?;
    ensure!(settings.mode() & 0o777 == 0o640 && settings.uid() == 0, "the settings may hold secrets");
    for file in ["/usr/share/doc/bugle/README.md", "/lib/systemd/system/bugle.service"] {
        let there = system.path(file).is_file() || system.path(&format!("/usr{file}")).is_file();
        ensure!(there, "{file} is missing");
    }
    Ok(())
}

/// systemd reads the unit, and finds little to attack. It does not run here: a chroot has no system manager.
fn unit(system: &System) -> Result<()> {
    let root = format!("--root={}", system.path("/").display());
    // Only that of the system is verified, not what a clean Debian without systemd lacks.
    let mut verify = Command::new("systemd-analyze");
    verify.args(["verify", "--recursive-errors=no", "--man=no", &root, "bugle.service"]);
    tools::run(&mut verify)?;
    let mut security = Command::new("systemd-analyze");
    security.args([
        "security",
        "--offline=true",
        "--no-pager",
        &root,
        "--threshold",
        EXPOSURE,
        "bugle.service",
    ]);
    tools::run(&mut security)
}

/// The command of the unit, by its user, in its directory; only the port is another one.
fn serving(system: &System) -> Result<Serving> {
    let unit = [
        system.path("/lib/systemd/system/bugle.service"),
        system.path("/usr/lib/systemd/system/bugle.service"),
    ];
    let text = unit.iter().find_map(|file| fs::read_to_string(file).ok()).context("the unit")?;
    let setting = |name: &str| {
        let found = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        found.with_context(|| format!("{name} of the unit"))
    };
    // As StateDirectory= and StateDirectoryMode= do it.
    let state = format!("/var/lib/{}", setting("StateDirectory")?);
    let mode = setting("StateDirectoryMode")?;
    let user = setting("User")?;
    system.run(&["install", "-d", "-o", user, "-g", setting("Group")?, "-m", mode, &state])?;
    let run = format!(
        "cd {} && umask {} && exec {}",
        setting("WorkingDirectory")?,
        setting("UMask")?,
        setting("ExecStart")?
    );
    let run = format!("{run} --listen=127.0.0.1:0");
    let (reuid, regid) = (format!("--reuid={user}"), format!("--regid={}", setting("Group")?));
    let words = [
        "setpriv",
        &reuid,
        &regid,
        "--init-groups",
        "--no-new-privs",
        "--bounding-set=-all",
        "sh",
        "-c",
        &run,
    ];
    Serving::start(system.command(&words))
}

fn serves(system: &System) -> Result<()> {
    let server = serving(system)?;
    let pushed = r#"{"items":[{"queue":"q","transactionId":"a","payload":1},{"queue":"q","transactionId":"b","payload":2}]}"#;
    server.curl(&["-d", pushed], "/api/v1/push")?;
    let popped = server.curl(&[], "/api/v1/pop/queue/q?autoAck=true&batch=1")?;
    ensure!(popped.contains(r#""data":1"#), "{popped}");
    server.stop()?;
    let server = serving(system)?;
    let popped = server.curl(&[], "/api/v1/pop/queue/q?autoAck=true&batch=9&wait=true&timeout=5000")?;
    ensure!(popped.contains(r#""data":2"#) && !popped.contains(r#""data":1"#), "after a restart: {popped}");
    server.stop()?;
    let data = fs::metadata(system.path("/var/lib/bugle/data"))?;
    ensure!(data.mode() & 0o077 == 0 && data.uid() != 0, "the data is the server's alone: {:o}", data.mode());
    Ok(())
}

/// Removing leaves settings and messages; purging takes the settings. Messages and their owner stay: who wants them gone
/// removes them by hand.
fn removed(system: &System) -> Result<()> {
    let is = |file: &str| system.path(file).exists();
    system.run(&["dpkg", "--remove", "bugle"])?;
    ensure!(
        !is("/usr/bin/bugle") && is("/etc/bugle/bugle.toml") && is("/var/lib/bugle/data"),
        "after removal"
    );
    system.run(&["dpkg", "--purge", "bugle"])?;
    ensure!(!is("/etc/bugle/bugle.toml") && is("/var/lib/bugle/data"), "after purging");
    Ok(())
}
