//! `/api/v1/messages`: looking at messages, and handling single ones that failed.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, RawQuery, State};
use axum::response::Response;
use bugle_broker::{MessageQuery, MessageStatus, MessageView, ReadMode, Refused};
use bugle_store::{LaneId, QUEUE_MODE, fingerprint};
use bugle_wire::{
    BusStatus, FullMessage, GiveUpRequest, ListedMessage, MessageEntry, MessageGroup, MessageListAnswer,
    MessageOutcome, Millis, ModeEntry, Payload, QueueConfigEntry, SegmentEntry, read,
};
use http::StatusCode;

use crate::app::App;
use crate::body;
use crate::convert::{group, optional};
use crate::error::{Failure, json};
use crate::listing::{lane, name, page, pagination, time};
use crate::query::Query;
use crate::routes::dlq::{destination, not_found, replayed};
use crate::routes::pop::bad_path;

pub(crate) const DEFAULT_LIMIT: usize = 200;
pub(crate) const MAX_LIMIT: usize = 1000;
const NOT_FOUND: &str = "Message not found";

type MessagePath = Result<Path<(String, String)>, PathRejection>;

pub(crate) async fn list(
    State(app): State<Arc<App>>,
    RawQuery(query): RawQuery,
) -> Result<Response, Failure> {
    let query = Query::read(query.as_deref())?;
    let page = page(&query, DEFAULT_LIMIT, MAX_LIMIT)?;
    let (namespace, ns) = (name(&query, "namespace")?, name(&query, "ns")?);
    let wanted = MessageQuery {
        queue: name(&query, "queue")?,
        partition: name(&query, "partition")?,
        namespace: namespace.or(ns),
        task: name(&query, "task")?,
        status: query.text("status").map(status).transpose()?,
        from: time(&query, "from")?,
        to: time(&query, "to")?,
        offset: page.offset,
        limit: page.limit,
    };
    let list = app.broker.messages(&wanted).await?;
    let answer = MessageListAnswer {
        messages: list.messages.iter().map(listed).collect(),
        total: list.total,
        truncated: list.truncated,
        mode: mode(list.mode, None),
        pagination: pagination(page),
    };
    Ok(json(StatusCode::OK, &answer))
}

pub(crate) async fn get(State(app): State<Arc<App>>, path: MessagePath) -> Result<Response, Failure> {
    let Path((partition, transaction)) = path.map_err(|e| bad_path(&e))?;
    let Some(lane) = lane(&partition) else { return Err(Refused::NotFound(NOT_FOUND.into()).into()) };
    let view = app.broker.message(lane, &transaction).await?;
    Ok(json(StatusCode::OK, &full(&view)))
}

pub(crate) async fn delete(
    State(app): State<Arc<App>>,
    path: MessagePath,
    RawQuery(query): RawQuery,
) -> Result<Response, Failure> {
    let Path((partition, transaction)) = path.map_err(|e| bad_path(&e))?;
    let group = name(&Query::read(query.as_deref())?, "consumerGroup")?;
    let deleted = match lane(&partition) {
        Some(lane) => app.broker.delete_dead_letters_of(lane, &transaction, group).await?,
        None => 0,
    };
    let (status, message) = match deleted {
        0 => (StatusCode::NOT_FOUND, NOT_FOUND),
        _ => (StatusCode::OK, "Message deleted successfully"),
    };
    let outcome = MessageOutcome {
        success: deleted > 0,
        partition_id: &partition,
        transaction_id: &transaction,
        message,
        error: (deleted == 0).then_some(NOT_FOUND),
    };
    Ok(json(status, &outcome))
}

pub(crate) async fn retry(
    State(app): State<Arc<App>>,
    path: MessagePath,
    RawQuery(query): RawQuery,
    body: Body,
) -> Result<Response, Failure> {
    let Path((partition, transaction)) = path.map_err(|e| bad_path(&e))?;
    let group = name(&Query::read(query.as_deref())?, "consumerGroup")?;
    let to = destination(&body::read(body, &app.config).await?)?;
    let Some(lane) = lane(&partition) else { return Ok(not_found("Dead letter not found")) };
    replayed(app.broker.retry(lane, &transaction, group, &to).await)
}

