//! `POST /api/v1/ack` and `/api/v1/ack/batch`: both answer a list with one element per acknowledgement.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use bugle_broker::{AckItem, Acked, Refused};
use bugle_store::{Group, QUEUE_MODE};
use bugle_wire::{AckBatchRequest, AckEntry, AckResult, read};
use bytes::Bytes;
use http::StatusCode;

use crate::app::App;
use crate::body;
use crate::convert::{ack, group, objects};
use crate::error::{Failure, json};
use crate::telemetry::span::{Handling, Traced, common};

pub(crate) async fn single(
    State(app): State<Arc<App>>,
    traced: Traced,
    body: Body,
) -> Result<Response, Failure> {
    let body = body::read(body, &app.config).await?;
    let item = {
        let entry: AckEntry<'_> = read(&body)?;
        let at = |field: &str| field.to_owned();
        ack(&entry, group(&entry.consumer_group, &app.terms.anonymous, &at)?, &at)?
    };
    settle(&app, vec![item], &traced).await
}

pub(crate) async fn batch(
    State(app): State<Arc<App>>,
    traced: Traced,
    body: Body,
) -> Result<Response, Failure> {
    let body = body::read(body, &app.config).await?;
    let items = body::digest(&body, || items(&body, &app.terms.anonymous))?;
    settle(&app, items, &traced).await
}

/// Everything in the body of a batch.
fn items(body: &Bytes, anonymous: &Group) -> Result<Vec<AckItem>, Failure> {
    let request: AckBatchRequest<'_> = read(body)?;
    let group = group(&request.consumer_group, anonymous, &|field| field.to_owned())?;
    let items = objects(&request.acknowledgments, "acknowledgments", "acknowledgments array is required")?
        .map(|(i, entry)| ack(entry?, group.clone(), &|field| format!("acknowledgments[{i}].{field}")))
        .collect::<Result<Vec<_>, Refused>>()?;
    Ok(items)
}

async fn settle(app: &App, items: Vec<AckItem>, traced: &Traced) -> Result<Response, Failure> {
    let group = items.first().map(|item| item.group.clone());
    let ids: Vec<String> = items.iter().map(|item| item.transaction_id.clone()).collect();
    let acked = if items.is_empty() { Vec::new() } else { app.broker.ack(items).await? };
    let settling = || settling(&acked, group.as_deref());
    traced.tell(settling, acked.iter().filter_map(|acked| acked.context.as_ref()));
    let results: Vec<AckResult<'_>> = acked
        .iter()
        .zip(&ids)
        .enumerate()
        .map(|(index, (acked, id))| AckResult {
            index,
            transaction_id: id,
            success: acked.success,
            error: acked.error.as_deref().filter(|_| !acked.success),
            queue_name: acked.queue.as_deref(),
            partition_name: acked.partition.as_deref(),
            lease_released: acked.lease_released,
            dlq: acked.dlq,
            noop: acked.noop,
        })
        .collect();
    Ok(json(StatusCode::OK, &results))
}

/// Acknowledgements, as they are told of.
fn settling<'a>(acked: &'a [Acked], group: Option<&'a str>) -> Handling<'a> {
    Handling {
        kind: "settle",
        name: "ack",
        queue: common(acked.iter().filter_map(|acked| acked.queue.as_deref())),
        partition: common(acked.iter().filter_map(|acked| acked.partition.as_deref())),
        group: group.filter(|group| *group != QUEUE_MODE),
        messages: acked.len(),
    }
}
