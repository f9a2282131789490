//! `/api/v1/status/queues/…`: queues as those see them who look after them, and their newest messages.

use std::sync::Arc;

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, RawQuery, State};
use axum::response::Response;
use bugle_broker::{MessageQuery, MessageView, PartitionStats, QueueDetail, QueueFilter, Refused};
use bugle_store::Timestamp;
use bugle_wire::{
    ConsumedEntry, Millis, PartitionStatusEntry, QueueStatusAnswer, QueueStatusEntry, StatusConfigEntry,
    StatusMessageEntry, TotalsEntry,
};
use http::StatusCode;

use crate::app::App;
use crate::error::{Failure, json};
use crate::listing::{page, pagination, time};
use crate::query::Query;
use crate::routes::pop::bad_path;
use crate::routes::resources::{counts, filter, partitions_page, queue_list};

pub(crate) const QUEUES: usize = 100;
pub(crate) const MAX_QUEUES: usize = 10_000;
pub(crate) const PARTITIONS: usize = 1000;
pub(crate) const MESSAGES: usize = 50;
pub(crate) const MAX_MESSAGES: usize = 1000;

type QueuePath = Result<Path<String>, PathRejection>;

pub(crate) async fn list(
    State(app): State<Arc<App>>,
    RawQuery(query): RawQuery,
) -> Result<Response, Failure> {
    let query = Query::read(query.as_deref())?;
    let page = page(&query, QUEUES, MAX_QUEUES)?;
    // Numbers are those of now; a time is checked and otherwise of no account.
    time(&query, "from")?;
    time(&query, "to")?;
    let queues = app.broker.queue_stats(&filter(&query)?).await?;
    Ok(json(StatusCode::OK, &queue_list(&queues, page, Some(pagination(page)))))
}

pub(crate) async fn one(
    State(app): State<Arc<App>>,
    path: QueuePath,
    RawQuery(query): RawQuery,
) -> Result<Response, Failure> {
    let Path(queue) = path.map_err(|e| bad_path(&e))?;
    let detail = app.broker.queue_detail(&queue, partitions_page(query.as_deref(), PARTITIONS)?).await?;
    Ok(json(StatusCode::OK, &status(&detail)))
}

pub(crate) async fn messages(
    State(app): State<Arc<App>>,
    path: QueuePath,
    RawQuery(query): RawQuery,
) -> Result<Response, Failure> {
    let Path(queue) = path.map_err(|e| bad_path(&e))?;
    let page = page(&Query::read(query.as_deref())?, MESSAGES, MAX_MESSAGES)?;
    // A queue that does not exist is not one without messages.
    let queue: Arc<str> = queue.into();
    let only = QueueFilter { queue: Some(queue.clone()), ..QueueFilter::default() };
    if app.broker.totals(&only).await?.queues == 0 {
        return Err(Refused::NotFound("Queue not found".into()).into());
    }
    let wanted = MessageQuery {
        queue: Some(queue),
        from: Some(Timestamp::ZERO),
        offset: page.offset,
        limit: page.limit,
        ..MessageQuery::default()
    };
    let list = app.broker.messages(&wanted).await?;
    Ok(json(StatusCode::OK, &list.messages.iter().map(message).collect::<Vec<_>>()))
}

fn status(detail: &QueueDetail) -> QueueStatusAnswer<'_> {
    let (queue, totals) = (&detail.stats.queue, counts(&detail.stats.messages));
    let options = &queue.options;
    QueueStatusAnswer {
        queue: QueueStatusEntry {
            id: queue.id.0,
            name: &queue.name,
            namespace: &queue.namespace,
            task: &queue.task,
            priority: options.priority,
            created_at: Millis(queue.created_at.0),
            config: StatusConfigEntry {
                lease_time: options.lease_time,
                retry_limit: options.retry_limit,
                retry_delay: options.retry_delay,
                ttl: options.ttl,
                max_queue_size: options.max_size,
                dead_letter_queue: options.dead_letter_queue,
            },
        },
        partitions: detail.partitions.iter().map(partition).collect(),
        truncated: detail.truncated,
        totals: TotalsEntry { messages: totals, counts: totals },
    }
}

fn partition(partition: &PartitionStats) -> PartitionStatusEntry<'_> {
    let messages = counts(&partition.messages);
    PartitionStatusEntry {
        id: partition.id.0,
        name: &partition.name,
        created_at: Millis(partition.created_at.0),
        messages,
        stats: messages,
        cursor: ConsumedEntry { total_consumed: partition.consumed, batches_consumed: None },
        last_activity: Millis(partition.active_at.0),
        oldest_message: partition.oldest.map(|at| Millis(at.0)),
        newest_message: partition.newest.map(|at| Millis(at.0)),
    }
}

fn message(view: &MessageView) -> StatusMessageEntry<'_> {
    StatusMessageEntry {
        id: view.message.id,
        transaction_id: view.message.transaction(),
        partition_id: view.lane.0,
        queue_path: format!("{}/{}", view.queue.name, view.partition),
        queue: &view.queue.name,
        partition: &view.partition,
        status: view.status.name(),
        created_at: Millis(view.created_at.0),
    }
}