pub(crate) async fn give_up(
    State(app): State<Arc<App>>,
    path: MessagePath,
    body: Body,
) -> Result<Response, Failure> {
    let Path((partition, transaction)) = path.map_err(|e| bad_path(&e))?;
    let body = body::read(body, &app.config).await?;
    let (group, error) = {
        let at = |field: &str| field.to_owned();
        let request: GiveUpRequest<'_> =
            if body.is_empty() { GiveUpRequest::default() } else { read(&body)? };
        let error = optional(&request.error, "error", &at)?.map(str::to_owned);
        (group(&request.consumer_group, &app.terms.anonymous, &at)?, error)
    };
    let done = match lane(&partition) {
        Some(lane) => give_up_on(&app, lane, &transaction, group, error).await,
        None => Err(Refused::NotFound(NOT_FOUND.into())),
    };
    let (status, message, error) = match done {
        Ok(true) => (StatusCode::OK, "Message moved to the dead letters".to_owned(), None),
        Ok(false) => (StatusCode::OK, "Message dropped: the queue keeps no dead letters".to_owned(), None),
        Err(Refused::NotFound(_)) => {
            (StatusCode::NOT_FOUND, NOT_FOUND.to_owned(), Some(NOT_FOUND.to_owned()))
        }
        Err(Refused::Conflict(reason)) => (StatusCode::CONFLICT, reason.clone(), Some(reason)),
        Err(refused) => return Err(refused.into()),
    };
    let outcome = MessageOutcome {
        success: error.is_none(),
        partition_id: &partition,
        transaction_id: &transaction,
        message: &message,
        error: error.as_deref(),
    };
    Ok(json(status, &outcome))
}

/// Whether there is a dead letter of it now.
async fn give_up_on(
    app: &App,
    lane: LaneId,
    transaction: &str,
    group: Arc<str>,
    error: Option<String>,
) -> Result<bool, Refused> {
    Ok(app.broker.give_up(lane, transaction.to_owned(), group, error).await?.dlq)
}

fn status(name: &str) -> Result<MessageStatus, Refused> {
    let wrong = || Refused::Invalid("status must be pending, processing, completed or dead_letter".into());
    MessageStatus::by_name(name).ok_or_else(wrong)
}

fn entry(view: &MessageView) -> MessageEntry<'_> {
    let payload = Payload(Some(&view.message.payload));
    MessageEntry {
        id: view.message.id,
        transaction_id: view.message.transaction(),
        partition_id: view.lane.0,
        offset: view.offset,
        queue_path: format!("{}/{}", view.queue.name, view.partition),
        queue: &view.queue.name,
        partition: &view.partition,
        namespace: &view.queue.namespace,
        task: &view.queue.task,
        status: view.status.name(),
        trace_id: view.message.trace_id,
        traceparent: view.message.context.as_ref().map(|context| context.text()),
        tracestate: view.message.context.as_ref().and_then(|context| context.state_text()),
        producer_sub: view.message.producer(),
        created_at: Millis(view.created_at.0),
        lease_expires_at: view.lease_expires_at().map(|at| Millis(at.0)),
        data: payload,
        payload,
    }
}

/// Named groups past a message.
fn consumed_by(view: &MessageView) -> usize {
    view.groups.iter().filter(|group| group.consumed && &*group.name != QUEUE_MODE).count()
}

fn listed(view: &MessageView) -> ListedMessage<'_> {
    ListedMessage {
        entry: entry(view),
        queue_status: view.queue_status.map(MessageStatus::name),
        bus_status: BusStatus { consumed_by: consumed_by(view), total_groups: view.mode().bus_groups },
        queue_priority: view.queue.options.priority,
        txn_hash: format!("{:016x}", fingerprint(&view.message.transaction_id)),
        segment: view.segment.as_ref().map(|positions| SegmentEntry {
            base_offset: positions.start,
            messages: positions.end - positions.start,
        }),
    }
}

fn full(view: &MessageView) -> FullMessage<'_> {
    let options = &view.queue.options;
    FullMessage {
        entry: entry(view),
        is_encrypted: view.encrypted,
        error_message: view.failure.as_ref().map(|(error, _)| error.as_str()),
        retry_count: view.failure.as_ref().map(|(_, attempts)| *attempts),
        queue_config: QueueConfigEntry {
            lease_time: options.lease_time,
            retry_limit: options.retry_limit,
            retry_delay: options.retry_delay,
            ttl: options.ttl,
            priority: options.priority,
        },
        mode: mode(view.mode(), Some(consumed_by(view))),
        consumer_groups: view
            .groups
            .iter()
            .map(|group| MessageGroup {
                name: &group.name,
                consumed: group.consumed,
                lease_expires_at: group.lease_expires_at.map(|at| Millis(at.0)),
            })
            .collect(),
    }
}

fn mode(mode: ReadMode, consumed_by_groups: Option<usize>) -> ModeEntry {
    ModeEntry {
        has_queue_mode: mode.queue_mode,
        bus_groups_count: mode.bus_groups,
        consumed_by_groups,
        kind: mode.name(),
    }
}
