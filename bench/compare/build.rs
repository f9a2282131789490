//! Finds the SQL that the crate `pgmq` ships, so that exactly the version in the lock file is installed.

use std::path::Path;
use std::process::Command;

fn main() {
    let cargo = std::env::var("CARGO").expect("cargo says where it is");
    let output = Command::new(cargo)
        .args(["metadata", "--format-version=1", "--locked", "--offline", "--filter-platform"])
        .arg(std::env::var("TARGET").expect("cargo says for what it builds"))
        .current_dir(std::env::var("CARGO_MANIFEST_DIR").expect("cargo says where the package is"))
        .output()
        .expect("cargo metadata runs");
    assert!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).expect("cargo metadata is JSON");
    let packages = metadata["packages"].as_array().expect("packages");
    let pgmq = packages.iter().find(|p| p["name"] == "pgmq").expect("pgmq is a dependency");
    let folder = Path::new(pgmq["manifest_path"].as_str().expect("a path")).parent().expect("a folder");
    let sql = folder.join("src/install/embedded/sql/pgmq.sql");
    println!("cargo::rustc-env=PGMQ_SQL={}", sql.display());
    println!("cargo::rustc-env=PGMQ_VERSION={}", pgmq["version"].as_str().expect("a version"));
    println!("cargo::rerun-if-changed=Cargo.lock");
}
