//! `/api/v1/traces`: events that consumers record for messages.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, RawQuery, State};
use axum::response::Response;
use bugle_broker::{NewTrace, Refused, check_name};
use bugle_store::{Group, Trace};
use bugle_wire::{
    Millis, NamedTrace, Payload, Raw, TraceEntry, TraceList, TraceNameEntry, TraceNameList, TraceRecorded,
    TraceRequest, read,
};
use bytes::Bytes;
use http::StatusCode;
use serde_json::Value;

use crate::app::App;
use crate::body;
use crate::convert::{group, optional};
use crate::error::{Failure, json};
use crate::listing::{lane, page, pagination};
use crate::query::Query;
use crate::routes::dlq::not_found;
use crate::routes::pop::bad_path;

/// Most bytes of a trace's data.
const MAX_DATA: usize = 256 << 10;
/// Most names of a trace.
const MAX_NAMES: usize = 100;
/// Traces by name, and names, unless the request says how many.
pub(crate) const BY_NAME_LIMIT: usize = 100;
pub(crate) const NAMES_LIMIT: usize = 50;
pub(crate) const MAX_LIMIT: usize = 1000;

pub(crate) async fn record(State(app): State<Arc<App>>, body: Body) -> Result<Response, Failure> {
    let body = body::read(body, &app.config).await?;
    let Some(trace) = new_trace(&body, &app.terms.anonymous)? else {
        return Ok(not_found("Message not found"));
    };
    drop(body);
    match app.broker.record_trace(trace).await? {
        Some(trace_id) => Ok(json(StatusCode::CREATED, &TraceRecorded { success: true, trace_id })),
        None => Ok(not_found("Message not found")),
    }
}

pub(crate) async fn of_message(
    State(app): State<Arc<App>>,
    path: Result<Path<(String, String)>, PathRejection>,
    RawQuery(query): RawQuery,
) -> Result<Response, Failure> {
    let Path((partition, transaction)) = path.map_err(|e| bad_path(&e))?;
    let page = page(&Query::read(query.as_deref())?, MAX_LIMIT, MAX_LIMIT)?;
    let (traces, total) = match lane(&partition) {
        Some(lane) => app.broker.traces_of(lane, transaction, page).await?,
        None => (Vec::new(), 0),
    };
    let traces = traces.iter().map(entry).collect();
    Ok(json(StatusCode::OK, &TraceList { traces, total, pagination: pagination(page) }))
}

pub(crate) async fn by_name(
    State(app): State<Arc<App>>,
    path: Result<Path<String>, PathRejection>,
    RawQuery(query): RawQuery,
) -> Result<Response, Failure> {
    let Path(name) = path.map_err(|e| bad_path(&e))?;
    check_name("traceName", &name)?;
    let page = page(&Query::read(query.as_deref())?, BY_NAME_LIMIT, MAX_LIMIT)?;
    let (views, total) = app.broker.traces_named(name, page).await?;
    let traces = views.iter().map(|view| NamedTrace {
        trace: entry(&view.trace),
        transaction_id: &view.trace.transaction_id,
        partition_id: view.trace.lane.0,
        queue_name: &view.queue,
        partition_name: view.partition.as_deref(),
        message_payload: Payload(view.payload.as_deref()),
    });
    let traces: Vec<_> = traces.collect();
    Ok(json(StatusCode::OK, &TraceList { traces, total, pagination: pagination(page) }))
}

pub(crate) async fn names(
    State(app): State<Arc<App>>,
    RawQuery(query): RawQuery,
) -> Result<Response, Failure> {
    let page = page(&Query::read(query.as_deref())?, NAMES_LIMIT, MAX_LIMIT)?;
    let (names, total) = app.broker.trace_names(page).await?;
    let trace_names = names.iter().map(|name| TraceNameEntry {
        trace_name: &name.name,
        trace_count: name.traces,
        message_count: name.messages,
        last_seen: Millis(name.last_seen.0),
    });
    let trace_names = trace_names.collect();
    Ok(json(StatusCode::OK, &TraceNameList { trace_names, total, pagination: pagination(page) }))
}

/// The trace in a body; `None` if what it names as a partition is none.
fn new_trace(body: &Bytes, anonymous: &Group) -> Result<Option<NewTrace>, Failure> {
    let request: TraceRequest<'_> = read(body)?;
    let at = |field: &str| field.to_owned();
    let said = |text, field| Ok::<_, Refused>(optional(text, field, &at)?.filter(|text| !text.is_empty()));
    let ids = (said(&request.transaction_id, "transactionId")?, said(&request.partition_id, "partitionId")?);
    let (Some(transaction_id), Some(partition_id)) = ids else {
        return Err(Refused::Invalid("transactionId and partitionId are required".into()).into());
    };
    let data = request.data.0.map(|raw| raw.get()).filter(|data| *data != "null");
    let Some(data) = data else { return Err(Refused::Invalid("data is required".into()).into()) };
    if data.len() > MAX_DATA {
        return Err(Refused::Invalid(format!("data is larger than {MAX_DATA} bytes")).into());
    }
    let event_type = said(&request.event_type, "eventType")?.unwrap_or("info");
    check_name("transactionId", transaction_id)?;
    check_name("eventType", event_type)?;
    let (names, group) = (trace_names(request.trace_names)?, group(&request.consumer_group, anonymous, &at)?);
    Ok(lane(partition_id).map(|lane| NewTrace {
        lane,
        transaction_id: transaction_id.to_owned(),
        event_type: event_type.to_owned(),
        data: data.to_owned(),
        group,
        names,
    }))
}

