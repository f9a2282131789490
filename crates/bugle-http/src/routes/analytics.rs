//! `/api/v1/analytics/…`: series by server and by queue, and what the engine tells of itself.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use axum::extract::{RawQuery, State};
use axum::response::Response;
use bugle_broker::{History, HistoryQuery, Looks, QueueCounts, QueueFilter, ServerHistory, ServerPoint};
use bugle_store::Timestamp;
use bugle_wire::{
    Millis, OpsAnswer, OpsPoint, ParkedAnswer, ParkedPoint, QueueLagEntry, RemovalAnswer, RemovalCounts,
    RemovalPoint, Replica, Seconds, WorkerPoint,
};
use http::StatusCode;
use serde_json::{Value, json};

use crate::app::App;
use crate::error::{Failure, json as answer};
use crate::query::Query;
use crate::series::{Together, bucket_minutes, history_query, mean_lag, millis, round, time_range, work};

async fn read(app: &App, query: Option<String>, by_queue: bool) -> Result<History, Failure> {
    let query = history_query(&Query::read(query.as_deref())?)?;
    Ok(app.broker.history(&HistoryQuery { by_queue, ..query }).await?)
}

pub(crate) async fn system_metrics(
    State(app): State<Arc<App>>,
    RawQuery(query): RawQuery,
) -> Result<Response, Failure> {
    let history = read(&app, query, false).await?;
    let replicas: Vec<Value> = history.servers.iter().map(replica_series).collect();
    let body = json!({
        "timeRange": time_range(&history),
        "replicas": replicas,
        "replicaCount": history.servers.len(),
        "bucketMinutes": bucket_minutes(&history),
        "pointCount": history.servers.iter().map(|server| server.points.len()).sum::<usize>(),
        "truncated": history.truncated,
    });
    Ok(answer(StatusCode::OK, &body))
}

fn replica_series(server: &ServerHistory) -> Value {
    let point = |point: &ServerPoint| json!({ "timestamp": Seconds(point.at.0), "sampleCount": point.records, "metrics": metrics(point) });
    // A server's name is its host and port, unless it was given another.
    let port = server.name.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
    json!({
        "hostname": server.host,
        "port": port,
        "workerId": server.name,
        "timeSeries": server.points.iter().map(point).collect::<Vec<_>>(),
    })
}

/// Processor times are microseconds per second. There is one pool of threads, and what waits, waits for the store.
fn metrics(point: &ServerPoint) -> Value {
    let (gauges, counts) = (&point.gauges, &point.counts);
    let looks = |looks: &Looks| json!({ "avg": round(looks.mean()), "min": looks.min, "max": looks.max, "last": looks.last });
    let ops = |count: u64, items: u64| json!({ "count": count, "items": items });
    json!({
        "cpu": { "user_us": looks(&point.user), "system_us": looks(&point.system) },
        "memory": { "rss_bytes": looks(&gauges.resident_bytes), "virtual_bytes": looks(&gauges.virtual_bytes) },
        "database": {
            "pool_size": looks(&gauges.pool_max),
            "pool_idle": looks(&gauges.pool_idle),
            "pool_active": looks(&gauges.pool_in_use),
        },
        "threadpool": { "db": { "pool_size": looks(&gauges.pool_max), "queue_size": looks(&gauges.queued) } },
        "registries": { "response": looks(&gauges.parked) },
        "event_loop": { "lag_us": looks(&gauges.delay_us) },
        "shared_state": {
            "sidecar_ops": {
                "push": ops(counts.push_requests, counts.push_messages),
                "pop": ops(counts.pop_requests, counts.pop_messages),
                "ack": ops(counts.ack_requests, counts.ack_messages),
            },
        },
    })
}

pub(crate) async fn worker_metrics(
    State(app): State<Arc<App>>,
    RawQuery(query): RawQuery,
) -> Result<Response, Failure> {
    let history = read(&app, query, true).await?;
    let mut series: Vec<WorkerPoint> =
        history.points().iter().map(|(at, points)| work(&history, *at, &Together::of(points))).collect();
    series.reverse();
    let all: Vec<&ServerPoint> = history.servers.iter().flat_map(|server| &server.points).collect();
    let total = Together::of(&all);
    let (counts, traffic) = (&total.counts, &total.traffic);
    let body = json!({
        "timeRange": time_range(&history),
        "bucketMinutes": bucket_minutes(&history),
        "pointCount": series.len(),
        "timeSeries": series,
        "workers": workers(&history),
        "queues": busiest_queues(&history),
        "summary": {
            "totalPushMessages": traffic.pushed,
            "totalPopMessages": traffic.popped,
            "totalAckMessages": traffic.acked,
            "totalPushRequests": counts.push_requests,
            "totalPopRequests": counts.pop_requests,
            "totalAckRequests": counts.ack_requests,
            "totalTransactions": counts.transactions,
            "totalDbErrors": counts.store_errors,
            "totalAckFailed": counts.ack_failed,
            "totalDlq": counts.dead_lettered,
            "pendingMessages": app.broker.totals(&QueueFilter::default()).await?.messages.pending,
        },
        "truncated": history.truncated,
    });
    Ok(answer(StatusCode::OK, &body))
}

