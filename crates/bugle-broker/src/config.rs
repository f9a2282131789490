//! Settings of the broker, with their defaults in one place.

use std::time::Duration;

use bugle_store::Codec;

use crate::api::Vitals;

/// All settings. Made by the binary from flags, environment and file.
#[derive(Clone, Debug)]
pub struct BrokerConfig {
    /// Messages per pop when neither the request nor autopilot says.
    pub default_batch: u32,
    /// Messages per pop under autopilot.
    pub autopilot_batch: u32,
    /// Lanes per pop under autopilot.
    pub autopilot_partitions: u32,
    /// Subscription mode for groups that name none: `""`/`all` or `new`.
    pub default_subscription_mode: String,
    /// Most body bytes in a pop answer; at least one message is always sent.
    pub pop_max_bytes: usize,
    /// Most messages one pop may ask for; larger requests are clamped.
    pub pop_max_batch: u32,
    /// Most waiting pops.
    pub max_waiters: usize,
    /// Most requests queued per verb; more are answered `Busy`.
    pub max_queued: usize,
    /// Store calls in flight per verb: bounds between which load moves them.
    pub calls_in_flight: (usize, usize),
    /// Woken waiters are claimed for before new pops.
    pub priority_dispatch: bool,
    /// Pops that come together are served by one store call.
    pub pop_batching: bool,
    /// How often a server looks by itself for what nobody told it.
    pub floor: FloorConfig,
    /// Lanes a claim tries before it gives up on a round.
    pub max_candidates: usize,
    /// Rounds after lanes were lost to somebody else.
    pub claim_rounds: usize,
    /// Bytes of fingerprints kept in memory for duplicate detection.
    pub dedupe_memory: usize,
    /// Bytes of fresh segments kept in memory for delivery.
    pub segment_cache: usize,
    /// How segments are compressed where it pays, if at all.
    pub compression: Option<Codec>,
    /// Lanes and cursors kept in memory.
    pub max_cached_lanes: usize,
    /// How often retention runs.
    pub retention_interval: Duration,
    /// How often eviction runs.
    pub eviction_interval: Duration,
    /// Age at which messages read by every group go; zero keeps them.
    pub completed_retention: Duration,
    /// Age at which dead letters go; zero keeps them.
    pub dead_letter_retention: Duration,
    /// Age at which traces go; zero keeps them.
    pub trace_retention: Duration,
    /// Idle time after which empty lanes go; zero keeps them.
    pub lane_retention: Duration,
    /// How often what was counted is written into the history.
    pub metrics_interval: Duration,
    /// Age at which the history goes; zero keeps it.
    pub metrics_retention: Duration,
    /// Name of this machine, in the history.
    pub hostname: String,
    /// Asks the operating system what this process uses, once per record of the history.
    pub vitals: fn() -> Vitals,
    /// Encryption keys; the first encrypts, all decrypt.
    pub encryption_keys: Vec<EncryptionKey>,
}

/// The floor under all hints: one look into the store for all waiting pops together.
#[derive(Clone, Copy, Debug)]
pub struct FloorConfig {
    /// Interval without a healthy carrier.
    pub base: Duration,
    /// Interval while the last look found work.
    pub active: Duration,
    /// Longest interval without a healthy carrier.
    pub max: Duration,
    /// Looks in a row that find nothing before the interval grows.
    pub threshold: u32,
    /// What it grows by.
    pub multiplier: f64,
    /// Interval while a carrier is proven healthy.
    pub with_carrier: Duration,
    /// Look before claiming; without it every waiting pop asks for itself at each interval.
    pub pending_check: bool,
    /// At shorter intervals, while few keys are waited for, claim without looking first.
    pub pending_check_from: Duration,
}

impl Default for FloorConfig {
    fn default() -> Self {
        Self {
            base: Duration::from_millis(100),
            active: Duration::from_millis(50),
            max: Duration::from_secs(1),
            threshold: 3,
            multiplier: 2.0,
            with_carrier: Duration::from_secs(15),
            pending_check: true,
            pending_check_from: Duration::from_millis(500),
        }
    }
}

/// A named AES-256 key.
#[derive(Clone)]
pub struct EncryptionKey {
    /// Stored with every ciphertext, so that old keys can be told apart.
    pub id: String,
    /// The key.
    pub key: [u8; 32],
}

impl std::fmt::Debug for EncryptionKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EncryptionKey").field("id", &self.id).field("key", &"<redacted>").finish()
    }
}

impl Default for BrokerConfig {
    fn default() -> Self {
        let days = |n: u64| Duration::from_secs(n * 86_400);
        Self {
            default_batch: 1,
            autopilot_batch: 1000,
            autopilot_partitions: 16,
            default_subscription_mode: String::new(),
            pop_max_bytes: 16 << 20,
            pop_max_batch: 10_000,
            max_waiters: 100_000,
            max_queued: 100_000,
            calls_in_flight: (2, 8),
            priority_dispatch: true,
            pop_batching: true,
            floor: FloorConfig::default(),
            max_candidates: 100,
            claim_rounds: 3,
            dedupe_memory: 96 << 20,
            segment_cache: 64 << 20,
            compression: None,
            max_cached_lanes: 200_000,
            retention_interval: Duration::from_secs(300),
            eviction_interval: Duration::from_secs(60),
            completed_retention: days(7),
            dead_letter_retention: days(30),
            trace_retention: days(7),
            lane_retention: days(30),
            metrics_interval: Duration::from_secs(60),
            metrics_retention: days(7),
            hostname: "localhost".into(),
            vitals: Vitals::default,
            encryption_keys: Vec::new(),
        }
    }
}
