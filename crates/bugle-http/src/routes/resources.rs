//! `/api/v1/resources/…`: what there is and how much of it. Counted for each answer, so nothing has to be refreshed.

use std::sync::Arc;

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, RawQuery, State};
use axum::response::Response;
use bugle_broker::{
    Depth, Family, MessageCounts, Overview, PartitionPage, PartitionStats, QueueDetail, QueueFilter,
    QueueStats, RankedPartition, Refused, Spread,
};
use bugle_store::{Page, QueueOptions};
use bugle_wire::{
    CleanedEntry, CountsEntry, DepthAnswer, FamilyCounts, FamilyEntry, LagEntry, Millis, NamespaceEntry,
    NamespacesAnswer, OverviewAnswer, Pagination, PartitionDepth, PartitionEntry, QueueDetailAnswer,
    QueueEntry, QueueListAnswer, RankedEntry, RankingAnswer, RefreshAnswer, RefreshedEntry, ShortCounts,
    SpreadEntry, StoredEntry, TaskEntry, TasksAnswer, ThroughputEntry,
};
use http::StatusCode;

use crate::app::App;
use crate::error::{Failure, json, json_of};
use crate::listing::{name, page};
use crate::query::Query;
use crate::routes::pop::bad_path;

/// Partitions of a queue in one answer: told in detail, and with their depth alone.
pub(crate) const DETAILED: usize = 1000;
pub(crate) const MAX_PARTITIONS: usize = 10_000;
/// Partitions in a ranking; the first is what its readers expect.
pub(crate) const RANKED: usize = 610;
pub(crate) const MAX_RANKED: usize = 1000;

/// About what a queue takes in a list, in bytes.
const ENTRY: usize = 288;

type QueuePath = Result<Path<String>, PathRejection>;

pub(crate) async fn queues(
    State(app): State<Arc<App>>,
    RawQuery(query): RawQuery,
) -> Result<Response, Failure> {
    let query = Query::read(query.as_deref())?;
    let page = page(&query, usize::MAX, usize::MAX)?;
    let order = order(&query)?;
    let mut queues = app.broker.queue_stats(&filter(&query)?).await?;
    sort(&mut queues, order);
    let list = queue_list(&queues, page, None);
    Ok(json_of(StatusCode::OK, &list, 128 + list.queues.len() * ENTRY))
}

pub(crate) async fn queue(
    State(app): State<Arc<App>>,
    path: QueuePath,
    RawQuery(query): RawQuery,
) -> Result<Response, Failure> {
    let Path(queue) = path.map_err(|e| bad_path(&e))?;
    let detail = app.broker.queue_detail(&queue, partitions_page(query.as_deref(), DETAILED)?).await?;
    Ok(json(StatusCode::OK, &queue_detail(&detail)))
}

pub(crate) async fn depth(
    State(app): State<Arc<App>>,
    path: QueuePath,
    RawQuery(query): RawQuery,
) -> Result<Response, Failure> {
    let Path(queue) = path.map_err(|e| bad_path(&e))?;
    let group = name(&Query::read(query.as_deref())?, "group")?;
    let page = partitions_page(query.as_deref(), MAX_PARTITIONS)?;
    let depth = app.broker.depth(&queue, group.as_ref(), page).await?;
    Ok(json(StatusCode::OK, &queue_depth(&depth)))
}

pub(crate) async fn partitions(
    State(app): State<Arc<App>>,
    RawQuery(query): RawQuery,
) -> Result<Response, Failure> {
    let query = Query::read(query.as_deref())?;
    let limit = page(&query, RANKED, MAX_RANKED)?.limit;
    let ranked = app.broker.ranked_partitions(name(&query, "queue")?.as_ref(), limit).await?;
    Ok(json(StatusCode::OK, &RankingAnswer { partitions: ranked.iter().map(ranked_entry).collect() }))
}

pub(crate) async fn namespaces(State(app): State<Arc<App>>) -> Result<Response, Failure> {
    let found = app.broker.namespaces().await?;
    let namespaces = found.iter().map(|f| NamespaceEntry { namespace: &f.name, family: family(f) }).collect();
    Ok(json(StatusCode::OK, &NamespacesAnswer { namespaces }))
}