/// Each server as it was in its last bucket, and what it did in all.
pub(crate) fn workers(history: &History) -> Vec<Value> {
    let tell = |server: &ServerHistory| {
        let last: Vec<&ServerPoint> = server.points.last().into_iter().collect();
        let all: Vec<&ServerPoint> = server.points.iter().collect();
        let (now, whole) = (Together::of(&last), Together::of(&all));
        json!({
            "hostname": server.host,
            "workerId": server.name,
            "avgEventLoopLagMs": round(now.mean_delay_ms),
            "maxEventLoopLagMs": round(whole.max_delay_ms),
            "freeSlots": now.min_free,
            "dbConnections": now.in_use + now.idle,
            "jobQueueSize": now.max_queued,
            "backoffSize": now.backed_off,
            "messagesProcessed": whole.processed(),
            "lastSeen": Millis(server.last_seen.0),
        })
    };
    history.servers.iter().map(tell).collect()
}

/// Queues over the whole time, those with most deliveries first.
fn busiest_queues(history: &History) -> Vec<Value> {
    let mut queues: BTreeMap<&str, QueueCounts> = BTreeMap::new();
    for point in &history.queues {
        queues.entry(&point.queue).or_default().add(&point.counts);
    }
    let mut queues: Vec<(&str, QueueCounts)> = queues.into_iter().filter(|(_, c)| c.popped > 0).collect();
    queues.sort_by_key(|(_, counts)| std::cmp::Reverse(counts.popped));
    let tell = |(name, counts): &(&str, QueueCounts)| {
        json!({
            "queueName": name,
            "popCount": counts.popped,
            "avgLagMs": mean_lag(counts),
            "maxLagMs": round(millis(counts.lag_max_us)),
        })
    };
    queues.iter().map(tell).collect()
}

pub(crate) async fn queue_lag(
    State(app): State<Arc<App>>,
    RawQuery(query): RawQuery,
) -> Result<Response, Failure> {
    let history = read(&app, query, true).await?;
    let points = history.by_queue();
    let delivered = points.iter().filter(|(_, _, counts)| counts.popped > 0);
    let entries: Vec<QueueLagEntry<'_>> = delivered
        .map(|(at, queue, counts)| QueueLagEntry {
            queue_name: queue,
            pop_count: counts.popped,
            avg_lag_ms: mean_lag(counts),
            max_lag_ms: round(millis(counts.lag_max_us)),
            bucket_time: Seconds(at.0),
        })
        .collect();
    Ok(answer(StatusCode::OK, &entries))
}

pub(crate) async fn queue_ops(
    State(app): State<Arc<App>>,
    RawQuery(query): RawQuery,
) -> Result<Response, Failure> {
    let history = read(&app, query, true).await?;
    let points = history.by_queue();
    let present = app.broker.queue_stats(&QueueFilter::default()).await?;
    let mut partitions: HashMap<&str, u64> = present.iter().map(|q| (&*q.queue.name, q.partitions)).collect();
    let mut queues: Vec<&str> = points.iter().map(|(_, queue, _)| &**queue).collect();
    queues.sort_unstable();
    queues.dedup();
    // From now backwards: what was made later was not there, and what was collected later was.
    let mut series: Vec<OpsPoint<'_>> = Vec::with_capacity(points.len());
    for (at, queue, counts) in points.iter().rev() {
        let count = partitions.entry(queue).or_default();
        series.push(OpsPoint { partition_count: *count, ..ops(&history, *at, queue, counts) });
        *count = (*count + counts.lanes_deleted).saturating_sub(counts.lanes_created);
    }
    series.reverse();
    let (time_range, bucket_minutes) = (time_range(&history), bucket_minutes(&history));
    let body = OpsAnswer { time_range, bucket_minutes, series, queues, truncated: history.truncated };
    Ok(answer(StatusCode::OK, &body))
}

