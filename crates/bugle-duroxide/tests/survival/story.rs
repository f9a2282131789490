//! What must be true of an order in the end, whatever happened to it.

use std::collections::{HashMap, HashSet};

use bugle_duroxide::{Options, PostgresProvider};
use duroxide::providers::ProviderAdmin;
use duroxide::{Event, EventKind};

use crate::program::Place;

pub(crate) const ORDER: &str = "order-1";
pub(crate) const PAYMENT: &str = "card-4711";

/// Hold what all lives of the program printed, and what is in the database, against what should have happened.
pub(crate) async fn check(place: &Place, parcels: usize, lines: &[String]) {
    let labels: Vec<String> = (1..=parcels).map(|p| format!("L{p}")).collect();
    let end = format!("completed: {}, paid with {PAYMENT}", labels.join(", "));
    assert_eq!(lines.last(), Some(&end), "{lines:#?}");
    let done: HashSet<&str> = lines.iter().filter_map(|line| line.strip_prefix("did ")).collect();
    assert_eq!(done, effects(parcels).iter().map(String::as_str).collect(), "{lines:#?}");

    let options = Options::new(&place.address).schema(&place.schema).long_poll(false);
    let store = PostgresProvider::connect(options).await.unwrap();
    let executions = store.list_executions(ORDER).await.unwrap();
    assert_eq!(executions, (1..=parcels as u64 + 1).collect::<Vec<_>>());
    for execution in executions {
        let info = store.get_execution_info(ORDER, execution).await.unwrap();
        let last = execution == parcels as u64 + 1;
        assert_eq!(info.status, if last { "Completed" } else { "ContinuedAsNew" });
        let kinds = whole(&store.read_history_with_execution_id(ORDER, execution).await.unwrap());
        assert_eq!(kinds["activities"], if last { 2 } else { 1 }, "execution {execution}");
        assert_eq!(kinds["children"], usize::from(execution > 1), "execution {execution}");
    }
    let mut children = store.list_children(ORDER).await.unwrap();
    children.sort();
    assert_eq!(children, (1..=parcels).map(|p| format!("{ORDER}/parcel-{p}")).collect::<Vec<_>>());
    for child in children {
        assert_eq!(store.get_instance_info(&child).await.unwrap().status, "Completed");
        let kinds = whole(&store.read_history(&child).await.unwrap());
        assert_eq!((kinds["activities"], kinds["timers"]), (2, 1), "{child}");
    }
    assert_eq!(store.get_queue_depths().await.unwrap().worker_queue, 0);
}

/// Everything the activities of an order do.
fn effects(parcels: usize) -> Vec<String> {
    let each = |p| [format!("pack {p}"), format!("label L{p}"), format!("hand over L{p}")];
    let ends = [format!("reserve {parcels}"), format!("thank {PAYMENT}")];
    ends.into_iter().chain((1..=parcels).flat_map(each)).collect()
}

/// A history without gaps, in which everything that was begun ended exactly once; how much of each kind there is.
fn whole(history: &[Event]) -> HashMap<&'static str, usize> {
    let ids: Vec<u64> = history.iter().map(Event::event_id).collect();
    assert_eq!(ids, (1..=history.len() as u64).collect::<Vec<_>>());
    let mut kinds = HashMap::from([("activities", 0), ("children", 0), ("timers", 0)]);
    for event in history {
        let kind = match &event.kind {
            EventKind::ActivityScheduled { .. } => "activities",
            EventKind::SubOrchestrationScheduled { .. } => "children",
            // The timer of the payment's deadline never fires.
            EventKind::TimerCreated { .. } if history.iter().any(is_fired) => "timers",
            _ => continue,
        };
        *kinds.entry(kind).or_default() += 1;
        let ends = history.iter().filter(|e| e.source_event_id() == Some(event.event_id())).count();
        assert_eq!(ends, 1, "{event:?} in {history:#?}");
    }
    kinds
}

fn is_fired(event: &Event) -> bool {
    matches!(event.kind, EventKind::TimerFired { .. })
}
