//! The server's numbers, read as a scraper does. Reading them costs the server no store call, so a test can watch for a
//! state without disturbing what it counts.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::PATIENCE;
use super::client::Client;

/// All series of one reading by name and labels.
#[derive(Debug)]
pub(crate) struct Metrics(BTreeMap<String, f64>);

impl Metrics {
    /// One number; a series that is absent counts as 0.
    pub(crate) fn get(&self, name: &str) -> f64 {
        self.0.get(name).copied().unwrap_or(0.0)
    }

    /// How far a number has moved since an earlier reading.
    pub(crate) fn since(&self, before: &Self, name: &str) -> f64 {
        self.get(name) - before.get(name)
    }

    /// Waiting pops that this source has woken since an earlier reading.
    pub(crate) fn woken_by(&self, source: &str, before: &Self) -> f64 {
        self.since(before, &format!("bugle_wakes_total{{source=\"{source}\"}}"))
    }

    /// Waiting pops that anything has woken since an earlier reading.
    pub(crate) fn woken(&self, before: &Self) -> f64 {
        ["local", "notify", "udp", "timer", "floor"].iter().map(|source| self.woken_by(source, before)).sum()
    }

    /// Store calls that claim, since an earlier reading.
    pub(crate) fn claims(&self, before: &Self) -> f64 {
        self.since(before, "bugle_claim_calls_total")
    }

    /// All store calls since an earlier reading.
    pub(crate) fn store_calls(&self, before: &Self) -> f64 {
        self.since(before, "bugle_store_calls_total")
    }

    /// Pops that are parked.
    pub(crate) fn parked(&self) -> f64 {
        self.get("bugle_waiters_parked")
    }
}

impl Client {
    /// All numbers now.
    pub(crate) async fn metrics(&self) -> Metrics {
        let answer = self.get("/metrics/prometheus").await;
        assert_eq!(answer.status, 200);
        let page = std::str::from_utf8(&answer.body).unwrap();
        let samples = page.lines().filter(|line| !line.starts_with('#'));
        let sample = |line: &str| {
            let (name, value) = line.rsplit_once(' ').expect("a sample");
            (name.to_owned(), value.parse().expect("a number"))
        };
        Metrics(samples.map(sample).collect())
    }

    /// Wait until the numbers are as wanted. The server has no event for it, so they are read again until they fit.
    pub(crate) async fn until(&self, what: &str, fits: impl Fn(&Metrics) -> bool) -> Metrics {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let metrics = self.metrics().await;
            if fits(&metrics) {
                return metrics;
            }
            assert!(Instant::now() < deadline, "never {what}: {metrics:#?}");
            sleep(Duration::from_millis(5)).await;
        }
    }

    /// Wait until exactly this many pops are parked.
    pub(crate) async fn until_parked(&self, count: u32) -> Metrics {
        self.until(&format!("{count} parked"), |m| m.parked() == f64::from(count)).await
    }

    /// Wait until this many other servers are heard, and nothing is left to be looked at because of having met.
    pub(crate) async fn until_hearing(&self, carrier: &str, peers: u32) {
        let healthy = format!("bugle_carrier_peers{{carrier=\"{carrier}\",state=\"healthy\"}}");
        self.until(&format!("{peers} heard"), |m| {
            m.get("bugle_hearing{state=\"connected\"}") == 1.0 && m.get(&healthy) == f64::from(peers)
        })
        .await;
        // The look that follows a meeting is taken once somebody waits.
        let scratch = self.wait("/queue/scratch");
        self.until("a look after meeting", |m| m.get("bugle_floor_surveys_total") > 0.0).await;
        self.until_parked(1).await;
        scratch.leave();
        self.until_parked(0).await;
    }
}
