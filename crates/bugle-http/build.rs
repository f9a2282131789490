//! Puts the files of the dashboard (`dashboard/` at the top of the repository) into the program: they are served as they
//! are, so there is nothing to build and no Node to build it with.
//!
//! All of them are served under one path that names their content, so that browsers keep them for good and a new
//! version is another path. Modules that every page needs are named in `index.html`, to be fetched at once.

use std::collections::BTreeMap;
use std::env;
use std::fmt::Write as _;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};

fn main() -> io::Result<()> {
    let here = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let top = here.join("../../dashboard").canonicalize()?;
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    println!("cargo:rerun-if-changed={}", top.display());

    let mut files = BTreeMap::new();
    for folder in ["", "components", "pages", "vendor"] {
        collect(&top, folder, &mut files)?;
    }
    let mut hasher = DefaultHasher::new();
    for (name, path) in &files {
        (name, fs::read(path)?).hash(&mut hasher);
    }
    let version = format!("{:016x}", hasher.finish());

    let page = fs::read_to_string(top.join("index.html"))?;
    fs::write(out.join("index.html"), page.replace("{{version}}", &version))?;
    let mut code = format!("const VERSION: &str = {version:?};\nstatic FILES: &[(&str, &str, &[u8])] = &[\n");
    for (name, path) in files.iter().filter(|(name, _)| *name != "index.html") {
        // Writing to a string cannot fail.
        let _ = writeln!(code, "    ({name:?}, {:?}, include_bytes!({path:?})),", kind(name));
    }
    code.push_str("];\n");
    fs::write(out.join("dashboard_files.rs"), code)
}

/// The files of one folder, by their path below the top.
fn collect(top: &Path, folder: &str, files: &mut BTreeMap<String, PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(top.join(folder))? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_file() && !kind(&name).is_empty() {
            files.insert(if folder.is_empty() { name } else { format!("{folder}/{name}") }, path);
        }
    }
    Ok(())
}

/// The type of a file by its name; empty for what is not served.
fn kind(name: &str) -> &'static str {
    match name.rsplit('.').next().unwrap_or_default() {
        "html" => "text/html; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "svg" => "image/svg+xml",
        "woff2" => "font/woff2",
        _ => "",
    }
}
