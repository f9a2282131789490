//! A page as somebody uses it: looks, clicks, types, waits for what should appear.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::chromium::{Chromium, Seen};

/// Milliseconds that anything awaited may take; the machine may be busy.
const PATIENCE: u32 = 20_000;

/// How a page is looked at.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Look {
    Light,
    Dark,
    Phone,
}

impl Look {
    pub(crate) const ALL: [Self; 3] = [Self::Light, Self::Dark, Self::Phone];

    fn name(self) -> &'static str {
        match self {
            Self::Light => "light",
            Self::Dark => "dark",
            Self::Phone => "phone",
        }
    }
}

/// The browser's one tab, on a server.
pub(crate) struct Page {
    browser: Chromium,
    url: String,
    shots: PathBuf,
    axe: String,
}

impl Page {
    pub(crate) fn new(browser: Chromium, url: String, shots: PathBuf, axe: String) -> Result<Self> {
        let mut page = Self { browser, url, shots, axe };
        page.look(Look::Light)?;
        Ok(page)
    }

    /// Use another server from now on.
    pub(crate) fn turn_to(&mut self, url: String) -> Result<()> {
        // What the page of the other one still asked for is no request that leaves this one.
        self.browser.call("Page.navigate", json!({ "url": "about:blank" }))?;
        self.browser.seen();
        self.url = url;
        Ok(())
    }

    /// Load the dashboard anew at this place (behind the `#`).
    pub(crate) fn load(&mut self, place: &str) -> Result<()> {
        self.browser.call("Page.navigate", json!({ "url": "about:blank" }))?;
        let url = format!("{}/#{place}", self.url);
        self.browser.call("Page.navigate", json!({ "url": url }))?;
        self.until("document.readyState === 'complete'")
    }

    /// Go somewhere inside of the dashboard.
    pub(crate) fn go(&mut self, place: &str) -> Result<()> {
        self.eval(&format!("location.hash = {}", json!(format!("#{place}"))))?;
        self.until("!document.querySelector('main .loading[role=status]')")
    }

    /// Width, theme.
    pub(crate) fn look(&mut self, look: Look) -> Result<()> {
        let (width, height) = if matches!(look, Look::Phone) { (390, 844) } else { (1440, 900) };
        let phone = matches!(look, Look::Phone);
        let metrics = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": phone });
        self.browser.call("Emulation.setDeviceMetricsOverride", metrics)?;
        let theme = if matches!(look, Look::Dark) { "dark" } else { "light" };
        let features = json!([{ "name": "prefers-color-scheme", "value": theme }]);
        self.browser.call("Emulation.setEmulatedMedia", json!({ "features": features }))?;
        Ok(())
    }

    /// The value of an expression, awaited if it is a promise.
    pub(crate) fn eval(&mut self, script: &str) -> Result<Value> {
        let wanted = json!({ "expression": script, "awaitPromise": true, "returnByValue": true });
        let answer = self.browser.call("Runtime.evaluate", wanted)?;
        if let Some(thrown) = answer.get("exceptionDetails") {
            bail!("{script}: {}", thrown["exception"]["description"]);
        }
        Ok(answer["result"]["value"].clone())
    }

    /// Wait until an expression is true, looking at it at every frame.
    pub(crate) fn until(&mut self, condition: &str) -> Result<()> {
        let script = format!(
            "new Promise((done) => {{ const end = performance.now() + {PATIENCE}; \
             const look = () => {{ let is = false; try {{ is = !!({condition}); }} catch {{}} \
             if (is) done(true); else if (performance.now() > end) done(false); else setTimeout(look, 30); }}; look(); }})"
        );
        if self.eval(&script)? != true {
            let text = self.eval("document.body.innerText.slice(0, 1500)")?;
            let _ = self.shot("failure");
            bail!("never so: {condition}\nthe page says: {}", text.as_str().unwrap_or_default());
        }
        Ok(())
    }

    /// Wait until this text is on the page.
    pub(crate) fn until_text(&mut self, text: &str) -> Result<()> {
        self.until(&format!("document.body.innerText.includes({})", json!(text)))
    }

    /// Press the mouse in the middle of an element.
    pub(crate) fn click(&mut self, selector: &str) -> Result<()> {
        let found = format!("document.querySelector({})", json!(selector));
        self.until(&format!("{found} && !{found}.disabled")).with_context(|| selector.to_owned())?;
        let middle = self.eval(&format!(
            "(() => {{ const e = {found}; e.scrollIntoView({{ block: 'center' }}); const r = e.getBoundingClientRect(); \
             return [r.left + r.width / 2, r.top + r.height / 2]; }})()"
        ))?;
        for kind in ["mousePressed", "mouseReleased"] {
            let event =
                json!({ "type": kind, "x": middle[0], "y": middle[1], "button": "left", "clickCount": 1 });
            self.browser.call("Input.dispatchMouseEvent", event)?;
        }
        Ok(())
    }

