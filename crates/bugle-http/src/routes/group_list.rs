//! All consumer groups, and the partitions in which they are behind.

use std::sync::Arc;

use axum::extract::{RawQuery, State};
use axum::response::Response;
use bugle_broker::{GroupStats, LaggingPartition};
use bugle_store::Start;
use bugle_wire::{GroupEntry, LaggingEntry, Millis};
use http::StatusCode;

use crate::app::App;
use crate::error::{Failure, json, json_of};
use crate::listing::page;
use crate::query::Query;
use crate::routes::groups::forget;
use crate::routes::resources::rounded;

pub(crate) const DEFAULT_LAG: u64 = 3600;
pub(crate) const LAGGING: usize = 1000;
/// About what a group takes in the list, in bytes.
const ENTRY: usize = 384;

pub(crate) async fn list(State(app): State<Arc<App>>) -> Result<Response, Failure> {
    let groups = app.broker.group_stats().await?;
    let entries: Vec<_> = groups.iter().map(group).collect();
    Ok(json_of(StatusCode::OK, &entries, 2 + entries.len() * ENTRY))
}

pub(crate) async fn lagging(
    State(app): State<Arc<App>>,
    RawQuery(query): RawQuery,
) -> Result<Response, Failure> {
    let query = Query::read(query.as_deref())?;
    let seconds = query.number("minLagSeconds")?.map_or(DEFAULT_LAG, |n| u64::try_from(n).unwrap_or(0));
    let lagging = app.broker.lagging(seconds, page(&query, LAGGING, LAGGING)?.limit).await?;
    Ok(json(StatusCode::OK, &lagging.iter().map(partition).collect::<Vec<_>>()))
}

/// A group may have this name too: its path is the same as that of the list.
pub(crate) async fn delete_lagging(
    State(app): State<Arc<App>>,
    RawQuery(query): RawQuery,
) -> Result<Response, Failure> {
    forget(&app, "lagging", None, query.as_deref()).await
}

fn group(stats: &GroupStats) -> GroupEntry<'_> {
    let record = stats.record.as_deref();
    let (mode, from) = match record.map(|record| record.start) {
        None => (None, None),
        Some(Start::All) => (Some("all"), None),
        Some(Start::New(at)) => (Some("new"), Some(Millis(at.0))),
        Some(Start::From(at)) => (Some("timestamp"), Some(Millis(at.0))),
    };
    GroupEntry {
        name: &stats.group,
        topics: [&stats.queue.name],
        queue_name: &stats.queue.name,
        members: stats.cursors,
        partition_cursors: stats.cursors,
        partitions_with_lag: stats.partitions_behind,
        total_lag: stats.lag,
        truncated: stats.at_most,
        max_time_lag: stats.behind.map(|behind| behind.as_secs()),
        state: stats.state.name(),
        total_consumed: stats.consumed,
        subscription_mode: mode,
        subscription_timestamp: from,
        subscription_created_at: record.map(|record| Millis(record.created_at.0)),
        conflation: record.is_some_and(|record| record.conflation),
    }
}

fn partition(partition: &LaggingPartition) -> LaggingEntry<'_> {
    LaggingEntry {
        consumer_group: &partition.group,
        queue_name: &partition.queue,
        partition_name: &partition.partition,
        partition_id: partition.id.0,
        worker_id: partition.lease,
        offset_lag: partition.lag,
        time_lag_seconds: partition.behind.as_secs(),
        lag_hours: rounded(partition.behind.as_secs_f64() / 3600.0),
        oldest_unconsumed_at: Millis(partition.oldest.0),
        last_consumed_at: partition.served_at.map(|at| Millis(at.0)),
    }
}
