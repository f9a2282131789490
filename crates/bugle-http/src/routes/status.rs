//! `/api/v1/status` and `/api/v1/status/analytics`: traffic by time, and how things stand now.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{RawQuery, State};
use axum::response::Response;
use bugle_broker::{
    History, HistoryQuery, LetterQuery, QueueFilter, QueueStats, Refused, ServerCounts, ServerPoint,
};
use bugle_store::{LaneId, Page, Timestamp};
use bugle_wire::{
    AnalyticsAnswer, AnalyticsPoint, ErrorCounts, ErrorEntry, LeaseCounts, LetterSummary, Millis, Seconds,
    ThroughputPoint, TrafficAnswer, TrafficMessages, TrafficQueue, VerbNumbers,
};
use http::StatusCode;

use crate::app::App;
use crate::error::{Failure, json as answer};
use crate::query::Query;
use crate::routes::analytics::workers;
use crate::series::{Together, bucket_minutes, history_query, round, throughput, time_range};

const DAY: Duration = Duration::from_secs(86_400);
/// Queues that are listed, the newest.
const MAX_QUEUES: usize = 1000;
/// Dead letters that are looked at, the latest, and reasons that are told.
const MAX_LETTERS: usize = 500;
const TOP_ERRORS: usize = 10;

pub(crate) async fn status(
    State(app): State<Arc<App>>,
    RawQuery(query): RawQuery,
) -> Result<Response, Failure> {
    let query = history_query(&Query::read(query.as_deref())?)?;
    let filtered = query.queue.is_some() || query.namespace.is_some() || query.task.is_some();
    let history = app.broker.history(&query).await?;
    let points = history.points();
    let series =
        points.iter().rev().map(|(at, points)| throughput(&history, *at, &Together::of(points), filtered));
    let series: Vec<ThroughputPoint> = series.collect();
    let all: Vec<&ServerPoint> = history.servers.iter().flat_map(|server| &server.points).collect();
    let total = Together::of(&all);
    let counts = &total.counts;
    let filter =
        QueueFilter { queue: query.queue, namespace: query.namespace, task: query.task, search: None };
    let queues = app.broker.queue_stats(&filter).await?;
    let dead = sum(&queues, |stats| stats.messages.dead_letter);
    let letters = dead_letters(&app, &filter, &queues, &history, dead).await?;
    let body = TrafficAnswer {
        time_range: time_range(&history),
        bucket_minutes: bucket_minutes(&history),
        point_count: series.len(),
        throughput: series,
        queues: queues.iter().take(MAX_QUEUES).map(queue_entry).collect(),
        messages: messages(&queues, counts),
        leases: LeaseCounts {
            active: sum(&queues, |stats| stats.leases),
            partitions_with_leases: sum(&queues, |stats| stats.leases),
            total_batch_size: sum(&queues, |stats| stats.leased),
            total_acked: sum(&queues, |stats| stats.consumed),
        },
        dead_letter_queue: letters,
        workers: workers(&history),
        errors: ErrorCounts {
            db_errors: counts.store_errors,
            ack_failed: if filtered { total.traffic.ack_failed } else { counts.ack_failed },
            dlq_messages: if filtered { total.traffic.dead } else { counts.dead_lettered },
        },
        stats_age: 0,
        truncated: history.truncated,
    };
    Ok(answer(StatusCode::OK, &body))
}

fn sum(queues: &[QueueStats], of: fn(&QueueStats) -> u64) -> u64 {
    queues.iter().map(of).sum()
}

/// Messages as they are now, and requests as they were counted.
fn messages(queues: &[QueueStats], counts: &ServerCounts) -> TrafficMessages {
    let per_request = |messages: u64, requests: u64| round(messages as f64 / requests.max(1) as f64);
    TrafficMessages {
        total: sum(queues, |stats| stats.messages.total),
        pending: sum(queues, |stats| stats.messages.pending),
        processing: sum(queues, |stats| stats.messages.processing),
        completed: sum(queues, |stats| stats.messages.completed),
        // A message that failed is delivered again, which is pending, or is a dead letter.
        failed: 0,
        dead_letter: sum(queues, |stats| stats.messages.dead_letter),
        requests: VerbNumbers {
            push: counts.push_requests,
            pop: counts.pop_requests,
            ack: counts.ack_requests,
        },
        batch_efficiency: VerbNumbers {
            push: per_request(counts.push_messages, counts.push_requests),
            pop: per_request(counts.pop_messages, counts.pop_requests),
            ack: per_request(counts.ack_messages, counts.ack_requests),
        },
    }
}

