//! Consumer groups: seek, delete, subscribe anew, see how far they are.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, RawQuery, State};
use axum::response::Response;
use bugle_broker::{
    GroupPartition, GroupQueue, Refused, SeekPreview, SeekTo, check_name, check_queue, read_time,
};
use bugle_store::Group;
use bugle_wire::{
    DeleteGroupAnswer, Field, GroupPartitionEntry, GroupQueueEntry, Millis, NoSuccess, SeekAnswer,
    SeekPartitionAnswer, SeekPreviewEntry, SeekRequest, SubscriptionAnswer, SubscriptionRequest, Text, read,
};
use http::StatusCode;

use crate::app::App;
use crate::body;
use crate::error::{Failure, json};
use crate::query::Query;
use crate::routes::pop::bad_path;

const NO_PARTITION: &str = "Partition not found";

pub(crate) async fn one(
    State(app): State<Arc<App>>,
    path: Result<Path<String>, PathRejection>,
) -> Result<Response, Failure> {
    let Path(group) = path.map_err(|e| bad_path(&e))?;
    let queues = app.broker.group(&checked_group(&group)?).await?;
    let entries: BTreeMap<&str, GroupQueueEntry<'_>> = queues.iter().map(|q| (&*q.queue, entry(q))).collect();
    Ok(json(StatusCode::OK, &entries))
}

pub(crate) async fn delete(
    State(app): State<Arc<App>>,
    path: Result<Path<String>, PathRejection>,
    RawQuery(query): RawQuery,
) -> Result<Response, Failure> {
    let Path(group) = path.map_err(|e| bad_path(&e))?;
    forget(&app, &group, None, query.as_deref()).await
}

pub(crate) async fn delete_on_queue(
    State(app): State<Arc<App>>,
    path: Result<Path<(String, String)>, PathRejection>,
    RawQuery(query): RawQuery,
) -> Result<Response, Failure> {
    let Path((group, queue)) = path.map_err(|e| bad_path(&e))?;
    check_queue("queue", &queue)?;
    forget(&app, &group, Some(&queue), query.as_deref()).await
}

pub(crate) async fn forget(
    app: &App,
    group: &str,
    queue: Option<&str>,
    query: Option<&str>,
) -> Result<Response, Failure> {
    let name = checked_group(group)?;
    let query = Query::read(query)?;
    let metadata = query.text("deleteMetadata").is_none() || query.flag("deleteMetadata");
    let deleted = app.broker.delete_group(&name, queue, metadata).await?;
    Ok(json(
        StatusCode::OK,
        &DeleteGroupAnswer {
            success: true,
            consumer_group: group,
            queue_name: queue,
            deleted_partitions: deleted.partitions,
            metadata_deleted: deleted.metadata,
        },
    ))
}

pub(crate) async fn subscription(
    State(app): State<Arc<App>>,
    path: Result<Path<String>, PathRejection>,
    body: Body,
) -> Result<Response, Failure> {
    let Path(group) = path.map_err(|e| bad_path(&e))?;
    let name = checked_group(&group)?;
    let body = body::read(body, &app.config).await?;
    let request: SubscriptionRequest<'_> = read(&body)?;
    let sent = &request.subscription_timestamp;
    let (Some(from), Field::Is(new_timestamp)) = (time("subscriptionTimestamp", sent)?, sent) else {
        return Err(Refused::Invalid("Missing subscriptionTimestamp in request body".into()).into());
    };
    let rows_updated = app.broker.subscription(&name, from).await?;
    let answer = SubscriptionAnswer { success: true, consumer_group: &group, new_timestamp, rows_updated };
    Ok(json(StatusCode::OK, &answer))
}

pub(crate) async fn seek(
    State(app): State<Arc<App>>,
    path: Result<Path<(String, String)>, PathRejection>,
    body: Body,
) -> Result<Response, Failure> {
    let Path((group, queue)) = path.map_err(|e| bad_path(&e))?;
    let name = checked_group(&group)?;
    check_queue("queue", &queue)?;
    let body = body::read(body, &app.config).await?;
    let neither = || Refused::Invalid("Must specify either 'toEnd': true or 'timestamp'".into());
    let request: SeekRequest<'_> = read(&body)?;
    let to = target(&request)?.ok_or_else(neither)?;
    let (partitions_updated, preview) = if flag("dryRun", &request.dry_run)? {
        (0, Some(app.broker.preview_seek(&queue, &name, None, to).await?))
    } else {
        (app.broker.seek(&queue, &name, None, to).await?.partitions, None)
    };
    let target_timestamp = match to {
        SeekTo::Time(at) => Some(Millis(at.0)),
        SeekTo::Beginning | SeekTo::End => None,
    };
    Ok(json(
        StatusCode::OK,
        &SeekAnswer {
            success: true,
            consumer_group: &group,
            queue_name: &queue,
            seek_to_end: to == SeekTo::End,
            seek_to_beginning: to == SeekTo::Beginning,
            target_timestamp,
            partitions_updated,
            preview: preview.map(preview_entry),
        },
    ))
}

