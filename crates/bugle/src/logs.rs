//! Structured logs on standard error, as text for people or JSON for machines.

use anyhow::{Context, Result};
use tracing_subscriber::EnvFilter;

use crate::settings::LogFormat;

/// Start logging. `level` is a level (`info`) or a filter (`info,bugle_broker=debug`).
pub(crate) fn start(format: LogFormat, level: &str) -> Result<()> {
    let filter = EnvFilter::try_new(level).context("log-level")?;
    let logs = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let started = match format {
        LogFormat::Text => logs.with_ansi(false).try_init(),
        LogFormat::Json => logs.json().flatten_event(true).try_init(),
    };
    started.map_err(|error| anyhow::anyhow!("logs: {error}"))
}
