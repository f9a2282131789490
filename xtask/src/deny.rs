//! `deny.toml`, read without cargo-deny: licences, bans, duplicates and sources. `deny.toml` says why there are two readers.
//!
//! What is built for this machine is looked at (`cargo tree`), and every line of the lock files for sources and bans.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail, ensure};

use crate::licence;
use crate::tools;

/// Of the workspace.
const LOCK: &str = "Cargo.lock";
/// Of the packages that stand beside it: they compare us with others, and bring in what those use.
const BESIDE: [&str; 3] =
    ["bench/compare/Cargo.lock", "bench/duroxide/Cargo.lock", "tests/duroxide-import/Cargo.lock"];

/// What may be, as `deny.toml` says.
#[derive(Debug, Default, PartialEq, Eq)]
struct Rules {
    licences: BTreeSet<String>,
    banned: BTreeSet<String>,
    /// Name and the beginning of a version, by which another version is tolerated.
    skipped: BTreeSet<(String, String)>,
    registries: BTreeSet<String>,
}

/// A package of somebody else that is built.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Package {
    name: String,
    version: String,
    licence: String,
}

/// `cargo xtask deny`: this check, then cargo-deny's own if it is installed.
pub(crate) fn run(root: &Path) -> Result<ExitCode> {
    check(root)?;
    let Some(program) = tools::on_path("cargo-deny") else {
        eprintln!(
            "advisories were not checked: cargo-deny is not installed (cargo install cargo-deny --locked)"
        );
        return Ok(ExitCode::SUCCESS);
    };
    let deny = |arguments: &[&str]| {
        let mut command = Command::new(&program);
        command.current_dir(root).args(arguments);
        command
    };
    tools::run(&mut deny(&["--offline", "check", "licenses", "bans", "sources"]))?;
    if deny(&["fetch", "db"]).status().is_ok_and(|status| status.success()) {
        tools::run(&mut deny(&["check", "--disable-fetch", "advisories"]))?;
    } else {
        eprintln!("advisories were not checked: their database is not reachable");
    }
    Ok(ExitCode::SUCCESS)
}

/// Check everything, print what is wrong.
pub(crate) fn check(root: &Path) -> Result<()> {
    let text = std::fs::read_to_string(root.join("deny.toml")).context("read deny.toml")?;
    let rules = rules(&text)?;
    let mut faults = Vec::new();
    let built = tree(root, "normal,build,dev")?;
    faults.extend(licences(&rules, &built));
    faults.extend(duplicates(&rules, &tree(root, "normal,build")?));
    let read = |lock: &str| std::fs::read_to_string(root.join(lock)).with_context(|| format!("read {lock}"));
    faults.extend(bans(&rules, &read(LOCK)?));
    for lock in [LOCK].iter().chain(&BESIDE) {
        faults.extend(sources(&rules, &read(lock)?).into_iter().map(|fault| format!("{lock}: {fault}")));
    }
    faults.iter().for_each(|fault| eprintln!("{fault}"));
    ensure!(faults.is_empty(), "{} dependencies are not as deny.toml wants them", faults.len());
    eprintln!("deny: {} packages; advisories are checked by `cargo xtask deny` only", built.len());
    Ok(())
}

/// The lists of the file. Whatever else stands in it is for cargo-deny.
fn rules(text: &str) -> Result<Rules> {
    let mut rules = Rules::default();
    let (mut section, mut list) = (String::new(), None);
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some(name) =
            line.strip_prefix('[').and_then(|line| line.strip_suffix(']')).filter(|_| list.is_none())
        {
            section = name.to_owned();
        } else if let Some(name) = line.strip_suffix("= [") {
            list = Some(name.trim().to_owned());
        } else if line == "]" {
            list = None;
        } else if let Some(list) = &list {
            let entry =
                line.split('"').nth(1).with_context(|| format!("deny.toml: no text in {line:?}"))?.to_owned();
            match (section.as_str(), list.as_str()) {
                ("licenses", "allow") => drop(rules.licences.insert(entry)),
                ("bans", "deny") => drop(rules.banned.insert(entry)),
                ("bans", "skip") => {
                    let (name, version) =
                        entry.split_once('@').context("deny.toml: skip needs name@version")?;
                    rules.skipped.insert((name.to_owned(), version.to_owned()));
                }
                ("sources", "allow-registry") => drop(rules.registries.insert(entry)),
                (section, list) => bail!("deny.toml: {list} in [{section}] is not known here"),
            }
        }
    }
    ensure!(!rules.licences.is_empty() && !rules.registries.is_empty(), "deny.toml allows nothing");
    Ok(rules)
}

