//! The Dockerfile followed without Docker: the last stage's instructions one by one in a clean Debian, then what the image would
//! run, by its user, with its environment, and its health check.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use super::Packages;
use super::system::{Serving, System};

const FILE: &str = "deploy/docker/Dockerfile";
/// What a build stage runs that is not done again here: the package was built by the same command.
const BUILDS: &str = "cargo build --release --locked --package bugle";

/// What the image is told to do when it runs.
#[derive(Default)]
struct Image {
    user: String,
    workdir: String,
    environment: Vec<(String, String)>,
    entrypoint: Vec<String>,
    command: Vec<String>,
    health: Vec<String>,
}

pub(super) fn check(packages: &Packages<'_>, clean: &System) -> Result<()> {
    let text = fs::read_to_string(packages.root.join(FILE))?;
    let stages = stages(&text);
    let [(build, first), (last, second)] = &stages[..] else { bail!("{FILE}: two stages are expected") };
    ensure!(
        build.starts_with("rust:") && build.contains("bookworm"),
        "{build}: another Debian than the image's"
    );
    ensure!(last == "debian:bookworm-slim", "{last}");
    ensure!(first.iter().any(|(_, rest)| rest.contains(BUILDS)), "{FILE} builds by another command");
    let system = clean.copy(&packages.dir.join("image"))?;
    // What the build stage installs exists under these names.
    let installs = first.iter().filter(|(word, rest)| word == "RUN" && rest.contains("apt-get install"));
    for (_, rest) in installs {
        let simulated = rest
            .split(" && rm ")
            .next()
            .unwrap_or(rest)
            .replace("apt-get install", "apt-get install --simulate");
        system.run(&["sh", "-c", &simulated])?;
    }
    let image = follow(packages, &system, second)?;
    serves(&system, &image)
}

/// Base images with their instructions; lines that are continued are one.
fn stages(text: &str) -> Vec<(String, Vec<(String, String)>)> {
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim_start().starts_with('#')).collect();
    let whole = lines.join("\n").replace("\\\n", " ");
    let mut stages: Vec<(String, Vec<(String, String)>)> = Vec::new();
    for line in whole.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match (word, stages.last_mut()) {
            ("FROM", _) => stages.push((rest.split(' ').next().unwrap_or_default().to_owned(), Vec::new())),
            (_, Some((_, found))) => found.push((word.to_owned(), rest.trim().to_owned())),
            (_, None) => {}
        }
    }
    stages
}

fn follow(packages: &Packages<'_>, system: &System, steps: &[(String, String)]) -> Result<Image> {
    let mut image = Image { workdir: "/".to_owned(), ..Image::default() };
    for (word, rest) in steps {
        eprintln!("   {word} {rest}");
        match word.as_str() {
            "RUN" => system.run(&["sh", "-c", rest])?,
            "COPY" => {
                ensure!(rest == "--from=build /bugle /usr/bin/bugle", "another file is copied: {rest}");
                let to = system.path("/usr/bin/bugle");
                let done = Command::new("strip").arg("-o").arg(&to).arg(packages.binary()).status()?;
                ensure!(done.success(), "strip: {done}");
            }
            "USER" => image.user.clone_from(rest),
            "WORKDIR" => image.workdir.clone_from(rest),
            "ENV" => {
                let pairs = rest.split(' ').filter_map(|pair| pair.split_once('='));
                image.environment.extend(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())));
            }
            "ENTRYPOINT" => image.entrypoint = words(rest)?,
            "CMD" => image.command = words(rest)?,
            "HEALTHCHECK" => image.health = words(rest.split_once("CMD ").context("HEALTHCHECK … CMD")?.1)?,
            "VOLUME" | "EXPOSE" | "STOPSIGNAL" => {}
            _ => bail!("{FILE}: nobody knows {word}"),
        }
    }
    Ok(image)
}

/// A list of strings as JSON has it; what is escaped in it is what this file has.
fn words(list: &str) -> Result<Vec<String>> {
    let inside = list.trim().strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let inside = inside.with_context(|| format!("{list} is no list"))?;
    let quoted = inside.split("\", \"").map(|word| word.trim().trim_matches('"'));
    Ok(quoted.map(|word| word.replace("\\\\", "\\")).collect())
}

fn command(system: &System, image: &Image, words: &[String]) -> Command {
    let user = format!("--reuid={}", image.user);
    let group = format!("--regid={}", image.user);
    let line = [
        "setpriv",
        &user,
        &group,
        "--clear-groups",
        "--no-new-privs",
        "--bounding-set=-all",
        "env",
        "-C",
        &image.workdir,
    ];
    let all: Vec<&str> = line.into_iter().chain(words.iter().map(String::as_str)).collect();
    let mut command = system.command(&all);
    command.envs(image.environment.iter().map(|(name, value)| (name, value)));
    command
}

fn serves(system: &System, image: &Image) -> Result<()> {
    // What the run command of the file mounts.
    fs::create_dir_all(system.path("/run/secrets"))?;
    fs::write(system.path("/run/secrets/keys"), "me:admin:0123456789abcdef0123456789abcdef\n")?;
    let line: Vec<String> = image.entrypoint.iter().chain(&image.command).cloned().collect();
    let server = Serving::start(command(system, image, &line))?;
    ensure!(server.curl(&[], "/api/v1/resources/queues").is_err(), "nobody is served without a key");
    let key = ["-H", "X-API-Key: 0123456789abcdef0123456789abcdef"];
    let body = r#"{"items":[{"queue":"q","payload":1}]}"#;
    server.curl(&[&key[..], &["-d", body]].concat(), "/api/v1/push")?;
    let popped = server.curl(&key, "/api/v1/pop/queue/q?autoAck=true")?;
    ensure!(popped.contains(r#""data":1"#), "{popped}");
    let healthy = command(system, image, &image.health).status()?;
    ensure!(healthy.success(), "the health check says {healthy}");
    server.stop()?;
    ensure!(system.path("/var/lib/bugle/data").is_dir(), "the data is where the volume is");
    let healthy = command(system, image, &image.health).status()?;
    ensure!(!healthy.success(), "the health check does not notice that nothing runs");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_are_read_as_they_are_written() {
        let text = "# a\nFROM x:1 AS build\nRUN a && \\\n    b\n\nFROM y\n# c\nENV A=1 B=2\nCMD [\"s h\", \"-c\", \"x\\\\r\"]\n";
        let stages = stages(text);
        assert_eq!(stages[0].0, "x:1");
        assert_eq!(stages[0].1[0].1.split_whitespace().collect::<Vec<_>>(), ["a", "&&", "b"]);
        assert_eq!(stages[1].1[0], ("ENV".to_owned(), "A=1 B=2".to_owned()));
        assert_eq!(words(&stages[1].1[1].1).unwrap(), ["s h", "-c", "x\\r"]);
        assert!(words("serve").is_err());
    }
}
