//! Structured logs on standard error, as text for people or JSON for machines. The level can be changed while they run.

use anyhow::{Context, Result};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::Directive;

use crate::settings::LogFormat;

/// Logs that are written whatever the level is, since they are no matter of detail. A filter may name them.
const ALWAYS: [&str; 2] = ["bugle::audit", "bugle::access"];

/// The running logs.
pub(crate) struct Logs(Box<dyn Fn(EnvFilter) -> Result<()> + Send + Sync>);

impl Logs {
    /// Change the level.
    pub(crate) fn set(&self, level: &str) -> Result<()> {
        (self.0)(filter(level)?)
    }
}

/// Start logging. `level` is a level (`info`) or a filter (`info,bugle_broker=debug`).
pub(crate) fn start(format: LogFormat, level: &str) -> Result<Logs> {
    let logs = tracing_subscriber::fmt().with_env_filter(filter(level)?).with_writer(std::io::stderr);
    let (set, started): (Logs, _) = match format {
        LogFormat::Text => {
            let logs = logs.with_ansi(false).with_filter_reloading();
            let handle = logs.reload_handle();
            (Logs(Box::new(move |filter| handle.reload(filter).context("log-level"))), logs.try_init())
        }
        LogFormat::Json => {
            let logs = logs.json().flatten_event(true).with_filter_reloading();
            let handle = logs.reload_handle();
            (Logs(Box::new(move |filter| handle.reload(filter).context("log-level"))), logs.try_init())
        }
    };
    started.map_err(|error| anyhow::anyhow!("logs: {error}"))?;
    Ok(set)
}

fn filter(level: &str) -> Result<EnvFilter> {
    let mut filter = EnvFilter::try_new(level).context("log-level")?;
    for target in ALWAYS.into_iter().filter(|target| !level.contains(target)) {
        let directive: Directive = format!("{target}=info").parse().context("log-level")?;
        filter = filter.add_directive(directive);
    }
    Ok(filter)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn audit_lines_are_written_at_every_level_unless_named() {
        assert_eq!(filter("error").unwrap().to_string().matches("bugle::audit=info").count(), 1);
        assert!(!filter("info,bugle::audit=off").unwrap().to_string().contains("bugle::audit=info"));
        assert!(filter("bugle=loud=5").is_err());
    }
}
