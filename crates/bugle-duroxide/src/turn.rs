//! The effects of a turn, computed from what the runtime hands over, as columns for the database.

use std::collections::HashMap;
use std::time::SystemTime;

use duroxide::providers::{ExecutionMetadata, ProviderError, ScheduledActivityIdentifier, WorkItem};
use duroxide::{Event, EventKind};

use crate::item::{Activity, Message, encoded, name, number, sized};
use crate::text::stored;

const ACK: &str = "ack_orchestration_item";

/// New events.
#[derive(Default)]
pub(crate) struct Events {
    pub(crate) ids: Vec<i64>,
    pub(crate) texts: Vec<String>,
    /// `None`: the custom status stays as it is.
    pub(crate) custom_status: Option<Option<String>>,
}

/// Changes of values: first all are removed if `clear`, then these are set, or removed where there is no value.
#[derive(Default)]
pub(crate) struct Values {
    pub(crate) clear: bool,
    pub(crate) keys: Vec<String>,
    pub(crate) values: Vec<Option<String>>,
    pub(crate) updated: Vec<i64>,
}

/// Columns of activities.
#[derive(Default)]
pub(crate) struct Activities {
    pub(crate) instances: Vec<String>,
    pub(crate) executions: Vec<i64>,
    pub(crate) ids: Vec<i64>,
    pub(crate) items: Vec<String>,
    pub(crate) sessions: Vec<Option<String>>,
    pub(crate) tags: Vec<Option<String>>,
}

/// Columns of messages.
#[derive(Default)]
pub(crate) struct Messages {
    pub(crate) instances: Vec<String>,
    pub(crate) items: Vec<String>,
    pub(crate) visible: Vec<Option<SystemTime>>,
    pub(crate) droppable: Vec<bool>,
}

/// Columns of activities that are not wanted any more.
#[derive(Default)]
pub(crate) struct Cancelled {
    pub(crate) instances: Vec<String>,
    pub(crate) executions: Vec<i64>,
    pub(crate) ids: Vec<i64>,
}

/// What is stored of an execution, as it is stored.
pub(crate) struct Execution {
    pub(crate) name: Option<String>,
    pub(crate) version: Option<String>,
    pub(crate) parent: Option<String>,
    pub(crate) pin: Option<i64>,
    pub(crate) status: Option<String>,
    pub(crate) output: Option<String>,
}

impl Events {
    pub(crate) fn new(operation: &str, events: &[Event]) -> Result<Self, ProviderError> {
        let mut columns = Self::default();
        for event in events {
            columns.ids.push(number(operation, "event_id", event.event_id)?);
            columns.texts.push(encoded(operation, event)?);
            if let EventKind::CustomStatusUpdated { status } = &event.kind {
                columns.custom_status = Some(status.as_deref().map(|s| stored(s).into_owned()));
            }
        }
        Ok(columns)
    }
}

impl Values {
    pub(crate) fn new(events: &[Event]) -> Result<Self, ProviderError> {
        let (mut clear, mut last): (bool, HashMap<&str, (Option<&str>, u64)>) = (false, HashMap::new());
        for event in events {
            match &event.kind {
                EventKind::KeyValueSet { key, value, last_updated_at_ms } => {
                    last.insert(key, (Some(value), *last_updated_at_ms));
                }
                EventKind::KeyValueCleared { key } => {
                    last.insert(key, (None, event.timestamp_ms));
                }
                EventKind::KeyValuesCleared => {
                    clear = true;
                    last.clear();
                }
                _ => {}
            }
        }
        let mut columns = Self { clear, ..Self::default() };
        for (key, (value, updated)) in last {
            columns.keys.push(name(ACK, "key", key)?);
            columns.values.push(value.map(|v| stored(v).into_owned()));
            columns.updated.push(number(ACK, "last_updated_at_ms", updated)?);
        }
        Ok(columns)
    }
}

