//! A headless Chromium, told what to do by its own protocol over two pipes: no driver, no port, no extra program.
//!
//! One command at a time; what the browser tells meanwhile is looked through for errors and for requests that leave the
//! server.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

/// Longest time of the whole run. A browser that hangs must not hang whoever waits for it.
const LONGEST: Duration = Duration::from_secs(240);

/// The browser.
pub(crate) struct Chromium {
    process: Child,
    into: ChildStdin,
    from: BufReader<ChildStdout>,
    next: u64,
    session: Option<String>,
    /// What it told while an answer was awaited.
    told: VecDeque<Value>,
    _running: Sender<()>,
}

/// What a page did besides what it was told to.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// Errors of scripts, of the console, of the page's policy.
    pub(crate) errors: Vec<String>,
    /// Addresses asked for.
    pub(crate) requests: Vec<String>,
    /// Bytes that came over the wire.
    pub(crate) bytes: u64,
}

impl Chromium {
    /// Start one with a profile of its own in `folder`.
    pub(crate) fn start(folder: &Path) -> Result<Self> {
        let flags = [
            "--headless=new",
            "--no-sandbox",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-default-apps",
            "--disable-dev-shm-usage",
            "--disable-extensions",
            "--disable-gpu",
            "--disable-sync",
            "--hide-scrollbars",
            "--mute-audio",
            "--no-first-run",
            "--no-default-browser-check",
            "--force-color-profile=srgb",
            "--remote-debugging-pipe",
        ];
        // The protocol is spoken over the descriptors 3 and 4, which a shell makes of input and output.
        let mut shell = Command::new("sh");
        shell.args(["-c", "exec chromium \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1", "sh"]).args(flags);
        shell.arg(format!("--user-data-dir={}", folder.display())).arg("about:blank");
        shell.env("TZ", "UTC").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = shell.spawn().context("start chromium")?;
        let into = process.stdin.take().context("no input")?;
        let from = BufReader::new(process.stdout.take().context("no output")?);
        let running = watch(process.id());
        let told = VecDeque::new();
        let mut browser = Self { process, into, from, next: 0, session: None, told, _running: running };
        browser.attach()?;
        Ok(browser)
    }

    /// A tab to speak to.
    fn attach(&mut self) -> Result<()> {
        let target = self.call("Target.createTarget", json!({ "url": "about:blank" }))?;
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let session = self.call("Target.attachToTarget", attach)?;
        self.session = session["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log", "Network"] {
            self.call(&format!("{domain}.enable"), json!({}))?;
        }
        Ok(())
    }

    /// One command and its answer.
    pub(crate) fn call(&mut self, method: &str, params: Value) -> Result<Value> {
        self.next += 1;
        let id = self.next;
        let mut command = json!({ "id": id, "method": method, "params": params });
        if let Some(session) = &self.session {
            command["sessionId"] = session.as_str().into();
        }
        self.into.write_all(command.to_string().as_bytes())?;
        self.into.write_all(&[0])?;
        self.into.flush()?;
        loop {
            let message = self.read()?;
            if message["id"] == id {
                ensure!(message.get("error").is_none(), "{method}: {}", message["error"]);
                return Ok(message["result"].clone());
            }
            if message.get("method").is_some() {
                self.told.push_back(message);
            }
        }
    }

    fn read(&mut self) -> Result<Value> {
        let mut text = Vec::new();
        self.from.read_until(0, &mut text)?;
        if text.pop() != Some(0) {
            bail!("the browser ended");
        }
        Ok(serde_json::from_slice(&text)?)
    }

    /// What happened since this was asked last.
    pub(crate) fn seen(&mut self) -> Seen {
        let mut seen = Seen::default();
        for event in self.told.drain(..) {
            let params = &event["params"];
            match event["method"].as_str().unwrap_or_default() {
                "Runtime.exceptionThrown" => seen.errors.push(params["exceptionDetails"].to_string()),
                "Runtime.consoleAPICalled" if params["type"] == "error" => {
                    seen.errors.push(params["args"].to_string());
                }
                "Log.entryAdded" if params["entry"]["level"] == "error" => {
                    seen.errors.push(format!("{} {}", params["entry"]["text"], params["entry"]["url"]));
                }
                "Network.requestWillBeSent" => {
                    seen.requests.push(params["request"]["url"].as_str().unwrap_or_default().to_owned());
                }
                "Network.loadingFinished" => {
                    seen.bytes += params["encodedDataLength"].as_f64().unwrap_or_default() as u64;
                }
                _ => {}
            }
        }
        seen
    }
}

impl Drop for Chromium {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// End the browser if the run takes too long: whoever reads from it then finds its end. What is answered is dropped at the
/// end of the run.
fn watch(process: u32) -> Sender<()> {
    let (running, ended) = mpsc::channel();
    thread::spawn(move || {
        if ended.recv_timeout(LONGEST) == Err(RecvTimeoutError::Timeout) {
            let _ = Command::new("kill").args(["-KILL", &process.to_string()]).status();
        }
    });
    running
}
