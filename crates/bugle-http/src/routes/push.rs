//! `POST /api/v1/push`.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use bugle_broker::{PushItem, Pushed, Refused};
use bugle_wire::{BufferedPush, PushRequest, PushResult, PushStatus, read};
use bytes::Bytes;
use http::StatusCode;

use crate::app::App;
use crate::auth::Producer;
use crate::body;
use crate::convert::{Pushes, Sender, objects};
use crate::error::{Failure, json};
use crate::telemetry::span::{Handling, Traced, common};

pub(crate) async fn push(
    State(app): State<Arc<App>>,
    producer: Producer,
    traced: Traced,
    body: Body,
) -> Result<Response, Failure> {
    let body = body::read(body, &app.config).await?;
    let items = body::digest(&body, || items(&body, producer.sender.clone()))?;
    drop(body);
    producer.sends(items.len())?;
    if items.is_empty() {
        return Ok(json(StatusCode::CREATED, &[(); 0]));
    }
    traced.tell(|| sending(&items), items.iter().filter_map(|item| item.context.as_ref()));
    let told: Vec<Told> = items.iter().map(|item| (item.queue.clone(), item.partition.clone())).collect();
    let pushed = app.broker.push(items).await?;
    let each = pushed.iter().zip(&told).enumerate();
    let results: Vec<PushResult<'_>> =
        each.map(|(index, (pushed, told))| result(index, pushed, told)).collect();
    Ok(json(StatusCode::CREATED, &results))
}

/// A push, as it is told of.
fn sending(items: &[PushItem]) -> Handling<'_> {
    Handling {
        kind: "send",
        name: "push",
        queue: common(items.iter().map(|item| &*item.queue)),
        partition: common(items.iter().map(|item| &*item.partition)),
        group: None,
        messages: items.len(),
    }
}

/// Queue and partition of a message.
type Told = (Arc<str>, Arc<str>);

fn result<'a>(index: usize, pushed: &'a Pushed, (queue, partition): &'a Told) -> PushResult<'a> {
    let transaction_id = std::str::from_utf8(&pushed.transaction_id).unwrap_or_default();
    PushResult {
        index,
        transaction_id,
        status: match (pushed.duplicate, pushed.buffered) {
            (true, _) => PushStatus::Duplicate,
            (false, true) => PushStatus::Buffered,
            (false, false) => PushStatus::Queued,
        },
        message_id: pushed.message_id,
        partition_id: (!pushed.duplicate && !pushed.buffered).then_some(pushed.lane.0),
        trace_id: (!pushed.duplicate).then_some(None),
        queue_name: queue,
        buffered: pushed.buffered.then_some(BufferedPush { queue, partition, transaction_id }),
    }
}

/// Everything in the body, checked before any of it is sent on.
pub(crate) fn items(body: &Bytes, sender: Sender) -> Result<Vec<PushItem>, Failure> {
    let request: PushRequest<'_> = read(body)?;
    // An absent payload is stored as null: this is what the older suites expect.
    let mut pushes = Pushes::new(body, "null", sender);
    let items = objects(&request.items, "items", "items array is required")?
        .map(|(i, entry)| {
            let item = pushes.item(entry?, &|field| format!("items[{i}].{field}"))?;
            // Only transactions store a trace id; clients' suites insist on it.
            Ok(PushItem { trace_id: None, ..item })
        })
        .collect::<Result<_, Refused>>()?;
    Ok(items)
}