impl Activities {
    pub(crate) fn new(items: &[WorkItem]) -> Result<Self, ProviderError> {
        let mut columns = Self::default();
        for item in items {
            let activity = Activity::new(ACK, item)?;
            columns.instances.push(activity.instance);
            columns.executions.push(activity.execution);
            columns.ids.push(activity.id);
            columns.items.push(activity.item);
            columns.sessions.push(activity.session);
            columns.tags.push(activity.tag);
        }
        Ok(columns)
    }
}

impl Messages {
    pub(crate) fn new(items: &[WorkItem]) -> Result<Self, ProviderError> {
        let mut columns = Self::default();
        for item in items {
            let message = Message::new(ACK, item)?;
            columns.visible.push(message.visible());
            columns.instances.push(message.instance);
            columns.items.push(message.item);
            columns.droppable.push(message.droppable);
        }
        Ok(columns)
    }
}

impl Cancelled {
    pub(crate) fn new(activities: &[ScheduledActivityIdentifier]) -> Result<Self, ProviderError> {
        let mut columns = Self::default();
        for activity in activities {
            columns.instances.push(stored(&activity.instance).into_owned());
            columns.executions.push(number(ACK, "execution_id", activity.execution_id)?);
            columns.ids.push(number(ACK, "activity_id", activity.activity_id)?);
        }
        Ok(columns)
    }
}

impl Execution {
    pub(crate) fn new(metadata: ExecutionMetadata) -> Result<Self, ProviderError> {
        let text = |t: Option<String>| t.map(|t| stored(&t).into_owned());
        let parent = metadata.parent_instance_id.as_deref();
        Ok(Self {
            name: text(metadata.orchestration_name),
            version: text(metadata.orchestration_version),
            parent: parent.map(|p| name(ACK, "parent_instance_id", p)).transpose()?,
            pin: metadata.pinned_duroxide_version.as_ref().map(pin),
            status: text(metadata.status),
            output: text(metadata.output).map(|o| sized(ACK, "output", o)).transpose()?,
        })
    }
}

/// A framework version as one number that sorts as versions do. Parts above 999,999 count as that.
pub(crate) fn pin(version: &semver::Version) -> i64 {
    let part = |n: u64| n.min(999_999).cast_signed();
    part(version.major) * 1_000_000_000_000 + part(version.minor) * 1_000_000 + part(version.patch)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(kind: EventKind) -> Event {
        Event::with_event_id(1, "i", 1, None, kind)
    }

    fn set(key: &str, value: &str) -> Event {
        event(EventKind::KeyValueSet { key: key.into(), value: value.into(), last_updated_at_ms: 7 })
    }

    #[test]
    fn the_last_change_of_a_value_counts_and_clearing_forgets_what_came_before() {
        let events = [
            set("a", "1"),
            set("b", "1"),
            event(EventKind::KeyValuesCleared),
            set("a", "2"),
            set("a", "3"),
            event(EventKind::KeyValueCleared { key: "c".into() }),
        ];
        let values = Values::new(&events).unwrap();
        assert!(values.clear);
        let mut pairs: Vec<_> = values.keys.iter().zip(&values.values).collect();
        pairs.sort();
        assert_eq!(pairs, [(&"a".to_owned(), &Some("3".to_owned())), (&"c".to_owned(), &None)]);
    }

    #[test]
    fn the_last_custom_status_counts() {
        let status = |s: Option<&str>| event(EventKind::CustomStatusUpdated { status: s.map(str::to_owned) });
        let last = |events: &[Event]| Events::new("x", events).unwrap().custom_status;
        assert_eq!(last(&[]), None);
        assert_eq!(last(&[status(Some("a")), status(None)]), Some(None));
        assert_eq!(last(&[status(None), status(Some("b"))]), Some(Some("b".to_owned())));
    }

    #[test]
    fn pins_sort_as_versions_do() {
        let pin = |v: &str| pin(&semver::Version::parse(v).unwrap());
        assert!(
            pin("0.1.9") < pin("0.1.10") && pin("0.1.10") < pin("0.2.0") && pin("0.99.99") < pin("1.0.0")
        );
        assert!(pin("0.1.9999999999") < pin("0.2.0"));
    }
}