pub(crate) async fn seek_partition(
    State(app): State<Arc<App>>,
    path: Result<Path<(String, String, String)>, PathRejection>,
    body: Body,
) -> Result<Response, Failure> {
    let Path((group, queue, partition)) = path.map_err(|e| bad_path(&e))?;
    let name = checked_group(&group)?;
    check_queue("queue", &queue)?;
    check_name("partition", &partition)?;
    let body = body::read(body, &app.config).await?;
    // Older clients send no body, or an empty one, and mean the end.
    let request = if body.is_empty() { SeekRequest::default() } else { read(&body)? };
    let to = target(&request)?.unwrap_or(SeekTo::End);
    let dry_run = flag("dryRun", &request.dry_run)?;
    let done = if dry_run {
        let preview = app.broker.preview_seek(&queue, &name, Some(&partition), to).await;
        preview.map(|preview| (None, Some(preview_entry(preview))))
    } else {
        app.broker.seek(&queue, &name, Some(&partition), to).await.map(|sought| (sought.position, None))
    };
    let (cursor_moved_to, preview) = match done {
        Err(Refused::NotFound(_)) => {
            return Ok(json(StatusCode::NOT_FOUND, &NoSuccess { success: false, error: NO_PARTITION }));
        }
        done => done?,
    };
    Ok(json(
        StatusCode::OK,
        &SeekPartitionAnswer {
            success: true,
            consumer_group: &group,
            queue_name: &queue,
            partition_name: &partition,
            updated: !dry_run,
            cursor_moved_to,
            preview,
        },
    ))
}

fn preview_entry(preview: SeekPreview) -> SeekPreviewEntry {
    let SeekPreview { messages, partitions, pending } = preview;
    SeekPreviewEntry { messages, partitions, pending }
}

fn checked_group(group: &str) -> Result<Group, Refused> {
    check_name("consumerGroup", group)?;
    Ok(group.into())
}

/// Where a request says to go; `None` = it does not say.
fn target(request: &SeekRequest<'_>) -> Result<Option<SeekTo>, Refused> {
    let end = flag("toEnd", &request.to_end)?.then_some(SeekTo::End);
    let beginning = flag("toBeginning", &request.to_beginning)?.then_some(SeekTo::Beginning);
    let at = time("timestamp", &request.timestamp)?.map(SeekTo::Time);
    let mut said = [end, beginning, at].into_iter().flatten();
    match (said.next(), said.next()) {
        (to, None) => Ok(to),
        _ => Err(Refused::Invalid("Must specify only one of 'toEnd', 'toBeginning' and 'timestamp'".into())),
    }
}

fn flag(field: &str, value: &Field<bool>) -> Result<bool, Refused> {
    match value {
        Field::Absent => Ok(false),
        Field::Is(flag) => Ok(*flag),
        Field::Wrong => Err(Refused::Invalid(format!("{field} must be true or false"))),
    }
}

fn time(field: &str, text: &Text<'_>) -> Result<Option<bugle_store::Timestamp>, Refused> {
    match text {
        Field::Absent => Ok(None),
        Field::Is(text) => read_time(field, text).map(Some),
        Field::Wrong => Err(Refused::Invalid(format!("{field} must be an ISO 8601 timestamp"))),
    }
}

fn entry(queue: &GroupQueue) -> GroupQueueEntry<'_> {
    let partitions = queue.partitions.iter().map(partition).collect();
    GroupQueueEntry { partitions, truncated: queue.truncated }
}

fn partition(partition: &GroupPartition) -> GroupPartitionEntry<'_> {
    GroupPartitionEntry {
        partition: &partition.partition,
        worker_id: partition.lease,
        last_consumed_at: partition.served_at.map(|at| Millis(at.0)),
        total_consumed: partition.consumed,
        offset_lag: partition.lag,
        time_lag_seconds: partition.behind.as_secs(),
        lease_active: partition.lease.is_some(),
    }
}

#[cfg(test)]
mod tests {
    use bugle_store::Timestamp;

    use super::*;

    fn said(body: &str) -> Result<Option<SeekTo>, String> {
        target(&read(body.as_bytes()).unwrap()).map_err(|refused| refused.to_string())
    }

    #[test]
    fn a_seek_says_one_place_or_none() {
        assert_eq!(said(r#"{"toEnd":true}"#), Ok(Some(SeekTo::End)));
        assert_eq!(said(r#"{"toBeginning":true,"toEnd":false}"#), Ok(Some(SeekTo::Beginning)));
        let time = Ok(Some(SeekTo::Time(Timestamp(1_700_000_000_000_000))));
        assert_eq!(said(r#"{"toEnd":null,"timestamp":"2023-11-14T22:13:20Z"}"#), time);
        for nothing in ["{}", r#"{"toEnd":false}"#, r#"{"timestamp":null}"#] {
            assert_eq!(said(nothing), Ok(None), "{nothing}");
        }
    }

    #[test]
    fn what_is_wrong_with_a_seek_is_named() {
        for (body, complaint) in [
            (r#"{"toEnd":true,"timestamp":"2023-11-14T22:13:20Z"}"#, "Must specify only one of"),
            (r#"{"toEnd":true,"toBeginning":true}"#, "Must specify only one of"),
            (r#"{"toEnd":"true"}"#, "toEnd must be true or false"),
            (r#"{"toBeginning":1}"#, "toBeginning must be true or false"),
            (r#"{"timestamp":"yesterday"}"#, "timestamp must be an ISO 8601 timestamp"),
            (r#"{"timestamp":17}"#, "timestamp must be an ISO 8601 timestamp"),
            (r#"{"timestamp":""}"#, "timestamp must be an ISO 8601 timestamp"),
        ] {
            let error = said(body).unwrap_err();
            assert!(error.starts_with(complaint), "{body}: {error}");
        }
    }
}
