//! What must hold whatever a client sends, for fuzzing. Each function panics if it does not.
//!
//! Bodies are compared with another reader of JSON, `serde_json::Value`: we read a body if and only if it does, with the
//! exceptions that [`difference`] lists. Paths and queries go through a router, as requests do.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, RawQuery};
use axum::response::IntoResponse;
use axum::routing::get;
use bugle_broker::{Operation, PopRequest, PopTarget, PushItem};
use bugle_wire::{AckBatchRequest, AckEntry, PushRequest, Unreadable, read};
use bytes::Bytes;
use futures_util::FutureExt;
use http::{Request, StatusCode};
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use serde_json::Value;

use crate::app::{HttpConfig, Terms};
use crate::auth::Asking;
use crate::convert::{Sender, ack, group, objects};
use crate::error::Failure;
use crate::query::Query;
use crate::routes::{pop, push, queue, transaction};

/// The body of a push.
pub fn push_body(body: &[u8]) {
    let other: Result<Value, _> = serde_json::from_slice(body);
    difference(read::<PushRequest<'_>>(body).err(), &other, body);
    let body = Bytes::copy_from_slice(body);
    match push::items(&body, Sender::default()) {
        Ok(items) => {
            let Ok(other) = other else { return };
            let listed = other["items"].as_array().expect("we read a list");
            assert_eq!(items.len(), listed.len());
            items.iter().zip(listed).for_each(|(item, other)| same_message(item, other, "null"));
        }
        Err(failure) => refused(&failure),
    }
}

/// A message that was taken is what the other reader sees.
fn same_message(item: &PushItem, other: &Value, missing: &str) {
    assert_eq!(Some(&*item.queue), other["queue"].as_str());
    assert_eq!(&*item.partition, other["partition"].as_str().unwrap_or("Default"));
    let id = other["transactionId"].as_str().filter(|id| !id.is_empty());
    assert_eq!(item.transaction_id.as_deref(), id.map(str::as_bytes));
    let context = other["traceparent"].as_str().filter(|text| !text.is_empty());
    assert_eq!(item.context.is_some(), context.is_some());
    let payload: Value = serde_json::from_slice(&item.payload).expect("it stands in a body that was read");
    match other.get("payload") {
        Some(sent) => assert_eq!(payload, *sent),
        None => assert_eq!(item.payload, missing),
    }
}

/// Whether we may read a body that the other reader does not, or the other way round.
fn difference(ours: Option<Unreadable>, other: &Result<Value, serde_json::Error>, body: &[u8]) {
    match (ours, other) {
        (None, Ok(value)) => assert!(value.is_object()),
        (None, Err(error)) => {
            // Payloads are kept as they are: numbers of any size and lone halves of characters are somebody else's business,
            // and nesting is refused later, by name.
            let text = error.to_string();
            let kept = ["number out of range", "surrogate", "hex escape", "recursion limit"];
            assert!(kept.iter().any(|reason| text.contains(reason)), "only we read it: {text}");
        }
        (Some(Unreadable::Empty), _) => assert!(body.is_empty()),
        (Some(Unreadable::NotUtf8(_)), _) => assert!(std::str::from_utf8(body).is_err()),
        (Some(Unreadable::NotAnObject), other) => {
            assert!(other.as_ref().is_ok_and(|value| !value.is_object()) || other.is_err());
        }
        (Some(Unreadable::Syntax(error)), Ok(_)) => {
            // A field that stands twice: whichever were taken, somebody meant the other.
            assert!(error.to_string().contains("duplicate field"), "only we refuse it: {error}");
        }
        (Some(Unreadable::Syntax(_)), Err(_)) => {}
    }
}

/// The bodies of an acknowledgement, of a batch of them, of a transaction and of a configuration.
pub fn other_bodies(body: &[u8]) {
    let other: Result<Value, _> = serde_json::from_slice(body);
    let terms = Terms::of(&HttpConfig::default());
    let at = |field: &str| field.to_owned();
    let entry = read::<AckEntry<'_>>(body);
    if let Ok(entry) = &entry {
        let _ = group(&entry.consumer_group, &terms.anonymous, &at).and_then(|group| ack(entry, group, &at));
    }
    difference(entry.err(), &other, body);
    if let Ok(request) = read::<AckBatchRequest<'_>>(body)
        && let Ok(entries) = objects(&request.acknowledgments, "acknowledgments", "required")
    {
        for (_, entry) in entries {
            let _ = entry.and_then(|entry| ack(entry, terms.anonymous.clone(), &at));
        }
    }
    match transaction::bundle(&Bytes::copy_from_slice(body), &terms.anonymous, Sender::default()) {
        Ok((operations, _)) => {
            assert!(other.is_err() || other.as_ref().is_ok_and(|other| other["operations"].is_array()));
            for operation in operations {
                if let Operation::Push(item) = operation {
                    assert!(!item.queue.is_empty() && !item.payload.is_empty());
                }
            }
        }
        Err(failure) => refused(&failure),
    }
    match queue::request(body) {
        Ok(request) => {
            let Ok(other) = other else { panic!("a configuration is read as values") };
            assert_eq!(Some(&*request.queue), other["queue"].as_str());
        }
        Err(failure) => refused(&failure),
    }
}

/// What is refused is the client's fault, and says so.
fn refused(failure: &Failure) {
    assert!(failure.status.is_client_error() && !failure.error.is_empty(), "{failure:?}");
}

/// Path and query of a pop, as a client sends them.
pub fn pop_uri(uri: &str) {
    let Ok(parsed) = uri.parse::<http::Uri>() else { return };
    query(parsed.query());
    let Ok(request) = Request::builder().uri(parsed).body(Body::empty()) else { return };
    let answer = TowerToHyperService::new(pops()).call(request).now_or_never();
    let status = answer.expect("nothing is waited for").map_or(StatusCode::OK, |response| response.status());
    assert!(status == StatusCode::OK || status.is_client_error(), "{status} for {uri}");
}

/// Every value comes back decoded once, and no name has two.
fn query(raw: Option<&str>) {
    let Ok(query) = Query::read(raw) else { return };
    let pairs: Vec<&str> = raw.unwrap_or_default().split('&').filter(|pair| !pair.is_empty()).collect();
    for pair in pairs {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let (name, value) = (decoded(name), decoded(value));
        assert_eq!(query.text(&name).unwrap_or_default(), value);
        let (number, plain) = (query.number(&name), value.parse::<i64>());
        assert!(plain.is_err() || number.is_ok_and(|number| number == plain.ok()));
    }
}

/// Percent-decoding, written once more.
fn decoded(raw: &str) -> String {
    let (mut out, mut bytes) = (Vec::new(), raw.bytes().peekable());
    let digit = |byte: Option<&u8>| byte.and_then(|byte| char::from(*byte).to_digit(16));
    while let Some(byte) = bytes.next() {
        let ahead: Vec<u8> = bytes.clone().take(2).collect();
        match (byte, digit(ahead.first()), digit(ahead.get(1))) {
            (b'%', Some(high), Some(low)) => {
                out.push((high * 16 + low) as u8);
                bytes.nth(1);
            }
            (b'+', ..) => out.push(b' '),
            _ => out.push(byte),
        }
    }
    String::from_utf8(out).expect("otherwise it was refused")
}

/// The pop routes up to where the broker would be asked.
fn pops() -> Router {
    let terms = Arc::new(Terms::of(&HttpConfig::default()));
    let answer = |request: Result<Option<Arc<PopRequest>>, Failure>| match request {
        Ok(request) => {
            request.iter().for_each(|request| checked(request));
            StatusCode::OK.into_response()
        }
        Err(failure) => {
            refused(&failure);
            failure.into_response()
        }
    };
    let (by_queue, by_lane, by_filter) = (terms.clone(), terms.clone(), terms);
    Router::new()
        .route(
            "/api/v1/pop/queue/{queue}",
            get(async move |path: Result<Path<String>, PathRejection>, RawQuery(query): RawQuery| {
                answer(pop::queue_request(&by_queue, path, query, Asking(None)).map(Some))
            }),
        )
        .route(
            "/api/v1/pop/queue/{queue}/partition/{partition}",
            get(
                async move |path: Result<Path<(String, String)>, PathRejection>,
                            RawQuery(query): RawQuery| {
                    answer(pop::lane_request(&by_lane, path, query, Asking(None)).map(Some))
                },
            ),
        )
        .route(
            "/api/v1/pop",
            get(async move |RawQuery(query): RawQuery| {
                answer(pop::filter_request(&by_filter, query, Asking(None)))
            }),
        )
}

/// Whatever was asked for, what the broker is asked for is within bounds.
fn checked(request: &PopRequest) {
    let config = HttpConfig::default();
    assert!(request.wait.is_none_or(|wait| !wait.is_zero() && wait <= config.max_wait));
    assert!(request.batch != Some(0) && request.partitions != Some(0));
    assert!(request.lease_seconds.is_none_or(|seconds| (1..=pop::MAX_LEASE_SECONDS).contains(&seconds)));
    let name = |name: &str| assert!(!name.is_empty() && name.len() <= 255 && !name.contains('\0'));
    name(&request.group);
    match &request.target {
        PopTarget::Queue { queue } => name(queue),
        PopTarget::Lane { queue, partition } => {
            name(queue);
            name(partition);
        }
        PopTarget::Filter { namespace, task } => assert!(namespace.is_some() || task.is_some()),
    }
}
