//! What a push's latency is held against: the same promise without a queue. On files an append of 4 KiB with fdatasync, on PostgreSQL a commit
//! of one row. Alone right before and after the window, and seldom enough not to disturb beside the load itself.

use std::path::Path;

use anyhow::Result;

use crate::commits;
use crate::curve::Windows;
use crate::fsyncs::Fsyncs;
use crate::stats::Latency;

/// Which one it is.
pub(crate) struct Yardstick<'a> {
    dsn: Option<&'a str>,
    directory: &'a Path,
}

/// One that runs beside a load.
pub(crate) enum Beside {
    Fsyncs(Fsyncs),
    Commits(commits::Seldom),
}

impl<'a> Yardstick<'a> {
    pub(crate) fn new(dsn: Option<&'a str>, directory: &'a Path) -> Self {
        Self { dsn, directory }
    }

    /// Whether it is held at the rate of the requests: commits are, syncs of a disk are not.
    pub(crate) fn is_at_rate(&self) -> bool {
        self.dsn.is_some()
    }

    /// Milliseconds of its p99 while nothing else happens; commits at so many per second.
    pub(crate) async fn alone(&self, requests: f64, windows: Windows) -> Result<f64> {
        let latency = match self.dsn {
            Some(dsn) => {
                commits::commits(dsn, requests, windows.warmup_seconds, windows.seconds).await?.latency
            }
            None => {
                let probe = Fsyncs::start(self.directory)?;
                tokio::time::sleep(std::time::Duration::from_secs_f64(windows.seconds)).await;
                probe.finish()?
            }
        };
        Ok(latency.quantile_ms(0.99))
    }

    /// Starts it beside a load.
    pub(crate) async fn beside(&self) -> Result<Beside> {
        Ok(match self.dsn {
            Some(dsn) => Beside::Commits(commits::Seldom::start(dsn).await?),
            None => Beside::Fsyncs(Fsyncs::start(self.directory)?),
        })
    }
}

impl Beside {
    /// Ends it; milliseconds of its p99.
    pub(crate) async fn finish(self) -> Result<f64> {
        let latency: Latency = match self {
            Self::Fsyncs(probe) => probe.finish()?,
            Self::Commits(seldom) => seldom.finish().await?,
        };
        Ok(latency.quantile_ms(0.99))
    }
}
