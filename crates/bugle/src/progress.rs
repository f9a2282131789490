//! How far a long command is, on one line of standard error that is drawn again and again; silent where that is no terminal.

use std::io::{IsTerminal, Write, stderr};
use std::time::{Duration, Instant};

const PAUSE: Duration = Duration::from_millis(100);
const BAR: u64 = 24;

/// See the module.
pub(crate) struct Progress {
    shown: bool,
    what: &'static str,
    started: Instant,
    drawn: Option<Instant>,
}

impl Progress {
    /// Of something that is called `what` while it goes on.
    pub(crate) fn new(what: &'static str) -> Self {
        Self { shown: stderr().is_terminal(), what, started: Instant::now(), drawn: None }
    }

    /// So many are done. `share`: how much of a whole, where that is known.
    pub(crate) fn at(&mut self, done: u64, share: Option<(u64, u64)>) {
        if !self.shown || self.drawn.is_some_and(|drawn| drawn.elapsed() < PAUSE) {
            return;
        }
        self.drawn = Some(Instant::now());
        let line = spelled(self.what, done, share, self.started.elapsed());
        let _ = write!(stderr(), "\r\x1b[2K{line}").and_then(|()| stderr().flush());
    }

    /// Make room for what is printed next.
    pub(crate) fn clear(&mut self) {
        if self.drawn.take().is_some() {
            let _ = write!(stderr(), "\r\x1b[2K").and_then(|()| stderr().flush());
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}

fn spelled(what: &str, done: u64, share: Option<(u64, u64)>, time: Duration) -> String {
    let rate = done as f64 / time.as_secs_f64().max(0.001);
    let bar = match share {
        Some((part, whole)) if whole > 0 => {
            let filled = (part.min(whole) * BAR / whole) as usize;
            let percent = part.min(whole) * 100 / whole;
            format!("[{}{}] {percent:>3} %  ", "#".repeat(filled), ".".repeat(BAR as usize - filled))
        }
        _ => String::new(),
    };
    format!("{what}  {bar}{done} messages  {rate:.0}/s")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_becomes_a_bar() {
        let second = Duration::from_secs(1);
        assert_eq!(spelled("pushing", 10, None, second), "pushing  10 messages  10/s");
        let half = spelled("pushing", 10, Some((1, 2)), second);
        assert_eq!(half, "pushing  [############............]  50 %  10 messages  10/s");
        assert!(spelled("x", 0, Some((9, 4)), second).contains("100 %"));
    }
}
