//! Were the promises kept? From what clients saw, and nothing else.
//!
//! [`Load`] describes clients of one or several servers. [`drive`] lets them push, pop, acknowledge and transact with ids that
//! occur once, go on whatever fails, and write down every request with its outcome, also that the outcome is not known. After
//! that it takes out what is left. [`check`] reads such a [`History`] and names every promise that was broken:
//!
//! ```no_run
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! use bugle_history::{Load, Terms, check, drive};
//!
//! let load = Load::new(["http://localhost:6632"]);
//! let history = drive(&load, std::time::Duration::from_secs(60)).await?;
//! let report = check(&history, &Terms::default());
//! assert!(report.violations.is_empty(), "{report}");
//! # Ok(())
//! # }
//! ```
//!
//! Faults are the caller's: whoever wants them kills and cuts while `drive` runs.
//!
//! Modules in reading order; each uses only those above it.

mod record;
mod report;

mod check;

mod load;
mod recorder;

mod session;

mod producer;

mod consumer;

mod drive;

pub use check::{Terms, check};
pub use drive::{DriveError, Running, drive};
pub use load::Load;
pub use record::{Acked, Delivered, History, Op, Outcome, Pushed, Record, Said, Status};
pub use recorder::Recorder;
pub use report::{Report, Rule, Violation};
