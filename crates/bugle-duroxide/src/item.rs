//! Work items as rows: where each belongs, when it becomes visible, what travels in columns of its own.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use duroxide::providers::{ProviderError, WorkItem};

use crate::error::refused;
use crate::text::stored;

/// Longest id, key, tag or session: all of them are in indexes, whose entries PostgreSQL bounds.
pub(crate) const NAME: usize = 1024;
/// Longest item. PostgreSQL's own limit is 1 GiB for a whole message, escapes included.
const ITEM: usize = 256 << 20;
/// Timers do not fire later than this, the year 9999.
const LATEST_MS: u64 = 253_370_764_800_000;

/// A message for an orchestration.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) instance: String,
    pub(crate) item: String,
    /// `None`: now.
    pub(crate) visible_ms: Option<u64>,
    pub(crate) droppable: bool,
}

/// An activity to run.
#[derive(Debug)]
pub(crate) struct Activity {
    pub(crate) instance: String,
    pub(crate) execution: i64,
    pub(crate) id: i64,
    pub(crate) item: String,
    pub(crate) session: Option<String>,
    pub(crate) tag: Option<String>,
}

impl Message {
    pub(crate) fn new(operation: &str, item: &WorkItem) -> Result<Self, ProviderError> {
        let instance = match item {
            WorkItem::StartOrchestration { instance, .. }
            | WorkItem::ActivityCompleted { instance, .. }
            | WorkItem::ActivityFailed { instance, .. }
            | WorkItem::TimerFired { instance, .. }
            | WorkItem::ExternalRaised { instance, .. }
            | WorkItem::CancelInstance { instance, .. }
            | WorkItem::ContinueAsNew { instance, .. }
            | WorkItem::QueueMessage { instance, .. } => instance,
            WorkItem::SubOrchCompleted { parent_instance, .. }
            | WorkItem::SubOrchFailed { parent_instance, .. } => parent_instance,
            WorkItem::ActivityExecute { .. } => {
                return Err(refused(operation, "an activity does not belong in the orchestrator queue"));
            }
            // The framework may be built with variants for its own tests.
            #[allow(unreachable_patterns)]
            _ => return Err(refused(operation, "a work item of an unknown kind")),
        };
        Ok(Self {
            instance: name(operation, "instance", instance)?,
            item: encoded(operation, item)?,
            visible_ms: match item {
                WorkItem::TimerFired { fire_at_ms, .. } => Some((*fire_at_ms).min(LATEST_MS)),
                _ => None,
            },
            droppable: matches!(item, WorkItem::QueueMessage { .. }),
        })
    }

    pub(crate) fn visible(&self) -> Option<SystemTime> {
        self.visible_ms.map(|ms| UNIX_EPOCH + Duration::from_millis(ms))
    }
}

impl Activity {
    pub(crate) fn new(operation: &str, item: &WorkItem) -> Result<Self, ProviderError> {
        let WorkItem::ActivityExecute { instance, execution_id, id, session_id, tag, .. } = item else {
            return Err(refused(operation, "only activities belong in the worker queue"));
        };
        let optional =
            |field, text: &Option<String>| text.as_ref().map(|text| name(operation, field, text)).transpose();
        Ok(Self {
            instance: name(operation, "instance", instance)?,
            execution: number(operation, "execution_id", *execution_id)?,
            id: number(operation, "id", *id)?,
            item: encoded(operation, item)?,
            session: optional("session_id", session_id)?,
            tag: optional("tag", tag)?,
        })
    }
}

/// A name that is part of an index, as it is stored.
pub(crate) fn name(operation: &str, field: &str, text: &str) -> Result<String, ProviderError> {
    if text.len() > NAME {
        let problem = format!("{field}: {} bytes are too long, at most {NAME} are allowed", text.len());
        return Err(refused(operation, problem));
    }
    Ok(stored(text).into_owned())
}

/// A number of the runtime's, as it is stored.
pub(crate) fn number(operation: &str, field: &str, value: u64) -> Result<i64, ProviderError> {
    i64::try_from(value).map_err(|_| refused(operation, format!("{field}: {value} is too large")))
}

/// A payload that is stored as it is.
pub(crate) fn sized(operation: &str, field: &str, text: String) -> Result<String, ProviderError> {
    if text.len() > ITEM {
        let problem = format!("{field}: {} bytes are too long, at most {ITEM} are allowed", text.len());
        return Err(refused(operation, problem));
    }
    Ok(text)
}

/// As text; JSON has no raw NUL.
pub(crate) fn encoded<T: serde::Serialize>(operation: &str, value: &T) -> Result<String, ProviderError> {
    let text =
        serde_json::to_string(value).map_err(|e| refused(operation, format!("cannot be encoded: {e}")))?;
    sized(operation, "item", text)
}

/// Read back.
pub(crate) fn decoded<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, String> {
    serde_json::from_str(text).map_err(|e| format!("cannot be decoded: {e}"))
}

/// Seconds for the database.
pub(crate) fn seconds(duration: Duration) -> f64 {
    // Intervals end long after anything anybody waits for.
    duration.as_secs_f64().min(1e10)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timer(fire_at_ms: u64) -> WorkItem {
        WorkItem::TimerFired { instance: "i".into(), execution_id: 1, id: 2, fire_at_ms }
    }

    #[test]
    fn timers_become_visible_when_they_fire_and_never_out_of_range() {
        assert_eq!(Message::new("x", &timer(5)).unwrap().visible_ms, Some(5));
        assert_eq!(Message::new("x", &timer(u64::MAX)).unwrap().visible_ms, Some(LATEST_MS));
    }

    #[test]
    fn what_cannot_be_stored_is_refused_by_name() {
        let item = WorkItem::CancelInstance { instance: "i".repeat(NAME + 1), reason: String::new() };
        let error = Message::new("enqueue", &item).unwrap_err();
        assert!(error.message.starts_with("instance:") && !error.is_retryable(), "{error}");
        assert!(Activity::new("enqueue", &timer(1)).is_err());
    }

    #[test]
    fn a_childs_completion_goes_to_its_parent() {
        let item = WorkItem::SubOrchCompleted {
            parent_instance: "parent".into(),
            parent_execution_id: 1,
            parent_id: 2,
            result: "\0".into(),
        };
        let message = Message::new("x", &item).unwrap();
        assert_eq!(message.instance, "parent");
        assert!(!message.item.contains('\0'));
        assert_eq!(decoded::<WorkItem>(&message.item).unwrap(), item);
    }
}
