//! The three pop routes. They differ in their target only.
//!
//! The broker's future is awaited here, never spawned: when the client goes away, hyper drops the handler and with it
//! the pop, and the broker takes back what it claimed.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, RawQuery, State};
use axum::response::{IntoResponse, Response};
use bugle_broker::{PopAnswer, PopRequest, PopTarget, Refused, check_name, check_queue};
use bugle_store::QUEUE_MODE;
use bugle_wire::PopRefusal;
use http::{HeaderName, HeaderValue, StatusCode};

use crate::app::{App, Terms};
use crate::auth::Asking;
use crate::delivery::delivered;
use crate::error::{Failure, json, json_body};
use crate::pieces::Pieces;
use crate::query::Query;
use crate::telemetry::span::{Handling, Traced, common};

/// Longest lease a caller may ask for.
pub(crate) const MAX_LEASE_SECONDS: u64 = 86_400;

const STORE: HeaderName = HeaderName::from_static("bugle-store");

// What a request brings is read and let go before the wait begins: thousands wait at a time.

pub(crate) async fn by_partition(
    State(app): State<Arc<App>>,
    path: Result<Path<(String, String)>, PathRejection>,
    RawQuery(query): RawQuery,
    asking: Asking,
    traced: Traced,
) -> Result<Response, Failure> {
    let request = lane_request(&app.terms, path, query, asking)?;
    pop(&app, request, &traced).await
}

pub(crate) fn lane_request(
    terms: &Terms,
    path: Result<Path<(String, String)>, PathRejection>,
    query: Option<String>,
    asking: Asking,
) -> Result<Arc<PopRequest>, Failure> {
    let Path((queue, partition)) = path.map_err(|e| bad_path(&e))?;
    let target = PopTarget::Lane { queue: queue_name(&queue)?, partition: name("partition", &partition)? };
    Ok(request(terms, target, &Query::read(query.as_deref())?, asking)?)
}

pub(crate) async fn by_queue(
    State(app): State<Arc<App>>,
    path: Result<Path<String>, PathRejection>,
    RawQuery(query): RawQuery,
    asking: Asking,
    traced: Traced,
) -> Result<Response, Failure> {
    let request = queue_request(&app.terms, path, query, asking)?;
    pop(&app, request, &traced).await
}

pub(crate) fn queue_request(
    terms: &Terms,
    path: Result<Path<String>, PathRejection>,
    query: Option<String>,
    asking: Asking,
) -> Result<Arc<PopRequest>, Failure> {
    let Path(queue) = path.map_err(|e| bad_path(&e))?;
    let target = PopTarget::Queue { queue: queue_name(&queue)? };
    Ok(request(terms, target, &Query::read(query.as_deref())?, asking)?)
}

pub(crate) async fn by_filter(
    State(app): State<Arc<App>>,
    RawQuery(query): RawQuery,
    asking: Asking,
    traced: Traced,
) -> Result<Response, Failure> {
    match filter_request(&app.terms, query, asking)? {
        Some(request) => pop(&app, request, &traced).await,
        None => {
            let refusal = PopRefusal { success: false, error: "namespace or task is required", messages: [] };
            Ok(json(StatusCode::BAD_REQUEST, &refusal))
        }
    }
}

pub(crate) fn filter_request(
    terms: &Terms,
    query: Option<String>,
    asking: Asking,
) -> Result<Option<Arc<PopRequest>>, Failure> {
    let query = Query::read(query.as_deref())?;
    let part = |field| query.text(field).map(|value| name(field, value)).transpose();
    let (namespace, task) = (part("namespace")?, part("task")?);
    if namespace.is_none() && task.is_none() {
        return Ok(None);
    }
    Ok(Some(request(terms, PopTarget::Filter { namespace, task }, &query, asking)?))
}

/// The refusal of a path that cannot be read, by all routes that have names in theirs.
pub(crate) fn bad_path(rejection: &PathRejection) -> Failure {
    Failure::new(StatusCode::BAD_REQUEST, format!("path: {}", rejection.body_text()))
}

fn queue_name(value: &str) -> Result<Arc<str>, Refused> {
    check_queue("queue", value)?;
    Ok(value.into())
}

fn name(field: &str, value: &str) -> Result<Arc<str>, Refused> {
    check_name(field, value)?;
    Ok(value.into())
}