fn queue_entry(stats: &QueueStats) -> TrafficQueue<'_> {
    let queue = &stats.queue;
    TrafficQueue {
        id: queue.id.0,
        name: &queue.name,
        namespace: &queue.namespace,
        task: &queue.task,
        partitions: stats.partitions,
        total_consumed: stats.consumed,
    }
}

/// Dead letters in all, and of the latest that failed in this time where they come from and why.
async fn dead_letters(
    app: &App,
    filter: &QueueFilter,
    queues: &[QueueStats],
    history: &History,
    total: u64,
) -> Result<LetterSummary, Failure> {
    let mut letters = Vec::new();
    if total > 0 {
        let wanted = LetterQuery {
            queue: filter.queue.clone(),
            from: Some(history.from),
            to: Some(history.to),
            ..LetterQuery::default()
        };
        letters = app.broker.dead_letters(&wanted, Page { offset: 0, limit: MAX_LETTERS }).await?.0;
        let names: HashSet<&str> = queues.iter().map(|stats| &*stats.queue.name).collect();
        letters.retain(|letter| names.contains(&*letter.queue));
    }
    let partitions: HashSet<LaneId> = letters.iter().map(|letter| letter.letter.lane).collect();
    let mut errors: HashMap<&str, u64> = HashMap::new();
    for letter in &letters {
        *errors.entry(&letter.letter.error).or_default() += 1;
    }
    let mut errors: Vec<(&str, u64)> = errors.into_iter().collect();
    errors.sort_by_key(|(error, count)| (Reverse(*count), *error));
    errors.truncate(TOP_ERRORS);
    let error = |(error, count): (&str, u64)| ErrorEntry { error: error.to_owned(), count };
    Ok(LetterSummary {
        total_messages: total,
        affected_partitions: partitions.len(),
        top_errors: errors.into_iter().map(error).collect(),
    })
}

pub(crate) async fn analytics(
    State(app): State<Arc<App>>,
    RawQuery(query): RawQuery,
) -> Result<Response, Failure> {
    let query = Query::read(query.as_deref())?;
    let interval = query.text("interval").unwrap_or("hour");
    let bucket = match interval {
        "minute" => Duration::from_secs(60),
        "hour" => Duration::from_secs(3600),
        "day" => DAY,
        _ => return Err(Refused::Invalid("interval must be minute, hour or day".into()).into()),
    };
    let wanted = HistoryQuery { span: DAY, bucket: Some(bucket), ..history_query(&query)? };
    let history = app.broker.history(&wanted).await?;
    let body = AnalyticsAnswer {
        data_points: data_points(&history),
        interval,
        from: Millis(history.from.0),
        to: Millis(history.to.0),
        truncated: history.truncated,
    };
    Ok(answer(StatusCode::OK, &body))
}

/// Messages stored in every bucket, also where there were none.
fn data_points(history: &History) -> Vec<AnalyticsPoint> {
    let stored: BTreeMap<Timestamp, u64> = history
        .points()
        .iter()
        .map(|(at, points)| (*at, points.iter().map(|point| point.traffic.pushed).sum()))
        .collect();
    let length = i64::try_from(history.bucket.as_micros()).unwrap_or(i64::MAX).max(1);
    let mut at = Timestamp(history.from.0.div_euclid(length) * length);
    let mut points = Vec::new();
    while at < history.to {
        points.push(AnalyticsPoint {
            timestamp: Seconds(at.0),
            messages: stored.get(&at).copied().unwrap_or(0),
        });
        at = at.plus(history.bucket);
    }
    points
}

#[cfg(test)]
mod tests {
    use bugle_broker::{QueueCounts, ServerHistory};

    use super::*;

    #[test]
    fn every_bucket_has_a_point() {
        let minute = 60_000_000;
        let traffic = QueueCounts { pushed: 3, ..QueueCounts::default() };
        let point = ServerPoint { at: Timestamp(2 * minute), traffic, ..ServerPoint::default() };
        let server = ServerHistory { points: vec![point], ..ServerHistory::default() };
        let history = History {
            from: Timestamp(minute + 1),
            to: Timestamp(4 * minute),
            bucket: Duration::from_secs(60),
            servers: vec![server.clone(), server],
            ..History::default()
        };
        let seen: Vec<_> =
            data_points(&history).iter().map(|p| (p.timestamp.0 / minute, p.messages)).collect();
        assert_eq!(seen, [(1, 0), (2, 6), (3, 0)]);
    }
}