pub(crate) async fn tasks(State(app): State<Arc<App>>) -> Result<Response, Failure> {
    let found = app.broker.tasks().await?;
    let tasks = found.iter().map(|f| TaskEntry { task: &f.name, family: family(f) }).collect();
    Ok(json(StatusCode::OK, &TasksAnswer { tasks }))
}

pub(crate) async fn overview(State(app): State<Arc<App>>) -> Result<Response, Failure> {
    Ok(json(StatusCode::OK, &overview_answer(&app.broker.overview().await?)))
}

/// Everything at a glance, in the words of the API.
pub(crate) fn overview_answer(overview: &Overview) -> OverviewAnswer {
    let totals = overview.totals;
    OverviewAnswer {
        queues: totals.queues,
        partitions: totals.partitions,
        namespaces: totals.namespaces,
        tasks: totals.tasks,
        messages: counts(&totals.messages),
        lag: LagEntry { time: spread(overview.lag_seconds), offset: spread(overview.lag_messages) },
        throughput: ThroughputEntry {
            ingested_per_second: rounded(overview.throughput.ingested_per_second),
            processed_per_second: rounded(overview.throughput.processed_per_second),
        },
        timestamp: Millis(overview.at.0),
        stats_age: 0,
    }
}

/// There is nothing to refresh; who asks is told what the next answers are made of.
pub(crate) async fn refresh(State(app): State<Arc<App>>) -> Result<Response, Failure> {
    let totals = app.broker.totals(&QueueFilter::default()).await?;
    let of = |counted| RefreshedEntry { counted };
    let answer = RefreshAnswer {
        partition: of(totals.partitions),
        queue: of(totals.queues),
        namespace: of(totals.namespaces),
        task: of(totals.tasks),
        system: of(1),
        cleanup: CleanedEntry::default(),
    };
    Ok(json(StatusCode::OK, &answer))
}

/// Which queues a query asks for.
pub(crate) fn filter(query: &Query<'_>) -> Result<QueueFilter, Refused> {
    Ok(QueueFilter {
        queue: None,
        namespace: name(query, "namespace")?,
        task: name(query, "task")?,
        search: query.text("search").map(str::to_owned),
    })
}

/// By what a list of queues can be sorted, besides their age.
pub(crate) const SORTS: [&str; 7] =
    ["created", "name", "pending", "processing", "total", "partitions", "deadLetter"];

/// `sort` and `order`: a column, and whether it begins with the greatest. Names begin with the first, numbers with the
/// greatest unless asked otherwise.
fn order(query: &Query<'_>) -> Result<(&'static str, bool), Refused> {
    let asked = query.text("sort").unwrap_or("created");
    let wrong = || Refused::Invalid(format!("sort must be one of {}", SORTS.join(", ")));
    let sort = SORTS.into_iter().find(|sort| *sort == asked).ok_or_else(wrong)?;
    match query.text("order") {
        None => Ok((sort, sort != "name")),
        Some("desc") => Ok((sort, true)),
        Some("asc") => Ok((sort, false)),
        Some(_) => Err(Refused::Invalid("order must be asc or desc".into())),
    }
}

/// Put queues, which come newest first, into another order. Equals are sorted by name.
fn sort(queues: &mut [QueueStats], (sort, greatest_first): (&str, bool)) {
    let number = |stats: &QueueStats| match sort {
        "pending" => stats.messages.pending,
        "processing" => stats.messages.processing,
        "total" => stats.messages.total,
        "partitions" => stats.partitions,
        "deadLetter" => stats.messages.dead_letter,
        _ => 0,
    };
    match sort {
        "created" if greatest_first => {}
        "created" => queues.reverse(),
        "name" => queues.sort_by(|a, b| a.queue.name.cmp(&b.queue.name)),
        _ => queues.sort_by_cached_key(|stats| {
            let number = number(stats);
            (if greatest_first { u64::MAX - number } else { number }, stats.queue.name.clone())
        }),
    }
    if sort == "name" && greatest_first {
        queues.reverse();
    }
}

