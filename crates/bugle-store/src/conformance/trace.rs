//! Traces: by message, by name, and the names themselves.

use std::sync::Arc;

use uuid::Uuid;

use super::fixture::{ALL, Fixture, at, unique, up};
use crate::{Engine, LaneId, Page, Trace, TraceFilter, TraceName};

fn trace(f: &Fixture, lane: LaneId, transaction: &str, names: &[&str], seconds: i64) -> Trace {
    Trace {
        id: Uuid::now_v7(),
        queue: f.queue.id,
        lane,
        transaction_id: transaction.into(),
        event_type: "info".into(),
        data: r#"{"b": 1.0, "a": [1,2 ], "b": "é \u0000 \"q\""}"#.into(),
        group: "g".into(),
        names: names.iter().map(|name| (*name).to_owned()).collect(),
        worker: None,
        created_at: at(seconds),
    }
}

async fn by_message(f: &Fixture, lane: LaneId, transaction: &str, page: Page) -> (Vec<Trace>, u64) {
    up(f.traces(TraceFilter::Message(lane, transaction.into()), page).await)
}

/// Every field comes back, the JSON text exactly as it was given.
pub async fn traces_round_trip(engine: Arc<dyn Engine>) {
    let f = Fixture::new(engine).await;
    let lane = f.lane("a").await;
    let (one, two) = (unique("ä'\"\\,{}"), unique("two"));
    let full = Trace { worker: Some("wörker".into()), ..trace(&f, lane, "t'x", &[&one, &two], 1) };
    let bare = Trace { data: "null".into(), event_type: String::new(), ..trace(&f, lane, "t'x", &[], 2) };
    for trace in [&full, &bare] {
        up(f.put_trace(trace.clone()).await);
    }
    assert_eq!(by_message(&f, lane, "t'x", ALL).await, (vec![full.clone(), bare], 2));
    assert_eq!(up(f.traces(TraceFilter::Name(one.to_string()), ALL).await), (vec![full], 1));
}

/// By message: oldest first, page by page, with the total.
pub async fn a_message_has_its_traces_oldest_first(engine: Arc<dyn Engine>) {
    let f = Fixture::new(engine).await;
    let (a, b) = (f.lane("a").await, f.lane("b").await);
    for (lane, transaction, seconds) in [(a, "x", 3), (b, "x", 1), (a, "y", 2), (a, "x", 1), (a, "x", 2)] {
        up(f.put_trace(trace(&f, lane, transaction, &[], seconds)).await);
    }
    let times = |traces: &[Trace]| traces.iter().map(|t| t.created_at).collect::<Vec<_>>();
    let (all, total) = by_message(&f, a, "x", ALL).await;
    assert_eq!((times(&all), total), (vec![at(1), at(2), at(3)], 3));
    let (page, total) = by_message(&f, a, "x", Page { offset: 1, limit: 1 }).await;
    assert_eq!((times(&page), total), (vec![at(2)], 3));
    assert_eq!(by_message(&f, b, "x", ALL).await.1, 1);
    assert_eq!(by_message(&f, b, "y", ALL).await, (vec![], 0));
}

/// By name: newest first, page by page, with the total.
pub async fn a_name_has_its_traces_newest_first(engine: Arc<dyn Engine>) {
    let f = Fixture::new(engine).await;
    let lane = f.lane("a").await;
    let (wanted, other) = (unique("wanted"), unique("other"));
    let names: [&[&str]; 5] = [&[&wanted], &[&other], &[&other, &wanted], &[], &[&wanted, &other]];
    for (i, names) in names.into_iter().enumerate() {
        up(f.put_trace(trace(&f, lane, &i.to_string(), names, i as i64)).await);
    }
    let ask = |page| f.traces(TraceFilter::Name(wanted.to_string()), page);
    let messages = |traces: &[Trace]| traces.iter().map(|t| t.transaction_id.clone()).collect::<Vec<_>>();
    let (all, total) = up(ask(ALL).await);
    assert_eq!((messages(&all), total), (["4", "2", "0"].map(String::from).into(), 3));
    let (page, total) = up(ask(Page { offset: 1, limit: 1 }).await);
    assert_eq!((messages(&page), total), (vec!["2".to_owned()], 3));
    let longer = format!("{wanted}x");
    assert_eq!(up(f.traces(TraceFilter::Name(longer), ALL).await), (vec![], 0), "names match whole");
}

/// Names are listed latest first with what they were used for.
pub async fn names_are_summed_up(engine: Arc<dyn Engine>) {
    let f = Fixture::new(engine).await;
    let (a, b) = (f.lane("a").await, f.lane("b").await);
    let (one, two) = (unique("one"), unique("two"));
    let both: &[&str] = &[&one, &two];
    let put = [(a, "x", both, 1), (a, "x", &both[..1], 5), (b, "x", &both[..1], 2), (a, "y", &both[1..], 9)];
    for (lane, transaction, names, seconds) in put {
        up(f.put_trace(trace(&f, lane, transaction, names, seconds)).await);
    }
    let (names, total) = up(f.trace_names(ALL).await);
    assert!(total >= 2);
    assert!(names.is_sorted_by(|a, b| a.last_seen >= b.last_seen), "latest first");
    let own: Vec<_> = names.into_iter().filter(|n| *n.name == *one || *n.name == *two).collect();
    let summary = |name: &str, traces, messages, seconds| TraceName {
        name: name.to_owned(),
        traces,
        messages,
        last_seen: at(seconds),
    };
    assert_eq!(own, [summary(&two, 2, 2, 9), summary(&one, 3, 2, 5)]);
    assert_eq!(up(f.trace_names(Page { offset: 0, limit: 1 }).await).0.len(), 1);
}
