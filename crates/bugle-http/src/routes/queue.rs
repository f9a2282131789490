//! Queues as a whole: configure, clear and delete.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, RawQuery, State};
use axum::response::Response;
use bugle_broker::{Configure, Refused, check_free, check_name};
use bugle_wire::{ClearAnswer, ConfigureAnswer, ConfigureRequest, DeleteQueueAnswer, Field, Object, read};
use http::StatusCode;
use serde_json::{Map, Value};

use crate::access::AuditObject;
use crate::app::App;
use crate::body;
use crate::convert::optional;
use crate::error::{Failure, json};
use crate::query::Query;
use crate::routes::pop::bad_path;

pub(crate) async fn configure(State(app): State<Arc<App>>, body: Body) -> Result<Response, Failure> {
    let body = body::read(body, &app.config).await?;
    let request = request(&body)?;
    let queue = request.queue.clone();
    let configured = app.broker.configure(request).await?;
    let mut response = json(
        StatusCode::OK,
        &ConfigureAnswer {
            configured: true,
            queue_id: configured.queue_id,
            partition_id: None,
            queue: &queue,
            namespace: &configured.namespace,
            task: &configured.task,
            options: &configured.options,
            ignored: &configured.ignored,
        },
    );
    response.extensions_mut().insert(AuditObject(queue.to_string()));
    Ok(response)
}

pub(crate) async fn delete(
    State(app): State<Arc<App>>,
    path: Result<Path<String>, PathRejection>,
) -> Result<Response, Failure> {
    let Path(queue) = path.map_err(|e| bad_path(&e))?;
    check_free("queue", &queue)?;
    let existed = app.broker.delete_queue(&queue).await?;
    Ok(json(StatusCode::OK, &DeleteQueueAnswer { deleted: true, queue: &queue, existed }))
}

pub(crate) async fn clear(
    State(app): State<Arc<App>>,
    path: Result<Path<String>, PathRejection>,
    RawQuery(query): RawQuery,
) -> Result<Response, Failure> {
    let Path(queue) = path.map_err(|e| bad_path(&e))?;
    let query = Query::read(query.as_deref())?;
    let partition = query.text("partition");
    check_free("queue", &queue)?;
    partition.map_or(Ok(()), |partition| check_name("partition", partition))?;
    let cleared = app.broker.clear_queue(&queue, partition).await?;
    let mut response = json(
        StatusCode::OK,
        &ClearAnswer {
            success: true,
            cleared: true,
            queue: &queue,
            partition,
            partitions_cleared: cleared.partitions,
            messages_deleted: cleared.messages,
        },
    );
    response.extensions_mut().insert(AuditObject(queue));
    Ok(response)
}

pub(crate) fn request(body: &[u8]) -> Result<Configure, Failure> {
    let request: ConfigureRequest<'_> = read(body)?;
    let Field::Is(queue) = &request.queue else {
        return Err(Refused::Invalid("queue is required and must be a string".into()).into());
    };
    let at = |field: &str| field.to_owned();
    let replace = match optional(&request.mode, "mode", &at)? {
        None | Some("merge") => false,
        Some("replace") => true,
        Some(_) => return Err(Refused::Invalid("mode must be merge or replace".into()).into()),
    };
    name("queue", Some(queue))?;
    check_free("queue", queue)?;
    let mut options = request.rest;
    match request.options {
        Field::Absent => {}
        // What is nested was meant as an option for sure; it wins.
        Field::Is(Object(nested)) => options.extend(nested),
        Field::Wrong => return Err(Refused::Invalid("options must be an object".into()).into()),
    }
    let namespace = place("namespace", optional(&request.namespace, "namespace", &at)?, &mut options)?;
    let task = place("task", optional(&request.task, "task", &at)?, &mut options)?;
    Ok(Configure { queue: queue.as_ref().into(), namespace, task, options, replace })
}

/// The namespace or the task. Some clients send them among the options, where they are taken from; at the top they win.
fn place(
    field: &str,
    at_the_top: Option<&str>,
    options: &mut Map<String, Value>,
) -> Result<Option<String>, Refused> {
    let nested = match options.remove(field) {
        None | Some(Value::Null) => None,
        Some(Value::String(text)) => Some(text),
        Some(_) => return Err(Refused::Invalid(format!("options.{field} must be a string"))),
    };
    match at_the_top {
        Some(_) => name(field, at_the_top),
        None => name(&format!("options.{field}"), nested.as_deref()),
    }
}

/// Names in a configure request may be empty, even the queue's; otherwise they are names like any other.
fn name(field: &str, value: Option<&str>) -> Result<Option<String>, Refused> {
    if let Some(value) = value.filter(|value| !value.is_empty()) {
        check_name(field, value)?;
    }
    Ok(value.map(str::to_owned))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn options_may_be_nested_or_not_and_nested_ones_win() {
        let seen = request(
            br#"{"queue":"q","namespace":null,"task":"t","leaseTime":1,"ttl":2,"options":{"leaseTime":9,"odd":null}}"#,
        )
        .unwrap();
        assert_eq!(Value::Object(seen.options), json!({"leaseTime": 9, "ttl": 2, "odd": null}));
        assert_eq!((&*seen.queue, seen.namespace, seen.task.as_deref()), ("q", None, Some("t")));
        assert!(!seen.replace);
        assert!(request(br#"{"queue":"","mode":"replace"}"#).unwrap().replace);
    }

    #[test]
    fn namespace_and_task_may_stand_among_the_options() {
        let seen =
            request(br#"{"queue":"q","task":"t","options":{"namespace":"n","task":"x","ttl":2}}"#).unwrap();
        assert_eq!((seen.namespace.as_deref(), seen.task.as_deref()), (Some("n"), Some("t")));
        assert_eq!(Value::Object(seen.options), json!({"ttl": 2}));
        let silent = request(br#"{"queue":"q","options":{"namespace":null}}"#).unwrap();
        assert_eq!((silent.namespace, silent.options.len()), (None, 0));
    }

    #[test]
    fn bad_requests_name_the_field() {
        for (body, complaint) in [
            ("{}", "queue is required and must be a string"),
            (r#"{"queue":7}"#, "queue is required and must be a string"),
            (r#"{"queue":"q","namespace":[]}"#, "namespace must be a string"),
            (r#"{"queue":"q","options":[]}"#, "options must be an object"),
            (r#"{"queue":"q","options":{"task":7}}"#, "options.task must be a string"),
            (r#"{"queue":"q","options":{"task":"\u0000"}}"#, "options.task must not contain NUL"),
            (r#"{"queue":"q","mode":"x"}"#, "mode must be merge or replace"),
            (r#"{"queue":"a\u0000"}"#, "queue must not contain NUL"),
            (r#"{"queue":"__system_x"}"#, "queue must not begin with __system_, which is the server's own"),
        ] {
            assert_eq!(request(body.as_bytes()).unwrap_err().error, complaint);
        }
    }
}