async fn pop(app: &App, request: Arc<PopRequest>, traced: &Traced) -> Result<Response, Failure> {
    match app.broker.pop(request.clone()).await {
        Ok(answer) => {
            let messages = answer.lanes.iter().flat_map(|lane| &lane.messages);
            let contexts = messages.filter_map(|popped| popped.message.context.as_ref());
            traced.tell(|| receiving(&answer, &request), contexts);
            Ok(response(app, answer, &request))
        }
        // Existing consumers end on a 5xx here; to them an outage is a quiet queue.
        Err(Refused::Unavailable(reason)) => {
            tracing::debug!(reason, "pop answered empty");
            let conflation = request.conflation;
            let answer = PopAnswer { store_unavailable: true, conflation, ..PopAnswer::default() };
            Ok(response(app, answer, &request))
        }
        Err(refused) => Err(refused.into()),
    }
}

/// A pop, as it is told of.
fn receiving<'a>(answer: &'a PopAnswer, request: &'a PopRequest) -> Handling<'a> {
    let asked = match &request.target {
        PopTarget::Lane { queue, .. } | PopTarget::Queue { queue } => Some(&**queue),
        PopTarget::Filter { .. } => common(answer.lanes.iter().map(|lane| &*lane.queue)),
    };
    Handling {
        kind: "receive",
        name: "pop",
        queue: asked,
        partition: common(answer.lanes.iter().map(|lane| &*lane.partition)),
        group: Some(&*request.group).filter(|group| *group != QUEUE_MODE),
        messages: answer.count(),
    }
}

fn response(app: &App, answer: PopAnswer, request: &PopRequest) -> Response {
    let (target, group) = (&request.target, request.group.clone());
    let unavailable = answer.store_unavailable;
    // A conflating consumer must be told of its policy even when there is nothing for it.
    let told = answer.conflation || answer.conflation_conflict;
    let mut response = if answer.count() == 0 && !told {
        StatusCode::NO_CONTENT.into_response()
    } else {
        // What was claimed is given back if the client goes away before the last byte.
        let receipt = answer.lease_id.map(|_| app.broker.receipt(&answer, &group));
        let body = Pieces::new(answer, target, group).into_body();
        let body = match receipt {
            Some(receipt) => delivered(body, receipt),
            None => body,
        };
        json_body(StatusCode::OK, body)
    };
    if unavailable {
        response.headers_mut().insert(STORE, HeaderValue::from_static("unavailable"));
    }
    response
}

fn request(
    terms: &Terms,
    target: PopTarget,
    query: &Query<'_>,
    asking: Asking,
) -> Result<Arc<PopRequest>, Refused> {
    let named = query.text("consumerGroup");
    let conflation = query.flag("conflation");
    let auto_ack = query.flag("autoAck");
    if conflation && named.is_none() {
        return Err(Refused::Invalid("conflation needs a consumerGroup".into()));
    }
    if conflation && auto_ack {
        return Err(Refused::Invalid("conflation cannot be combined with autoAck".into()));
    }
    Ok(Arc::new(PopRequest {
        target,
        group: named.map_or_else(|| Ok(terms.anonymous.clone()), |group| name("consumerGroup", group))?,
        wait: wait(terms, query)?,
        batch: query.number("batch")?.map(|n| at_most_u32(n.max(1))),
        partitions: query.number("partitions")?.map(|n| if n <= 0 { u32::MAX } else { at_most_u32(n) }),
        auto_ack,
        lease_seconds: lease_seconds(query)?,
        subscription_mode: query.text("subscriptionMode").map(str::to_owned),
        subscription_from: query.text("subscriptionFrom").map(str::to_owned),
        conflation,
        autopilot: query.flag("autopilot"),
        consumer: asking.0,
    }))
}

/// How long to wait; `timeout` is looked at only by those who wait.
fn wait(terms: &Terms, query: &Query<'_>) -> Result<Option<Duration>, Refused> {
    if !query.flag("wait") {
        return Ok(None);
    }
    let asked = match query.strict_number("timeout")? {
        None => terms.default_wait,
        Some(ms) => match u64::try_from(ms) {
            Ok(ms) if ms > 0 => Duration::from_millis(ms),
            _ => return Err(Refused::Invalid("timeout must be greater than 0".into())),
        },
    };
    Ok(Some(asked.min(terms.max_wait)))
}

/// A lease length below 1 is none at all: the queue's own applies.
fn lease_seconds(query: &Query<'_>) -> Result<Option<u64>, Refused> {
    let seconds = query.number("leaseSeconds")?.and_then(|n| u64::try_from(n).ok()).filter(|n| *n > 0);
    Ok(seconds.map(|n| n.min(MAX_LEASE_SECONDS)))
}

fn at_most_u32(number: i64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
