//! A real server on a fresh directory, and plain HTTP to it, to see what a click has done.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tempfile::TempDir;

/// A running server; killed when dropped.
pub(crate) struct Server {
    process: Child,
    api: Api,
    _data: TempDir,
}

/// How to reach a server.
#[derive(Clone, Debug)]
pub(crate) struct Api {
    address: String,
    key: Option<String>,
}

impl Server {
    /// What it logs goes to `log`.
    pub(crate) fn start(program: &Path, flags: &[&str], log: &Path) -> Result<Self> {
        let data = tempfile::tempdir()?;
        fs::create_dir_all(log.parent().unwrap_or(log))?;
        let mut command = Command::new(program);
        command.env_clear().current_dir(data.path()).stdin(Stdio::null()).stdout(Stdio::piped());
        command.stderr(fs::File::create(log)?);
        command.args(["serve", "--listen=127.0.0.1:0", "--log-level=warn"]);
        command.arg(format!("--data-dir={}", data.path().join("data").display())).args(flags);
        let mut process = command.spawn().with_context(|| format!("start {}", program.display()))?;
        let mut line = String::new();
        let mut lines = BufReader::new(process.stdout.take().context("no output")?);
        lines.read_line(&mut line)?;
        // Its output is read to the end, so that it can go on writing.
        std::thread::spawn(move || std::io::copy(&mut lines, &mut std::io::sink()));
        let url = line.trim().strip_prefix("Bugle is ready at http://").context("no greeting")?;
        let address = url.trim_end_matches('/').to_owned();
        Ok(Self { process, api: Api { address, key: None }, _data: data })
    }

    pub(crate) fn api(&self) -> Api {
        self.api.clone()
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.api.address)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Api {
    /// The same with a key.
    pub(crate) fn with_key(mut self, key: &str) -> Self {
        self.key = Some(key.to_owned());
        self
    }

    pub(crate) fn get(&self, path: &str) -> Result<Value> {
        self.call("GET", path, None)
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Result<Value> {
        self.call("POST", path, Some(body))
    }

    /// The same with a body that is a text already.
    pub(crate) fn post_text(&self, path: &str, body: &str) -> Result<String> {
        self.send("POST", path, body)
    }

    /// The answer as it is written.
    pub(crate) fn get_text(&self, path: &str) -> Result<String> {
        self.send("GET", path, "")
    }

    /// One request. One without a body is null.
    fn call(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Value> {
        let body = self.send(method, path, &body.map(Value::to_string).unwrap_or_default())?;
        Ok(if body.is_empty() { Value::Null } else { serde_json::from_str(&body)? })
    }

    /// An answer that is no success is an error.
    fn send(&self, method: &str, path: &str, text: &str) -> Result<String> {
        let key = self.key.as_ref().map(|key| format!("X-API-Key: {key}\r\n")).unwrap_or_default();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n{key}Content-Length: {}\r\n\r\n",
            self.address,
            text.len()
        );
        let mut stream = TcpStream::connect(&self.address)?;
        stream.set_read_timeout(Some(Duration::from_secs(60)))?;
        stream.write_all(head.as_bytes())?;
        stream.write_all(text.as_bytes())?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        let answer = String::from_utf8(answer)?;
        let (head, rest) = answer.split_once("\r\n\r\n").context("no answer")?;
        let chunked = head.to_ascii_lowercase().contains("transfer-encoding: chunked");
        let body = if chunked { unchunked(rest) } else { rest.to_owned() };
        let status = head.split(' ').nth(1).unwrap_or_default();
        ensure!(status.starts_with('2'), "{method} {path}: {status} {body}");
        Ok(body)
    }
}

/// A body without the lengths of its pieces.
fn unchunked(mut text: &str) -> String {
    let mut body = String::new();
    while let Some((size, rest)) = text.split_once("\r\n") {
        let size = usize::from_str_radix(size.trim(), 16).unwrap_or(0);
        if size == 0 || rest.len() < size {
            break;
        }
        body.push_str(&rest[..size]);
        text = rest[size..].trim_start_matches("\r\n");
    }
    body
}
