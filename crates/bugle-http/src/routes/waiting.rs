//! `/api/v1/waiting`: who waits for what, since when, and what woke those who were served.

use std::sync::Arc;

use axum::extract::{RawQuery, State};
use axum::response::Response;
use bugle_broker::{Consumer, PopTarget, Reading, Served, Waiter, WaitingKey, WaitingRoom};
use bugle_wire::{
    BatchingEntry, FloorEntry, Millis, ServedEntry, WaiterEntry, WaitingAnswer, WaitingKeyEntry,
    WaitingTarget,
};
use http::StatusCode;

use crate::app::App;
use crate::error::{Failure, json};
use crate::listing::page;
use crate::query::Query;

pub(crate) const DEFAULT_LIMIT: usize = 200;
pub(crate) const MAX_LIMIT: usize = 5000;

pub(crate) async fn room(
    State(app): State<Arc<App>>,
    RawQuery(query): RawQuery,
) -> Result<Response, Failure> {
    let most = page(&Query::read(query.as_deref())?, DEFAULT_LIMIT, MAX_LIMIT)?.limit;
    let room = app.broker.waiting_room(most);
    Ok(json(StatusCode::OK, &answer(&room, &app.broker.read(), Millis(app.broker.now().latest.0))))
}

/// The room in the words of the API.
pub(crate) fn answer<'a>(room: &'a WaitingRoom, reading: &Reading, at: Millis) -> WaitingAnswer<'a> {
    let (claims, waiting) = (reading.claims, &reading.waiting);
    WaitingAnswer {
        at,
        waiting: waiting.waiting,
        keys: room.keys.iter().map(key).collect(),
        keys_total: room.keys_total,
        waiters: room.waiters.iter().map(waiter).collect(),
        waiters_total: room.waiters_total,
        served: room.served.iter().map(served).collect(),
        wakes: waiting.wakes.iter().map(|(source, count)| (source.name(), *count)).collect(),
        floor: FloorEntry {
            interval_ms: reading.floor.interval.as_secs_f64() * 1e3,
            looks: reading.floor.surveys,
            checks: reading.pending.checks,
            hits: reading.pending.hits,
            backed_off: waiting.keys_backed_off,
        },
        batching: BatchingEntry {
            calls: claims.calls,
            pops: claims.pops,
            served: claims.served,
            partitions: claims.lanes,
            lost: claims.lost,
            empty: claims.empty,
        },
    }
}

fn target(target: &PopTarget) -> WaitingTarget<'_> {
    match target {
        PopTarget::Lane { queue, partition } => {
            WaitingTarget { queue: Some(queue), partition: Some(partition), ..WaitingTarget::default() }
        }
        PopTarget::Queue { queue } => WaitingTarget { queue: Some(queue), ..WaitingTarget::default() },
        PopTarget::Filter { namespace, task } => WaitingTarget {
            namespace: namespace.as_deref(),
            task: task.as_deref(),
            ..WaitingTarget::default()
        },
    }
}

fn key(key: &WaitingKey) -> WaitingKeyEntry<'_> {
    WaitingKeyEntry {
        target: target(&key.target),
        consumer_group: &key.group,
        waiters: key.waiters,
        since: Millis(key.since.0),
        empty_checks: key.empty_checks,
        backed_off: key.backed_off,
        claiming: key.claiming,
        ready: key.ready,
    }
}

fn waiter(waiter: &Waiter) -> WaiterEntry<'_> {
    let (peer, subject) = who(waiter.consumer.as_ref());
    WaiterEntry {
        target: target(&waiter.target),
        consumer_group: &waiter.group,
        since: Millis(waiter.since.0),
        left_ms: u64::try_from(waiter.left.as_millis()).unwrap_or(u64::MAX),
        holding: waiter.holding,
        peer,
        subject,
    }
}

fn served(served: &Served) -> ServedEntry<'_> {
    let (peer, subject) = who(served.consumer.as_ref());
    ServedEntry {
        at: Millis(served.at.0),
        queue: &served.queue,
        partition: &served.partition,
        consumer_group: &served.group,
        source: served.source.map(bugle_broker::WakeSource::name),
        waited_ms: served.waited.as_secs_f64() * 1e3,
        woken_ms: served.woken.map(|woken| woken.as_secs_f64() * 1e3),
        messages: served.messages,
        peer,
        subject,
    }
}

fn who(consumer: Option<&Consumer>) -> (Option<String>, Option<&str>) {
    let subject = consumer.and_then(|consumer| consumer.subject.as_deref());
    (
        consumer.map(|consumer| consumer.peer.to_string()),
        subject.and_then(|subject| std::str::from_utf8(subject).ok()),
    )
}