fn ops<'a>(history: &History, at: Timestamp, queue: &'a str, counts: &QueueCounts) -> OpsPoint<'a> {
    let per_second = |count: u64| round(count as f64 / history.seconds(at));
    OpsPoint {
        bucket: Seconds(at.0),
        queue_name: queue,
        push_requests: counts.push_requests,
        push_messages: counts.pushed,
        pop_messages: counts.popped,
        pop_empty: counts.pop_empty,
        ack_requests: counts.ack_requests,
        ack_success: counts.acked,
        ack_failed: counts.ack_failed,
        transactions: counts.transactions,
        partitions_created: counts.lanes_created,
        partitions_deleted: counts.lanes_deleted,
        partition_count: 0,
        avg_lag_ms: mean_lag(counts),
        max_lag_ms: round(millis(counts.lag_max_us)),
        push_per_second: per_second(counts.pushed),
        pop_per_second: per_second(counts.popped),
        ack_per_second: per_second(counts.acked),
        empty_per_second: per_second(counts.pop_empty),
        parked_count: counts.parked,
    }
}

pub(crate) async fn parked(
    State(app): State<Arc<App>>,
    RawQuery(query): RawQuery,
) -> Result<Response, Failure> {
    let history = read(&app, query, true).await?;
    let replica =
        |server: &ServerHistory| -> (Arc<str>, Arc<str>) { (server.host.clone(), server.name.clone()) };
    let servers: Vec<(Arc<str>, Arc<str>)> = history.servers.iter().map(replica).collect();
    let of = |at: usize| Replica { hostname: &servers[at].0, worker_id: &servers[at].1 };
    let waited = history.queues.iter().filter(|point| point.counts.parked > 0);
    let series: Vec<ParkedPoint<'_>> = waited
        .map(|point| ParkedPoint {
            bucket: Seconds(point.at.0),
            queue_name: &point.queue,
            replica: of(point.server),
            parked_count: point.counts.parked,
        })
        .collect();
    let replicas = (0..servers.len()).map(of).collect();
    let (time_range, bucket_minutes) = (time_range(&history), bucket_minutes(&history));
    let body = ParkedAnswer { time_range, bucket_minutes, series, replicas, truncated: history.truncated };
    Ok(answer(StatusCode::OK, &body))
}

pub(crate) async fn retention(
    State(app): State<Arc<App>>,
    RawQuery(query): RawQuery,
) -> Result<Response, Failure> {
    let history = read(&app, query, false).await?;
    let mut totals = RemovalCounts::default();
    let mut series = Vec::new();
    for (at, points) in history.points() {
        let counts = removed(&Together::of(&points).traffic);
        if counts == RemovalCounts::default() {
            continue;
        }
        totals.retention_msgs += counts.retention_msgs;
        totals.completed_retention_msgs += counts.completed_retention_msgs;
        totals.eviction_msgs += counts.eviction_msgs;
        totals.total_msgs += counts.total_msgs;
        totals.event_count += counts.event_count;
        series.push(RemovalPoint { bucket: Seconds(at.0), counts });
    }
    let (time_range, bucket_minutes) = (time_range(&history), bucket_minutes(&history));
    let body = RemovalAnswer { time_range, bucket_minutes, series, totals, truncated: history.truncated };
    Ok(answer(StatusCode::OK, &body))
}

fn removed(counts: &QueueCounts) -> RemovalCounts {
    RemovalCounts {
        retention_msgs: counts.retained,
        completed_retention_msgs: counts.completed,
        eviction_msgs: counts.evicted,
        total_msgs: counts.retained + counts.completed + counts.evicted,
        event_count: counts.removals,
    }
}

/// What the store's database tells of itself; on an engine without one the same sections, empty.
pub(crate) async fn postgres_stats(State(app): State<Arc<App>>) -> Result<Response, Failure> {
    let mut body = json!({
        "timestamp": Millis(app.broker.now().latest.0),
        "database": {},
        "databaseCache": {},
        "tableCache": [],
        "indexCache": [],
        "cacheSummary": { "tables": {}, "indexes": {} },
        "deadTuples": [],
        "hotUpdates": [],
        "activeQueries": [],
        "autovacuumStatus": [],
        "bufferConfig": {},
        "bufferUsage": {},
        "tableSizes": [],
    });
    for (name, text) in app.broker.internals().await? {
        match serde_json::from_str(&text) {
            Ok(section) => body[name] = section,
            Err(error) => {
                tracing::warn!(%error, name, "a section of the database's statistics cannot be read")
            }
        }
    }
    Ok(answer(StatusCode::OK, &body))
}
