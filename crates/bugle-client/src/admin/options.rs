//! A queue's options.

use serde::{Deserialize, Serialize};

/// Options that a queue keeps but acts on only when told to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum Enforced {
    /// `retry_delay`.
    RetryDelay,
    /// `priority`.
    Priority,
    /// `max_size`.
    MaxSize,
    /// `ttl`.
    Ttl,
}

macro_rules! options {
    ($($(#[$doc:meta])* $name:ident: $kind:ty;)*) => {
        /// Options of a queue: those to change, or all of them as the server answers them. What is `None` stays as it
        /// is; numbers out of range are brought into it, so look at the answer.
        #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(rename_all = "camelCase", default)]
        #[non_exhaustive]
        pub struct QueueOptions {
            $($(#[$doc])* #[serde(skip_serializing_if = "Option::is_none")] pub $name: Option<$kind>,)*
        }

        impl QueueOptions {
            $($(#[$doc])* #[must_use] pub fn $name(mut self, value: $kind) -> Self {
                self.$name = Some(value);
                self
            })*
        }
    };
}

options! {
    /// Length of a lease, in seconds.
    lease_time: u64;
    /// Failed deliveries before a message is given up.
    retry_limit: u64;
    /// Pause before a failed message comes again, in milliseconds. Acts where enforced.
    retry_delay: u64;
    /// Keep what is given up as dead letters.
    dead_letter_queue: bool;
    /// Keep what is given up because its retries are used up as dead letters.
    dlq_after_max_retries: bool;
    /// Weight among queues that are popped together. Acts where enforced.
    priority: i64;
    /// Most messages in the queue; pushes beyond are refused for now. Acts where enforced.
    max_size: u64;
    /// Age at which a message is no longer delivered, in seconds. Acts where enforced.
    ttl: u64;
    /// Time between a push and its delivery, in seconds.
    delayed_processing: u64;
    /// Quiet time that a partition must have before it is delivered, in seconds.
    window_buffer: u64;
    /// Delete by age.
    retention_enabled: bool;
    /// Age at which any message is deleted, in seconds; 0 = never.
    retention_seconds: u64;
    /// Age at which a message that all groups have passed is deleted, in seconds; 0 = never.
    completed_retention_seconds: u64;
    /// Age at which a message nobody took is deleted, in seconds; 0 = never.
    max_wait_time_seconds: u64;
    /// Store payloads encrypted.
    encryption_enabled: bool;
    /// How long transaction ids are remembered, in seconds.
    dedup_window_seconds: u64;
    /// How long a waiting pop may be held to fill its batch, in milliseconds.
    min_pop_wait_time: u64;
    /// Which of the options above that say so act.
    enforce: Vec<Enforced>;
    /// Deliver nothing for now; pushes and acknowledgements go on.
    paused: bool;
    /// Kept and told, for programs that look for it; nothing here acts on it.
    retention_sink_hold: String;
    /// The same, in seconds.
    retention_sink_hold_max_seconds: u64;
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_what_is_set_is_sent_and_what_is_unknown_is_ignored() {
        let options = QueueOptions::default().lease_time(5).enforce(vec![Enforced::MaxSize, Enforced::Ttl]);
        assert_eq!(
            serde_json::to_value(&options).unwrap(),
            json!({"leaseTime": 5, "enforce": ["maxSize", "ttl"]})
        );
        let echoed = json!({"leaseTime": 5, "enforce": ["maxSize", "ttl"], "odd": null});
        assert_eq!(serde_json::from_value::<QueueOptions>(echoed).unwrap(), options);
    }
}