/// `limit` and `after` for partitions of a queue.
pub(crate) fn partitions_page(query: Option<&str>, default: usize) -> Result<PartitionPage, Refused> {
    let query = Query::read(query)?;
    let limit = page(&query, default, MAX_PARTITIONS)?.limit;
    Ok(PartitionPage { after: name(&query, "after")?, limit })
}

/// A page of queues.
pub(crate) fn queue_list(
    queues: &[QueueStats],
    page: Page,
    pagination: Option<Pagination>,
) -> QueueListAnswer<'_, Pagination> {
    let entries = queues.iter().skip(page.offset).take(page.limit).map(queue_entry).collect();
    QueueListAnswer { queues: entries, total: queues.len(), pagination }
}

fn queue_entry(stats: &QueueStats) -> QueueEntry<'_> {
    let MessageCounts { total, pending, processing, dead_letter, .. } = stats.messages;
    QueueEntry {
        id: stats.queue.id.0,
        name: &stats.queue.name,
        namespace: &stats.queue.namespace,
        task: &stats.queue.task,
        created_at: Millis(stats.queue.created_at.0),
        partitions: stats.partitions,
        messages: ShortCounts { total, pending, processing, dead_letter },
        paused: stats.queue.options.paused,
        segments: None,
        retained_bytes: None,
    }
}

fn queue_detail(detail: &QueueDetail) -> QueueDetailAnswer<'_, &QueueOptions> {
    let QueueStats { queue, messages, .. } = &detail.stats;
    QueueDetailAnswer {
        id: queue.id.0,
        name: &queue.name,
        namespace: &queue.namespace,
        task: &queue.task,
        created_at: Millis(queue.created_at.0),
        partitions: detail.partitions.iter().map(partition_entry).collect(),
        truncated: detail.truncated,
        totals: counts(messages),
        segments: StoredEntry { messages: messages.total },
        options: &queue.options,
    }
}

fn partition_entry(partition: &PartitionStats) -> PartitionEntry<'_> {
    PartitionEntry {
        id: partition.id.0,
        name: &partition.name,
        created_at: Millis(partition.created_at.0),
        stats: counts(&partition.messages),
        oldest_message: partition.oldest.map(|at| Millis(at.0)),
        newest_message: partition.newest.map(|at| Millis(at.0)),
    }
}

/// All numbers of messages.
pub(crate) fn counts(counts: &MessageCounts) -> CountsEntry {
    CountsEntry {
        total: counts.total,
        pending: counts.pending,
        processing: counts.processing,
        completed: counts.completed,
        failed: 0,
        dead_letter: counts.dead_letter,
    }
}

fn queue_depth(depth: &Depth) -> DepthAnswer<'_> {
    DepthAnswer {
        queue: &depth.queue,
        group: depth.group.as_deref(),
        pending: depth.pending,
        partitions_pending: depth.partitions_pending,
        conflation: depth.conflation,
        effective_pending: depth.effective_pending(),
        partitions: depth
            .partitions
            .iter()
            .map(|(partition, pending)| PartitionDepth { partition, pending: *pending })
            .collect(),
        truncated: depth.truncated,
    }
}

fn ranked_entry(ranked: &RankedPartition) -> RankedEntry<'_> {
    RankedEntry {
        queue: &ranked.queue,
        partition: &ranked.partition,
        id: ranked.id.0,
        pending: ranked.pending,
        processing: ranked.processing,
        lag_seconds: ranked.behind.map(|behind| behind.as_secs()),
    }
}

fn family(family: &Family) -> FamilyEntry {
    let MessageCounts { total, pending, .. } = family.messages;
    FamilyEntry {
        queues: family.queues,
        partitions: family.partitions,
        messages: FamilyCounts { total, pending },
    }
}

fn spread(spread: Spread) -> SpreadEntry {
    SpreadEntry { avg: rounded(spread.avg), median: spread.median, min: spread.min, max: spread.max }
}

/// To the hundredth.
pub(crate) fn rounded(number: f64) -> f64 {
    (number * 100.0).round() / 100.0
}
