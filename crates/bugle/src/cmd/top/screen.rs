//! The terminal while it belongs to us: keys come as they are typed, and everything is as it was before when it ends, by a key, an
//! error, a signal or a panic.

use std::io::{IsTerminal, Read, Write, stdin, stdout};
use std::sync::Mutex;

use anyhow::{Context, Result, bail};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use tokio::sync::mpsc::{self, Receiver};

use super::frame::Size;
use crate::ending::End;

/// The other screen, without a cursor.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";

/// How the terminal was before.
static BEFORE: Mutex<Option<Termios>> = Mutex::new(None);

/// See the module.
pub(super) struct Screen {
    keys: Receiver<u8>,
}

impl Screen {
    /// Take the terminal over.
    pub(super) fn open() -> Result<Self> {
        if !stdin().is_terminal() || !stdout().is_terminal() {
            bail!(End::Usage("bugle top needs a terminal; `bugle top --once` prints one frame".into()));
        }
        let before = tcgetattr(stdin()).context("terminal")?;
        let mut raw = before.clone();
        raw.make_raw();
        // What a panic says would be lost on the other screen.
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            restore();
            hook(panic);
        }));
        *BEFORE.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(before);
        let screen = Self { keys: keys() };
        tcsetattr(stdin(), OptionalActions::Now, &raw).context("terminal")?;
        write(ENTER)?;
        Ok(screen)
    }

    /// The next key; none if there will be no more.
    pub(super) async fn key(&mut self) -> Option<u8> {
        self.keys.recv().await
    }

    /// As it is now.
    pub(super) fn size(&self) -> Size {
        let size = tcgetwinsize(stdout()).ok().filter(|size| size.ws_col > 0 && size.ws_row > 0);
        size.map_or(Size { columns: 80, lines: 24 }, |size| Size {
            columns: size.ws_col.into(),
            lines: size.ws_row.into(),
        })
    }

    /// Show these lines and nothing else.
    pub(super) fn draw(&self, lines: &[String]) -> Result<()> {
        let size = self.size();
        let shown: Vec<String> = lines.iter().take(size.lines).map(|line| format!("{line}\x1b[K")).collect();
        write(&format!("\x1b[H{}\x1b[J", shown.join("\r\n")))
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore();
    }
}

/// Give the terminal back. Done once, however often it is called.
fn restore() {
    let before = BEFORE.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take();
    if let Some(before) = before {
        let _ = write(LEAVE);
        let _ = tcsetattr(stdin(), OptionalActions::Now, &before);
    }
}

fn write(text: &str) -> Result<()> {
    let mut out = stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).context("terminal")
}

/// Keys, read by a thread that ends with the process.
fn keys() -> Receiver<u8> {
    let (send, keys) = mpsc::channel(16);
    std::thread::spawn(move || {
        for byte in stdin().lock().bytes().map_while(Result::ok) {
            if send.blocking_send(byte).is_err() {
                return;
            }
        }
    });
    keys
}
