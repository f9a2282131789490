//! Options of a queue, as stored. How they are merged, clamped and what they do is the broker's business.

use serde::{Deserialize, Serialize};

/// All options of a queue. Field names are those of the protocol.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct QueueOptions {
    /// Lease length in seconds.
    pub lease_time: u64,
    /// Most pending messages; enforced only if listed in `enforce`. 0 = no limit.
    pub max_size: u64,
    /// Seconds until a message expires; enforced only if listed in `enforce`. 0 = never.
    pub ttl: u64,
    /// Failed deliveries before a message is dead-lettered.
    pub retry_limit: u64,
    /// Milliseconds before a redelivery; enforced (with back-off) only if listed in `enforce`.
    pub retry_delay: u64,
    /// Keep messages that exhausted their retries.
    pub dead_letter_queue: bool,
    /// The same under another name: messages are dropped only if both are false.
    pub dlq_after_max_retries: bool,
    /// Weight in filter pops; enforced only if listed in `enforce`.
    pub priority: i64,
    /// Seconds before a message becomes visible.
    pub delayed_processing: u64,
    /// Seconds of quiet before a lane is delivered.
    pub window_buffer: u64,
    /// Age in seconds at which messages are removed, read or not (with `retentionEnabled`).
    pub retention_seconds: u64,
    /// Age in seconds at which consumed messages are removed (with `retentionEnabled`).
    pub completed_retention_seconds: u64,
    /// Switch for the two above.
    pub retention_enabled: bool,
    /// Encrypt payloads at rest.
    pub encryption_enabled: bool,
    /// Age in seconds at which messages that some group has not read are removed.
    pub max_wait_time_seconds: u64,
    /// Seconds inside which a repeated transaction id is a duplicate. 0 = off.
    pub dedup_window_seconds: u64,
    /// Milliseconds an under-full batch may be held.
    pub min_pop_wait_time: u64,
    /// Stored and echoed only.
    pub retention_sink_hold: String,
    /// Stored and echoed only.
    pub retention_sink_hold_max_seconds: u64,
    /// Which of the options that other servers only store act on this queue.
    pub enforce: Vec<Enforced>,
    /// Nothing is delivered until this is taken back; everything else goes on.
    pub paused: bool,
}

/// An option that acts only where a queue asks for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum Enforced {
    /// `retryDelay` with exponential back-off.
    RetryDelay,
    /// `priority` in filter pops.
    Priority,
    /// `maxSize` refuses pushes.
    MaxSize,
    /// `ttl` expires messages.
    Ttl,
}

impl Default for QueueOptions {
    /// What `configure` gives a queue when it names nothing.
    fn default() -> Self {
        Self {
            lease_time: 300,
            max_size: 0,
            ttl: 3600,
            retry_limit: 3,
            retry_delay: 1000,
            dead_letter_queue: true,
            dlq_after_max_retries: true,
            priority: 0,
            delayed_processing: 0,
            window_buffer: 0,
            retention_seconds: 0,
            completed_retention_seconds: 0,
            retention_enabled: false,
            encryption_enabled: false,
            max_wait_time_seconds: 0,
            dedup_window_seconds: 3600,
            min_pop_wait_time: 0,
            retention_sink_hold: String::new(),
            retention_sink_hold_max_seconds: 604_800,
            enforce: Vec::new(),
            paused: false,
        }
    }
}

impl QueueOptions {
    /// What a queue gets that was created by its first push.
    pub fn implicit() -> Self {
        Self { lease_time: 60, ..Self::default() }
    }

    /// Whether `option` acts on this queue.
    pub fn enforces(&self, option: Enforced) -> bool {
        self.enforce.contains(&option)
    }

    /// Whether given-up messages are kept as dead letters.
    pub fn keeps_dead_letters(&self) -> bool {
        self.dead_letter_queue || self.dlq_after_max_retries
    }
}
