//! The order of the crates: each may use only crates of lower layers.

use std::path::Path;

use anyhow::{Context, Result};

/// Crates from the lowest layer up, as ARCHITECTURE.md draws them.
const LAYERS: [&[&str]; 5] = [
    &["bugle-wire", "bugle-store", "bugle-disk", "bugle-pg"],
    &["bugle-store-postgres", "bugle-store-embedded", "bugle-spool", "bugle-wake"],
    &["bugle-broker"],
    &["bugle-http", "bugle-client", "bugle-bench"],
    &["bugle", "bugle-duroxide", "bugle-history"],
];

fn layer(name: &str) -> Option<usize> {
    LAYERS.iter().position(|crates| crates.contains(&name))
}

/// What is wrong with the dependencies of the crates under `root/crates`.
pub(crate) fn check(root: &Path) -> Result<Vec<String>> {
    let mut faults = Vec::new();
    for entry in std::fs::read_dir(root.join("crates")).context("read crates")? {
        let folder = entry?;
        let manifest = folder.path().join("Cargo.toml");
        if !manifest.is_file() {
            continue;
        }
        let text =
            std::fs::read_to_string(&manifest).with_context(|| format!("read {}", manifest.display()))?;
        let path = format!("crates/{}/Cargo.toml", folder.file_name().to_string_lossy());
        faults.extend(check_manifest(&text).into_iter().map(|fault| format!("{path}: {fault}")));
    }
    Ok(faults)
}

fn check_manifest(text: &str) -> Vec<String> {
    let (name, dependencies) = parse(text);
    let Some(own) = layer(&name) else {
        return vec![format!("crate {name:?} is in no layer; give it one in xtask/src/layers.rs")];
    };
    let ours = dependencies.iter().filter(|d| *d == "bugle" || d.starts_with("bugle-"));
    ours.filter_map(|dependency| match layer(dependency) {
        None => Some(format!("{name} uses {dependency}, which is in no layer")),
        Some(other) if other >= own => {
            Some(format!("{name} (layer {}) uses {dependency} (layer {})", own + 1, other + 1))
        }
        Some(_) => None,
    })
    .collect()
}

/// The name of a package and what it depends on. Dependencies of tests are free: they are in no product.
fn parse(text: &str) -> (String, Vec<String>) {
    let (mut name, mut dependencies) = (String::new(), Vec::new());
    let (mut in_package, mut in_dependencies) = (false, false);
    for line in text.lines().map(str::trim).filter(|l| !l.starts_with('#')) {
        if let Some(section) = line.strip_prefix('[').and_then(|l| l.split_once(']')).map(|(s, _)| s) {
            in_package = section == "package";
            let table = section.rsplit_once("dependencies").filter(|(before, _)| !before.ends_with("dev-"));
            in_dependencies = table.is_some_and(|(_, after)| after.is_empty());
            if let Some(dependency) = table.and_then(|(_, after)| after.strip_prefix('.')) {
                dependencies.push(dependency.trim_matches('"').to_owned());
            }
            continue;
        }
        let key = line.split(['=', '.', ' ']).next().unwrap_or_default().trim_matches('"');
        if in_package && key == "name" {
            name = line.split('"').nth(1).unwrap_or_default().to_owned();
        } else if in_dependencies && !key.is_empty() {
            dependencies.push(key.to_owned());
        }
    }
    (name, dependencies)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(name: &str, rest: &str) -> String {
        format!("[package]\nname = \"{name}\"\nversion.workspace = true\n{rest}")
    }

    #[test]
    fn a_crate_may_use_lower_layers_only() {
        let good = manifest("bugle-broker", "[dependencies]\nbugle-wake.workspace = true\ntokio = \"1\"\n");
        assert!(check_manifest(&good).is_empty());
        for form in [
            "[dependencies]\nbugle-http.workspace = true\n",
            "[dependencies]\nbugle-http = { path = \"x\" }\n",
            "[dependencies.bugle-http]\npath = \"x\"\n",
            "[target.'cfg(unix)'.dependencies]\nbugle-http.workspace = true\n",
            "[build-dependencies]\nbugle-http.workspace = true\n",
        ] {
            let faults = check_manifest(&manifest("bugle-broker", form));
            assert_eq!(faults, ["bugle-broker (layer 3) uses bugle-http (layer 4)"], "{form}");
        }
        let same = manifest("bugle-wake", "[dependencies]\nbugle-store-postgres.workspace = true\n");
        assert_eq!(check_manifest(&same).len(), 1);
    }

    #[test]
    fn tests_may_use_any_crate_and_unknown_crates_are_named() {
        let tests = manifest("bugle-broker", "[dev-dependencies]\nbugle-http.workspace = true\n");
        assert!(check_manifest(&tests).is_empty());
        assert!(check_manifest(&manifest("bugle-common", ""))[0].contains("bugle-common"));
        let unknown = manifest("bugle", "[dependencies]\nbugle-common.workspace = true\n");
        assert!(check_manifest(&unknown)[0].contains("bugle-common"));
    }
}
