//! `/api/v1/analytics/…`: series by server and by queue, and what the engine tells of itself.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use axum::extract::{RawQuery, State};
use axum::response::Response;
use bugle_broker::{History, HistoryQuery, Looks, QueueCounts, QueueFilter, ServerHistory, ServerPoint};
use bugle_store::Timestamp;
use bugle_wire::{
    BusyQueue, CpuLooks, LooksEntry, LoopLooks, MemoryLooks, Millis, OpsAnswer, OpsCount, OpsCounts,
    OpsPoint, ParkedAnswer, ParkedPoint, PoolLooks, QueueLagEntry, QueuedLooks, RegistryLooks, RemovalAnswer,
    RemovalCounts, RemovalPoint, Replica, ReplicaMetrics, ReplicaPoint, ReplicaSeries, ReplicasAnswer,
    Seconds, ThreadpoolLooks, VerbOps, WorkSummary, WorkerEntry, WorkerPoint, WorkersAnswer,
};
use http::StatusCode;
use serde_json::json;

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
    let body = ReplicasAnswer {
        time_range: time_range(&history),
        replicas: history.servers.iter().map(replica_series).collect(),
        replica_count: history.servers.len(),
        bucket_minutes: bucket_minutes(&history),
        point_count: history.servers.iter().map(|server| server.points.len()).sum(),
        truncated: history.truncated,
    };
    Ok(answer(StatusCode::OK, &body))
}

fn replica_series(server: &ServerHistory) -> ReplicaSeries<'_> {
    let point = |point: &ServerPoint| ReplicaPoint {
        timestamp: Seconds(point.at.0),
        sample_count: point.records,
        metrics: metrics(point),
    };
    ReplicaSeries {
        hostname: &server.host,
        // A server's name is its host and port, unless it was given another.
        port: server.name.rsplit_once(':').and_then(|(_, port)| port.parse().ok()),
        worker_id: &server.name,
        time_series: server.points.iter().map(point).collect(),
    }
}

/// Processor times are microseconds per second. There is one pool of threads, and what waits, waits for the store.
fn metrics(point: &ServerPoint) -> ReplicaMetrics {
    let (gauges, counts) = (&point.gauges, &point.counts);
    let looks = |looks: &Looks| LooksEntry {
        avg: round(looks.mean()),
        min: looks.min,
        max: looks.max,
        last: looks.last,
    };
    let pool_size = looks(&gauges.pool_max);
    ReplicaMetrics {
        cpu: CpuLooks { user_us: looks(&point.user), system_us: looks(&point.system) },
        memory: MemoryLooks {
            rss_bytes: looks(&gauges.resident_bytes),
            virtual_bytes: looks(&gauges.virtual_bytes),
        },
        database: PoolLooks {
            pool_size,
            pool_idle: looks(&gauges.pool_idle),
            pool_active: looks(&gauges.pool_in_use),
        },
        threadpool: ThreadpoolLooks { db: QueuedLooks { pool_size, queue_size: looks(&gauges.queued) } },
        registries: RegistryLooks { response: looks(&gauges.parked) },
        event_loop: LoopLooks { lag_us: looks(&gauges.delay_us) },
        shared_state: OpsCounts {
            sidecar_ops: VerbOps {
                push: OpsCount { count: counts.push_requests, items: counts.push_messages },
                pop: OpsCount { count: counts.pop_requests, items: counts.pop_messages },
                ack: OpsCount { count: counts.ack_requests, items: counts.ack_messages },
            },
        },
    }
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
    let body = WorkersAnswer {
        time_range: time_range(&history),
        bucket_minutes: bucket_minutes(&history),
        point_count: series.len(),
        time_series: series,
        workers: workers(&history),
        queues: busiest_queues(&history),
        summary: WorkSummary {
            total_push_messages: traffic.pushed,
            total_pop_messages: traffic.popped,
            total_ack_messages: traffic.acked,
            total_push_requests: counts.push_requests,
            total_pop_requests: counts.pop_requests,
            total_ack_requests: counts.ack_requests,
            total_transactions: counts.transactions,
            total_db_errors: counts.store_errors,
            total_ack_failed: counts.ack_failed,
            total_dlq: counts.dead_lettered,
            pending_messages: app.broker.totals(&QueueFilter::default()).await?.messages.pending,
        },
        truncated: history.truncated,
    };
    Ok(answer(StatusCode::OK, &body))
}

/// Each server as it was in its last bucket, and what it did in all.
pub(crate) fn workers(history: &History) -> Vec<WorkerEntry<'_>> {
    history.servers.iter().map(worker).collect()
}

fn worker(server: &ServerHistory) -> WorkerEntry<'_> {
    let last: Vec<&ServerPoint> = server.points.last().into_iter().collect();
    let all: Vec<&ServerPoint> = server.points.iter().collect();
    let (now, whole) = (Together::of(&last), Together::of(&all));
    WorkerEntry {
        hostname: &server.host,
        worker_id: &server.name,
        avg_event_loop_lag_ms: round(now.mean_delay_ms),
        max_event_loop_lag_ms: round(whole.max_delay_ms),
        free_slots: now.min_free,
        db_connections: now.in_use + now.idle,
        job_queue_size: now.max_queued,
        backoff_size: now.backed_off,
        messages_processed: whole.processed(),
        last_seen: Millis(server.last_seen.0),
    }
}

/// Queues over the whole time, those with most deliveries first.
fn busiest_queues(history: &History) -> Vec<BusyQueue<'_>> {
    let mut queues: BTreeMap<&str, QueueCounts> = BTreeMap::new();
    for point in &history.queues {
        queues.entry(&point.queue).or_default().add(&point.counts);
    }
    let mut queues: Vec<(&str, QueueCounts)> = queues.into_iter().filter(|(_, c)| c.popped > 0).collect();
    queues.sort_by_key(|(_, counts)| std::cmp::Reverse(counts.popped));
    let tell = |(queue_name, counts): (_, QueueCounts)| BusyQueue {
        queue_name,
        pop_count: counts.popped,
        avg_lag_ms: mean_lag(&counts),
        max_lag_ms: round(millis(counts.lag_max_us)),
    };
    queues.into_iter().map(tell).collect()
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