    /// Put text into a field, in the place of what is there.
    pub(crate) fn fill(&mut self, selector: &str, text: &str) -> Result<()> {
        let found = format!("document.querySelector({})", json!(selector));
        self.until(&found).with_context(|| selector.to_owned())?;
        self.eval(&format!("{found}.focus(), {found}.select?.()"))?;
        if text.is_empty() {
            return self.press("Backspace", "Backspace", "");
        }
        self.browser.call("Input.insertText", json!({ "text": text }))?;
        Ok(())
    }

    /// Choose in a list.
    pub(crate) fn choose(&mut self, selector: &str, value: &str) -> Result<()> {
        let found = format!("document.querySelector({})", json!(selector));
        self.until(&found)?;
        let change = format!("{found}.value = {}, {found}.dispatchEvent(new Event('change'))", json!(value));
        self.eval(&change).map(drop)
    }

    /// Press a key with a letter on it.
    pub(crate) fn key(&mut self, letter: &str) -> Result<()> {
        self.press(letter, "", letter)
    }

    /// Press the key that leaves what is open.
    pub(crate) fn escape(&mut self) -> Result<()> {
        self.press("Escape", "Escape", "")
    }

    fn press(&mut self, key: &str, code: &str, text: &str) -> Result<()> {
        let virtual_code = match key {
            "Backspace" => 8,
            "Escape" => 27,
            _ => 0,
        };
        for kind in ["keyDown", "keyUp"] {
            let mut event =
                json!({ "type": kind, "key": key, "code": code, "windowsVirtualKeyCode": virtual_code });
            if kind == "keyDown" && !text.is_empty() {
                event["text"] = text.into();
            }
            self.browser.call("Input.dispatchKeyEvent", event)?;
        }
        Ok(())
    }

    /// A picture of what is in view.
    pub(crate) fn shot(&mut self, name: &str) -> Result<()> {
        let answer = self.browser.call("Page.captureScreenshot", json!({ "format": "png" }))?;
        let bytes = STANDARD.decode(answer["data"].as_str().unwrap_or_default())?;
        fs::create_dir_all(&self.shots)?;
        fs::write(self.shots.join(format!("{name}.png")), bytes)?;
        Ok(())
    }

    /// Pictures in every look, and no serious fault of accessibility in any theme.
    pub(crate) fn judge(&mut self, name: &str) -> Result<()> {
        // What was said before belongs to another picture.
        self.eval("document.querySelector('.toasts')?.replaceChildren()")?;
        for look in Look::ALL {
            self.look(look)?;
            // Charts are drawn anew for their size and theme.
            self.eval("new Promise((done) => setTimeout(done, 120))")?;
            // What is not colour is the same in every look.
            let rules = match look {
                Look::Light => "{}",
                Look::Dark => "{ runOnly: ['color-contrast'] }",
                Look::Phone => "",
            };
            if !rules.is_empty() {
                self.accessible(rules).with_context(|| format!("{name}, {}", look.name()))?;
            }
            let wide = self.eval("document.documentElement.scrollWidth - innerWidth")?;
            ensure!(wide.as_i64() <= Some(0), "{name}, {}: wider than the screen by {wide}", look.name());
            self.shot(&format!("{name}-{}", look.name()))?;
        }
        self.look(Look::Light)
    }

    /// What axe finds that is serious or critical.
    fn accessible(&mut self, rules: &str) -> Result<()> {
        if self.eval("typeof axe")? != "object" {
            let axe = self.axe.clone();
            self.eval(&format!("{axe}; 0"))?;
        }
        let found = self.eval(&format!(
            "axe.run(document, {{ ...{rules}, resultTypes: ['violations'] }}).then((r) => r.violations \
             .filter((v) => ['serious', 'critical'].includes(v.impact)) \
             .map((v) => v.id + ': ' + v.nodes.slice(0, 3).map((n) => n.html.slice(0, 160) + ' ' + (n.any[0]?.message ?? '')).join(' | ')))",
        ))?;
        let found: Vec<&str> = found.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        ensure!(found.is_empty(), "not accessible:\n{}", found.join("\n"));
        Ok(())
    }

    /// Gather what happened; nothing may have gone wrong, and nobody else may have been asked.
    pub(crate) fn settle(&mut self, what: &str) -> Result<Seen> {
        let seen = self.browser.seen();
        let foreign = |url: &&String| {
            !url.starts_with(&self.url) && !url.starts_with("about:") && !url.starts_with("data:")
        };
        let foreign: Vec<&String> = seen.requests.iter().filter(foreign).collect();
        ensure!(foreign.is_empty(), "{what}: requests that leave the server: {foreign:?}");
        // A refusal that a page expects is told by the browser as an error all the same.
        let errors: Vec<&String> =
            seen.errors.iter().filter(|error| !error.contains("status of 401")).collect();
        ensure!(errors.is_empty(), "{what}: errors in the console: {errors:#?}");
        Ok(seen)
    }

    /// Where pictures are.
    pub(crate) fn shots(&self) -> &Path {
        &self.shots
    }
}
