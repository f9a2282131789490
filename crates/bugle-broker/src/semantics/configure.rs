//! What a configure request makes of a queue's options.
//!
//! Numbers out of range are clamped and echoed, as clients expect; a value of the wrong type is an error that names the
//! option, because storing anything for it would be a guess.

use std::ops::RangeInclusive;

use bugle_store::{Enforced, QueueOptions};
use serde_json::{Map, Value};

const DAY: u64 = 86_400;
const YEAR: u64 = 365 * DAY;
/// Ages have no natural bound; this one keeps arithmetic with them far from its limits.
const AGE: RangeInclusive<u64> = 0..=100 * YEAR;
const DELAY: RangeInclusive<u64> = 0..=YEAR;
/// Greatest integer that every JSON reader keeps exact.
const COUNT: RangeInclusive<u64> = 0..=(1 << 53) - 1;
/// What a lease time of zero means.
const LEASE_OF_ZERO: u64 = 60;
const TEXT_MAX: usize = 255;

/// The options after a request.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Merged {
    /// All of them.
    pub(crate) options: QueueOptions,
    /// Names nobody knows, sorted.
    pub(crate) ignored: Vec<String>,
}

/// Apply the options `sent`, by their protocol names, to `current`, or with `replace` to the defaults. `null` restores a
/// default. The error names the option as `options.<name>`.
pub(crate) fn merge(
    current: &QueueOptions,
    sent: &Map<String, Value>,
    replace: bool,
) -> Result<Merged, String> {
    let default = QueueOptions::default();
    let mut options = if replace { default.clone() } else { current.clone() };
    let mut ignored = Vec::new();
    for (name, value) in sent {
        let sent = Sent { name, value: Some(value).filter(|v| !v.is_null()) };
        if !apply(&mut options, &default, &sent)? {
            ignored.push(name.clone());
        }
    }
    ignored.sort_unstable();
    Ok(Merged { options, ignored })
}

/// The least and the greatest value that each number among a queue's options can have.
pub fn option_bounds() -> (QueueOptions, QueueOptions) {
    let default = QueueOptions::default();
    let all = serde_json::to_value(&default).unwrap_or_default();
    let numbers = || all.as_object().into_iter().flatten().filter(|(_, value)| value.is_number());
    let extreme = |number: i64| {
        let sent = numbers().map(|(name, _)| (name.clone(), number.into())).collect();
        merge(&default, &sent, true).map_or_else(|_| default.clone(), |merged| merged.options)
    };
    (extreme(i64::MIN), extreme(i64::MAX))
}

/// Set one option; `false` = there is none by this name.
fn apply(o: &mut QueueOptions, default: &QueueOptions, sent: &Sent<'_>) -> Result<bool, String> {
    match sent.name {
        "leaseTime" => o.lease_time = lease_time(sent, default)?,
        "maxSize" => o.max_size = sent.unsigned(COUNT, default.max_size)?,
        "ttl" => o.ttl = sent.unsigned(AGE, default.ttl)?,
        "retryLimit" => o.retry_limit = sent.unsigned(0..=1_000_000, default.retry_limit)?,
        "retryDelay" => o.retry_delay = sent.unsigned(0..=YEAR * 1000, default.retry_delay)?,
        "deadLetterQueue" => o.dead_letter_queue = sent.boolean(default.dead_letter_queue)?,
        "dlqAfterMaxRetries" => o.dlq_after_max_retries = sent.boolean(default.dlq_after_max_retries)?,
        "priority" => o.priority = sent.integer(-1_000_000..=1_000_000, default.priority)?,
        "delayedProcessing" => o.delayed_processing = sent.unsigned(DELAY, default.delayed_processing)?,
        "windowBuffer" => o.window_buffer = sent.unsigned(DELAY, default.window_buffer)?,
        "retentionSeconds" => o.retention_seconds = sent.unsigned(AGE, default.retention_seconds)?,
        "completedRetentionSeconds" => {
            o.completed_retention_seconds = sent.unsigned(AGE, default.completed_retention_seconds)?;
        }
        "retentionEnabled" => o.retention_enabled = sent.boolean(default.retention_enabled)?,
        "encryptionEnabled" => o.encryption_enabled = sent.boolean(default.encryption_enabled)?,
        "maxWaitTimeSeconds" => {
            o.max_wait_time_seconds = sent.unsigned(AGE, default.max_wait_time_seconds)?
        }
        "dedupWindowSeconds" => {
            o.dedup_window_seconds = sent.unsigned(0..=30 * DAY, default.dedup_window_seconds)?;
        }
        "minPopWaitTime" => o.min_pop_wait_time = sent.unsigned(0..=60_000, default.min_pop_wait_time)?,
        "retentionSinkHold" => o.retention_sink_hold = sent.text(&default.retention_sink_hold)?,
        "retentionSinkHoldMaxSeconds" => {
            o.retention_sink_hold_max_seconds =
                sent.unsigned(AGE, default.retention_sink_hold_max_seconds)?;
        }
        "paused" => o.paused = sent.boolean(default.paused)?,
        "enforce" => o.enforce = sent.enforced(&default.enforce)?,
        _ => return Ok(false),
    }
    Ok(true)
}