fn trace_names(raw: Raw<'_>) -> Result<Vec<String>, Refused> {
    let wrong = || Refused::Invalid("traceNames must be a string or a list of strings".into());
    let value: Value =
        raw.0.map_or(Ok(Value::Null), |raw| serde_json::from_str(raw.get())).map_err(|_| wrong())?;
    let names = match value {
        Value::Null => Vec::new(),
        Value::String(name) => vec![name],
        Value::Array(names) => {
            let text = |name| if let Value::String(name) = name { Ok(name) } else { Err(wrong()) };
            names.into_iter().map(text).collect::<Result<_, _>>()?
        }
        _ => return Err(wrong()),
    };
    if names.len() > MAX_NAMES {
        return Err(Refused::Invalid(format!("traceNames has more than {MAX_NAMES} names")));
    }
    let mut distinct: Vec<String> = Vec::with_capacity(names.len());
    for (i, name) in names.into_iter().enumerate() {
        check_name(&format!("traceNames[{i}]"), &name)?;
        if !distinct.contains(&name) {
            distinct.push(name);
        }
    }
    Ok(distinct)
}

fn entry(trace: &Trace) -> TraceEntry<'_> {
    TraceEntry {
        id: trace.id,
        event_type: &trace.event_type,
        data: Payload(Some(trace.data.as_bytes())),
        consumer_group: &trace.group,
        worker_id: trace.worker.as_deref(),
        created_at: Millis(trace.created_at.0),
        trace_names: &trace.names,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LANE: &str = "0190163d-8694-739b-aea5-966c26f8ad90";

    fn parse(rest: &str) -> Result<Option<NewTrace>, String> {
        let body = format!(r#"{{"transactionId":"t","partitionId":"{LANE}"{rest}}}"#);
        new_trace(&Bytes::from(body), &"anonymous".into()).map_err(|failure| failure.error.into_owned())
    }

    #[test]
    fn names_are_a_text_or_a_list_of_texts() {
        let names =
            |json: &str| parse(&format!(r#","data":1,"traceNames":{json}"#)).map(|t| t.unwrap().names);
        assert_eq!(names("null"), Ok(vec![]));
        assert_eq!(names("\"a\""), Ok(vec!["a".into()]));
        assert_eq!(names(r#"["a","b","a"]"#), Ok(vec!["a".into(), "b".into()]));
        for wrong in ["7", "{}", "[1]", "[null]"] {
            assert_eq!(
                names(wrong),
                Err("traceNames must be a string or a list of strings".into()),
                "{wrong}"
            );
        }
        assert_eq!(names(r#"["a",""]"#), Err("traceNames[1] must not be empty".into()));
        let many: Vec<String> = (0..101).map(|i| format!("\"{i}\"")).collect();
        assert_eq!(names(&format!("[{}]", many.join(","))), Err("traceNames has more than 100 names".into()));
        let long = "x".repeat(256);
        assert_eq!(names(&format!("\"{long}\"")), Err("traceNames[0] is longer than 255 bytes".into()));
    }

    #[test]
    fn what_is_required_is_and_the_rest_has_defaults() {
        let trace = parse(r#","data":{"a": 1.0}"#).unwrap().unwrap();
        assert_eq!((&*trace.event_type, &*trace.data, &*trace.group), ("info", r#"{"a": 1.0}"#, "anonymous"));
        assert_eq!(parse("").unwrap_err(), "data is required");
        assert_eq!(parse(r#","data":null"#).unwrap_err(), "data is required");
        assert_eq!(parse(r#","data":1,"eventType":5"#).unwrap_err(), "eventType must be a string");
        assert_eq!(parse(r#","data":1,"consumerGroup":[]"#).unwrap_err(), "consumerGroup must be a string");
        let large = format!(r#","data":"{}""#, "x".repeat(MAX_DATA - 2));
        assert!(parse(&large).is_ok());
        let larger = format!(r#","data":"{}""#, "x".repeat(MAX_DATA - 1));
        assert_eq!(parse(&larger).unwrap_err(), "data is larger than 262144 bytes");
        let missing = new_trace(&Bytes::from_static(br#"{"partitionId":"x","data":1}"#), &"a".into());
        assert_eq!(missing.unwrap_err().error, "transactionId and partitionId are required");
        let nowhere = br#"{"transactionId":"t","partitionId":"x","data":1}"#;
        assert!(new_trace(&Bytes::from_static(nowhere), &"a".into()).unwrap().is_none());
    }
}
