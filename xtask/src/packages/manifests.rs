//! Kubernetes manifests and the compose file against the schemas that their programs use.

use std::process::Command;

use anyhow::Result;

use super::Packages;
use crate::tools;

/// Which carries the schemas of Kubernetes.
const KUBERNETES: &str = "kubernetes-validate==1.37.0";
/// Which carries the schema of compose files. Only that is used of it.
const COMPOSE: &str = "docker-compose==1.29.2";

/// The schema of compose files is taken from the package and asked; references to secrets and volumes are followed by hand.
const ASKS: &str = r#"
import glob, json, sys, yaml, zipfile, jsonschema
wheel, = glob.glob(sys.argv[1] + "/docker_compose-*.whl")
schema = json.loads(zipfile.ZipFile(wheel).read("compose/config/compose_spec.json"))
whole = yaml.safe_load(open(sys.argv[2]))
jsonschema.Draft7Validator(schema).validate(whole)
for name, service in whole["services"].items():
    for secret in service.get("secrets", []):
        assert secret in whole["secrets"], (name, secret)
    for volume in service.get("volumes", []):
        assert volume.split(":")[0] in whole["volumes"], (name, volume)
    for other in service.get("depends_on", []):
        assert other in whole["services"], (name, other)
print(sys.argv[2] + ": a compose file of", len(whole["services"]), "services")
"#;

pub(super) fn check(packages: &Packages<'_>) -> Result<()> {
    let venv = packages.dir.join("python");
    let python = venv.join("bin/python");
    if !python.is_file() {
        tools::run(Command::new("python3").args(["-m", "venv"]).arg(&venv))?;
    }
    let pip = |words: &[&str]| {
        let mut pip = Command::new(&python);
        pip.args(["-m", "pip", "--quiet", "--disable-pip-version-check"])
            .args(words)
            .current_dir(&packages.dir);
        tools::run(&mut pip)
    };
    pip(&["install", KUBERNETES])?;
    pip(&["download", "--no-deps", "--dest", "wheels", COMPOSE])?;
    let mut kubernetes = Command::new(venv.join("bin/kubernetes-validate"));
    kubernetes.arg("--strict").current_dir(packages.root);
    tools::run(kubernetes.args(["deploy/kubernetes/embedded.yaml", "deploy/kubernetes/postgres.yaml"]))?;
    let mut compose = Command::new(&python);
    compose.args(["-c", ASKS]).arg(packages.dir.join("wheels")).current_dir(packages.root);
    tools::run(compose.arg("deploy/docker/compose.yaml"))
}