fn lease_time(sent: &Sent<'_>, default: &QueueOptions) -> Result<u64, String> {
    match sent.integer(i64::MIN..=i64::MAX, 1)? {
        0 => Ok(LEASE_OF_ZERO),
        _ => sent.unsigned(1..=7 * DAY, default.lease_time),
    }
}

/// One option as sent; without a value its default is asked for.
struct Sent<'a> {
    name: &'a str,
    value: Option<&'a Value>,
}

impl Sent<'_> {
    fn wrong(&self, expected: &str) -> String {
        format!("options.{} must be {expected}", self.name)
    }

    fn integer(&self, range: RangeInclusive<i64>, default: i64) -> Result<i64, String> {
        let Some(value) = self.value else { return Ok(default) };
        let number = match value {
            Value::Number(n) => n
                .as_i64()
                .or_else(|| n.as_u64().map(|_| i64::MAX))
                // A cast from float saturates, which is the clamping wanted.
                .or_else(|| n.as_f64().filter(|f| f.fract() == 0.0).map(|f| f as i64)),
            _ => None,
        };
        let number = number.ok_or_else(|| self.wrong("an integer"))?;
        Ok(number.clamp(*range.start(), *range.end()))
    }

    fn unsigned(&self, range: RangeInclusive<u64>, default: u64) -> Result<u64, String> {
        let signed = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        let number = self.integer(signed(*range.start())..=signed(*range.end()), signed(default))?;
        Ok(number.unsigned_abs())
    }

    fn boolean(&self, default: bool) -> Result<bool, String> {
        match self.value {
            None => Ok(default),
            Some(Value::Bool(b)) => Ok(*b),
            Some(_) => Err(self.wrong("true or false")),
        }
    }

    fn text(&self, default: &str) -> Result<String, String> {
        match self.value {
            None => Ok(default.to_owned()),
            Some(Value::String(s)) if s.len() <= TEXT_MAX && !s.contains('\0') => Ok(s.clone()),
            Some(_) => Err(self.wrong(&format!("a string of at most {TEXT_MAX} bytes without NUL"))),
        }
    }

    /// Known names without repetition, in a fixed order.
    fn enforced(&self, default: &[Enforced]) -> Result<Vec<Enforced>, String> {
        let expected = "a list of retryDelay, priority, maxSize and ttl";
        let names = match self.value {
            None => return Ok(default.to_vec()),
            Some(Value::Array(names)) => names,
            Some(_) => return Err(self.wrong(expected)),
        };
        let mut enforced = Vec::new();
        for name in names {
            let option = match name.as_str() {
                Some("retryDelay") => Enforced::RetryDelay,
                Some("priority") => Enforced::Priority,
                Some("maxSize") => Enforced::MaxSize,
                Some("ttl") => Enforced::Ttl,
                Some(other) => {
                    let shown: String = other.chars().take(64).collect();
                    return Err(format!("{}; {shown:?} is none of them", self.wrong(expected)));
                }
                None => return Err(self.wrong(expected)),
            };
            if !enforced.contains(&option) {
                enforced.push(option);
            }
        }
        enforced.sort_unstable();
        Ok(enforced)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn sent(value: Value) -> Map<String, Value> {
        value.as_object().cloned().unwrap()
    }

    fn merged(value: Value) -> QueueOptions {
        merge(&QueueOptions::default(), &sent(value), false).unwrap().options
    }

    fn refused(value: Value) -> String {
        merge(&QueueOptions::default(), &sent(value), false).unwrap_err()
    }

    #[test]
    fn every_option_is_known_by_its_stored_name_and_restored_by_null() {
        let changed = json!({
            "leaseTime": 7, "maxSize": 1, "ttl": 2, "retryLimit": 4, "retryDelay": 5, "deadLetterQueue": false,
            "dlqAfterMaxRetries": false, "priority": -6, "delayedProcessing": 8, "windowBuffer": 9,
            "retentionSeconds": 10, "completedRetentionSeconds": 11, "retentionEnabled": true,
            "encryptionEnabled": true, "maxWaitTimeSeconds": 12, "dedupWindowSeconds": 13, "minPopWaitTime": 14,
            "retentionSinkHold": "s", "retentionSinkHoldMaxSeconds": 15, "enforce": ["retryDelay", "ttl"],
            "paused": true,
        });
        let options = merged(changed.clone());
        assert_eq!(serde_json::to_value(&options).unwrap(), changed);
        let nulls: Map<String, Value> = sent(changed).into_iter().map(|(k, _)| (k, Value::Null)).collect();
        let back = merge(&options, &nulls, false).unwrap();
        assert_eq!(back, Merged { options: QueueOptions::default(), ignored: vec![] });
    }

    #[test]
    fn what_is_not_sent_stays_unless_the_options_are_replaced() {
        let current = QueueOptions { lease_time: 5, priority: 3, ..QueueOptions::default() };
        let change = sent(json!({"retryLimit": 9}));
        let kept = merge(&current, &change, false).unwrap().options;
        assert_eq!(kept, QueueOptions { retry_limit: 9, ..current.clone() });
        let replaced = merge(&current, &change, true).unwrap().options;
        assert_eq!(replaced, QueueOptions { retry_limit: 9, ..QueueOptions::default() });
    }

    #[test]
    fn bounds_are_those_that_numbers_are_cut_to() {
        let (least, greatest) = option_bounds();
        assert_eq!((least.lease_time, greatest.lease_time), (1, 7 * DAY));
        assert_eq!((least.priority, greatest.priority), (-1_000_000, 1_000_000));
        assert_eq!((least.min_pop_wait_time, greatest.min_pop_wait_time), (0, 60_000));
        assert_eq!(greatest.enforce, QueueOptions::default().enforce, "no number");
    }

    #[test]
    fn numbers_out_of_range_are_clamped() {
        let low = merged(json!({"minPopWaitTime": -5, "leaseTime": -1, "retryLimit": -1, "priority": -9e18,
            "dedupWindowSeconds": -1}));
        let min =
            (low.min_pop_wait_time, low.lease_time, low.retry_limit, low.priority, low.dedup_window_seconds);
        assert_eq!(min, (0, 1, 0, -1_000_000, 0));
        let high =
            merged(json!({"minPopWaitTime": 90_000, "leaseTime": u64::MAX, "delayedProcessing": 1e300,
            "dedupWindowSeconds": i64::MAX, "maxSize": u64::MAX}));
        assert_eq!((high.min_pop_wait_time, high.lease_time), (60_000, 7 * DAY));
        assert_eq!((high.delayed_processing, high.dedup_window_seconds), (YEAR, 30 * DAY));
        assert_eq!(high.max_size, (1 << 53) - 1);
    }

    #[test]
    fn a_lease_time_of_zero_means_a_minute_and_null_the_default() {
        assert_eq!(merged(json!({"leaseTime": 0})).lease_time, 60);
        assert_eq!(merged(json!({"leaseTime": 0.0})).lease_time, 60);
        let current = QueueOptions { lease_time: 9, ..QueueOptions::default() };
        let back = merge(&current, &sent(json!({"leaseTime": null})), false).unwrap();
        assert_eq!(back.options.lease_time, 300);
    }

    #[test]
    fn whole_floats_are_integers_and_nothing_else_is() {
        assert_eq!(merged(json!({"retryLimit": 5.0})).retry_limit, 5);
        for value in [json!(5.5), json!("5"), json!(true), json!([]), json!({})] {
            assert_eq!(refused(json!({"retryLimit": value})), "options.retryLimit must be an integer");
        }
        assert_eq!(refused(json!({"leaseTime": "60"})), "options.leaseTime must be an integer");
    }

    #[test]
    fn wrong_types_name_the_option() {
        for value in [json!(1), json!("true")] {
            assert_eq!(
                refused(json!({"retentionEnabled": value})),
                "options.retentionEnabled must be true or false"
            );
        }
        for value in [json!(1), json!("a\0b"), json!("x".repeat(256))] {
            assert!(
                refused(json!({"retentionSinkHold": value})).starts_with("options.retentionSinkHold must be")
            );
        }
    }

    #[test]
    fn enforce_takes_known_names_only() {
        let options = merged(json!({"enforce": ["ttl", "maxSize", "ttl", "priority"]}));
        assert_eq!(options.enforce, [Enforced::Priority, Enforced::MaxSize, Enforced::Ttl]);
        assert!(merged(json!({"enforce": []})).enforce.is_empty());
        for value in [json!("ttl"), json!({}), json!([1]), json!([null])] {
            assert!(refused(json!({"enforce": value})).starts_with("options.enforce must be a list"));
        }
        let error = refused(json!({"enforce": ["ttl", "leaseTime"]}));
        assert!(error.starts_with("options.enforce ") && error.contains("\"leaseTime\""), "{error}");
    }

    #[test]
    fn unknown_options_are_listed_and_change_nothing() {
        let change = sent(json!({"zeta": 1, "lease_time": 5, "Alpha": null}));
        let merged = merge(&QueueOptions::default(), &change, false).unwrap();
        assert_eq!(merged.options, QueueOptions::default());
        assert_eq!(merged.ignored, ["Alpha", "lease_time", "zeta"]);
    }
}
