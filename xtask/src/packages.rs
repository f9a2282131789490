//! `cargo xtask packages`: builds what is shipped, installs it into clean systems and uses it there.
//!
//! Not part of `cargo xtask test`: it needs root, builds for release and fetches a small Debian. What it cannot do (a container
//! engine, a cluster, a running systemd) is said in `deploy/README.md`.

mod container;
mod installed;
mod manifests;
mod system;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail, ensure};

use crate::tools::{self, Tool};
use system::System;

/// What the checks share.
struct Packages<'r> {
    root: &'r Path,
    /// Where cargo builds.
    target: PathBuf,
    /// Where everything else is made.
    dir: PathBuf,
}

/// All checks, one after the other; the first that fails ends it.
pub(crate) fn run(root: &Path, arguments: &[String]) -> Result<ExitCode> {
    let build = match arguments {
        [] => true,
        [word] if word == "--no-build" => false,
        _ => bail!("cargo xtask packages [--no-build]"),
    };
    ensure!(
        tools::is_root(),
        "installing packages needs root: it happens in a directory of its own, by chroot"
    );
    tools::ensure_installed(&[Tool::Debootstrap, Tool::Curl, Tool::Python])?;
    let target = root.join(std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()));
    let dir = target.join("packages");
    std::fs::create_dir_all(&dir)?;
    let packages = Packages { root, target, dir };
    let debian = packages.build(build)?;
    manifests::check(&packages)?;
    let clean = System::clean(&packages.dir.join("clean"))?;
    installed::check(&packages, &clean, &debian)?;
    container::check(&packages, &clean)?;
    packages.program()?;
    eprintln!("packages: all is well");
    Ok(ExitCode::SUCCESS)
}

impl Packages<'_> {
    /// The Debian package, and with it the program for release. Where it is.
    fn build(&self, build: bool) -> Result<PathBuf> {
        if tools::on_path("cargo-deb").is_none() {
            tools::run(Command::new("cargo").args(["install", "cargo-deb", "--locked"]))?;
        }
        let output = self.dir.join("debian");
        std::fs::create_dir_all(&output)?;
        let file = output.join("bugle.deb");
        let mut deb = tools::cargo(self.root);
        deb.args(["deb", "--package", "bugle", "--locked", "--strip", "--output"]).arg(&file);
        if !build {
            deb.arg("--no-build");
        }
        tools::run(&mut deb)?;
        tools::run(Command::new("dpkg-deb").arg("--info").arg(&file))?;
        tools::run(Command::new("dpkg-deb").arg("--contents").arg(&file))?;
        Ok(file)
    }

    /// The program that was built for release.
    fn binary(&self) -> PathBuf {
        self.target.join("release/bugle")
    }

    /// How large it is, and what it needs of the system.
    fn program(&self) -> Result<()> {
        let stripped = self.dir.join("bugle-stripped");
        tools::run(Command::new("strip").arg("-o").arg(&stripped).arg(self.binary()))?;
        for file in [self.binary(), stripped] {
            let bytes = std::fs::metadata(&file).with_context(|| file.display().to_string())?.len();
            eprintln!("{}: {:.1} MB", file.display(), bytes as f64 / 1e6);
        }
        tools::run(Command::new("ldd").arg(self.binary()))
    }
}