/// The packages of others that are built for this machine, by these kinds of edges.
fn tree(root: &Path, edges: &str) -> Result<BTreeSet<Package>> {
    let mut command = tools::cargo(root);
    command.args(["tree", "--workspace", "--all-features", "--locked", "--prefix", "none"]);
    let output =
        command.args(["--edges", edges, "--format", "{p}|{l}"]).output().context("start cargo tree")?;
    ensure!(output.status.success(), "cargo tree: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8_lossy(&output.stdout).lines().filter_map(package).collect())
}

/// `name v1.2.3 (proc-macro)|MIT (*)`. Ours have their path there.
fn package(line: &str) -> Option<Package> {
    let (package, licence) = line.split_once('|')?;
    if package.contains('/') {
        return None;
    }
    let (name, rest) = package.split_once(" v")?;
    let version = rest.split(' ').next()?;
    let licence = licence.trim().trim_end_matches("(*)").trim();
    Some(Package { name: name.to_owned(), version: version.to_owned(), licence: licence.to_owned() })
}

fn licences(rules: &Rules, packages: &BTreeSet<Package>) -> Vec<String> {
    let allowed = |name: &str| rules.licences.contains(name);
    let refused =
        packages.iter().filter(|package| !licence::holds(&package.licence, &allowed).unwrap_or(false));
    refused.map(|p| format!("{} {}: licence {:?} is not allowed", p.name, p.version, p.licence)).collect()
}

fn duplicates(rules: &Rules, packages: &BTreeSet<Package>) -> Vec<String> {
    let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let skipped = |p: &Package| {
        let fits = |wanted: &str| p.version == wanted || p.version.starts_with(&format!("{wanted}."));
        rules.skipped.iter().any(|(name, version)| *name == p.name && fits(version))
    };
    for package in packages.iter().filter(|package| !skipped(package)) {
        versions.entry(&package.name).or_default().push(&package.version);
    }
    let several = versions.into_iter().filter(|(_, versions)| versions.len() > 1);
    several.map(|(name, versions)| format!("{name}: several versions: {}", versions.join(", "))).collect()
}

/// Names in a lock file that must not be there.
fn bans(rules: &Rules, lock: &str) -> Vec<String> {
    let banned = packages(lock).filter(|(name, _)| rules.banned.contains(*name));
    banned.map(|(name, _)| format!("{name} is banned")).collect()
}

/// Where the packages of a lock file come from.
fn sources(rules: &Rules, lock: &str) -> Vec<String> {
    let known =
        |source: &str| source.strip_prefix("registry+").is_some_and(|from| rules.registries.contains(from));
    let foreign = packages(lock).filter(|(_, source)| !source.is_empty() && !known(source));
    foreign.map(|(name, source)| format!("{name} comes from {source}")).collect()
}

/// Name and source of every package of a lock file. Those without a source are ours.
fn packages(lock: &str) -> impl Iterator<Item = (&str, &str)> {
    lock.split("[[package]]").skip(1).map(|package| {
        let field = |name: &str| {
            let line = package.lines().find_map(|line| line.strip_prefix(name)?.trim().strip_prefix('='));
            line.map_or("", |value| value.trim().trim_matches('"'))
        };
        (field("name"), field("source"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "[graph]\ntargets = [\"x\"]\n[licenses]\nallow = [\n  \"MIT\",\n]\n[bans]\ndeny = [\n  { crate = \"openssl\", reason = \"x\" },\n]\nskip = [\n  { crate = \"syn@2\" },\n]\n[sources]\nallow-registry = [\n  \"https://good\",\n]\nallow-git = [\n]\n";

    fn listed(lines: &[&str]) -> BTreeSet<Package> {
        lines.iter().filter_map(|line| package(line)).collect()
    }

    #[test]
    fn the_lists_are_read() {
        let rules = rules(TEXT).unwrap();
        assert!(rules.licences.contains("MIT") && rules.banned.contains("openssl"));
        assert!(rules.skipped.contains(&("syn".to_owned(), "2".to_owned())));
        assert!(super::rules("[licenses]\nallow = [\n]\n").is_err());
        assert!(super::rules("[bans]\nodd = [\n \"x\",\n]\n").is_err(), "an entry that nobody would check");
    }

    #[test]
    fn licences_duplicates_bans_and_sources_are_found() {
        let rules = rules(TEXT).unwrap();
        let tree = listed(&[
            "ours v0.1.0 (/somewhere/ours)|Apache-2.0",
            "a v1.0.0|MIT",
            "a v1.0.0|MIT (*)",
            "b v1.0.0 (proc-macro)|GPL-3.0",
            "syn v2.0.1|MIT",
            "syn v3.0.0|MIT",
            "c v1.0.0|MIT",
            "c v1.1.0|MIT OR GPL-3.0",
            "nothing v1.0.0|",
        ]);
        assert_eq!(
            licences(&rules, &tree),
            ["b 1.0.0: licence \"GPL-3.0\" is not allowed", "nothing 1.0.0: licence \"\" is not allowed"]
        );
        assert_eq!(duplicates(&rules, &tree), ["c: several versions: 1.0.0, 1.1.0"]);
        let lock = "version = 4\n[[package]]\nname = \"openssl\"\nsource = \"registry+https://good\"\n\
                    [[package]]\nname = \"d\"\nsource = \"git+https://evil\"\n[[package]]\nname = \"ours\"\n";
        assert_eq!(bans(&rules, lock), ["openssl is banned"]);
        assert_eq!(sources(&rules, lock), ["d comes from git+https://evil"]);
    }
}
