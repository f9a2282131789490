//! What waits in the inbox, in the words of `/health`, `shared-state` and the dashboard's events.

use bugle_broker::Reading;
use bugle_wire::{BlockedEntry, InboxEntry};

/// As this server last saw it; none if the store has no inbox.
pub(crate) fn inbox(reading: &Reading) -> Option<InboxEntry<'_>> {
    let inbox = reading.inbox.as_ref()?;
    let millis = |span: std::time::Duration| span.as_secs_f64() * 1e3;
    let blocked_queues = inbox.blocked_queues.iter().map(|blocked| BlockedEntry {
        queue: &blocked.queue,
        reason: &blocked.reason,
        blocked_for_ms: millis(blocked.since),
    });
    Some(InboxEntry {
        waiting: inbox.waiting,
        oldest_ms: millis(inbox.oldest),
        blocked: inbox.blocked,
        blocked_queues: blocked_queues.collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{lonely, reading};
    use serde_json::json;

    #[test]
    fn blocked_queues_are_named_with_their_reason() {
        let told = json!(inbox(&reading()));
        let blocked =
            json!({"queue": "full", "reason": "queue full holds all it may", "blockedForMs": 1460.0});
        let wanted = json!({"waiting": 144, "oldestMs": 1450.0, "blocked": 146, "blockedQueues": [blocked]});
        assert_eq!(told, wanted);
        assert!(inbox(&lonely()).is_none(), "a store without an inbox tells of none");
    }
}
