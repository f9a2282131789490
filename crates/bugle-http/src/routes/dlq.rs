//! `/api/v1/dlq`: dead letters, one replayed, many redriven.

use std::str::FromStr;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, RawQuery, State};
use axum::response::Response;
use bugle_broker::{Letter, LetterQuery, Redrive, RedriveCursor, Refused, Replay, Replayed};
use bugle_store::Page;
use bugle_wire::{
    Field, LetterCount, LetterEntry, LetterList, Millis, NoSuccess, Object, Payload, RedriveAnswer,
    RedriveFilter, RedriveRequest, ReplayAnswer, ReplayRequest, read,
};
use bytes::Bytes;
use http::StatusCode;
use uuid::Uuid;

use crate::app::App;
use crate::body;
use crate::convert::{optional, payload};
use crate::error::{Failure, json};
use crate::listing::{body_name, body_queue, body_time, name, page, pagination, time};
use crate::query::Query;
use crate::routes::pop::bad_path;

pub(crate) const DEFAULT_LIMIT: usize = 100;
pub(crate) const MAX_LIMIT: usize = 1000;
/// Letters that one redrive looks at unless it says otherwise, and at most.
pub(crate) const DEFAULT_REDRIVE: usize = 1000;
pub(crate) const MAX_REDRIVE: usize = 10_000;

pub(crate) async fn list(
    State(app): State<Arc<App>>,
    RawQuery(query): RawQuery,
) -> Result<Response, Failure> {
    let query = Query::read(query.as_deref())?;
    let page = page(&query, DEFAULT_LIMIT, MAX_LIMIT)?;
    let (letters, total) = app.broker.dead_letters(&filter(&query)?, page).await?;
    let messages: Vec<LetterEntry<'_>> = letters.iter().map(entry).collect();
    let open = total.saturating_sub(page.offset as u64);
    let truncated = messages.len() < page.limit && (messages.len() as u64) < open;
    Ok(json(StatusCode::OK, &LetterList { messages, total, truncated, pagination: pagination(page) }))
}

pub(crate) async fn count(
    State(app): State<Arc<App>>,
    RawQuery(query): RawQuery,
) -> Result<Response, Failure> {
    let query = Query::read(query.as_deref())?;
    let none = Page { offset: 0, limit: 0 };
    let (_, count) = app.broker.dead_letters(&filter(&query)?, none).await?;
    Ok(json(StatusCode::OK, &LetterCount { count }))
}

pub(crate) async fn replay(
    State(app): State<Arc<App>>,
    path: Result<Path<String>, PathRejection>,
    body: Body,
) -> Result<Response, Failure> {
    let Path(id) = path.map_err(|e| bad_path(&e))?;
    let to = destination(&body::read(body, &app.config).await?)?;
    let Ok(id) = Uuid::try_parse(&id) else {
        return Ok(not_found("Dead letter not found"));
    };
    replayed(app.broker.replay(id, &to).await)
}

pub(crate) async fn redrive(State(app): State<Arc<App>>, body: Body) -> Result<Response, Failure> {
    let body = body::read(body, &app.config).await?;
    let request = redrive_request(&body)?;
    drop(body);
    let dry_run = request.dry_run;
    let done = app.broker.redrive(request).await?;
    Ok(json(
        StatusCode::OK,
        &RedriveAnswer {
            matched: done.matched,
            redriven: done.redriven,
            skipped: done.skipped,
            remaining: done.remaining,
            cursor: done.cursor.map(|cursor| cursor.to_string()),
            dry_run,
            error: done.error.as_deref(),
        },
    ))
}

/// The answer to a replay; what is not there is told in both ways that clients look for it.
pub(crate) fn replayed(answer: Result<Replayed, Refused>) -> Result<Response, Failure> {
    match answer {
        Ok(done) => Ok(json(
            StatusCode::OK,
            &ReplayAnswer {
                success: true,
                id: done.letter,
                transaction_id: std::str::from_utf8(&done.pushed.transaction_id).unwrap_or_default(),
                message_id: done.pushed.message_id,
                queue: &done.queue,
                partition: &done.partition,
                partition_id: done.pushed.lane.0,
                duplicate: done.pushed.duplicate,
            },
        )),
        Err(Refused::NotFound(reason)) => Ok(not_found(&reason)),
        Err(refused) => Err(refused.into()),
    }
}

pub(crate) fn not_found(error: &str) -> Response {
    json(StatusCode::NOT_FOUND, &NoSuccess { success: false, error })
}

/// The body of a replay, which may be absent as a whole.
pub(crate) fn destination(body: &Bytes) -> Result<Replay, Failure> {
    if body.is_empty() {
        return Ok(Replay::default());
    }
    let request: ReplayRequest<'_> = read(body)?;
    let at = |field: &str| field.to_owned();
    Ok(Replay {
        payload: payload(body, request.payload, &at)?,
        queue: body_queue(&request.queue, &at)?,
        partition: body_name(&request.partition, "partition", &at)?,
    })
}

fn filter(query: &Query<'_>) -> Result<LetterQuery, Refused> {
    Ok(LetterQuery {
        queue: name(query, "queue")?,
        partition: name(query, "partition")?,
        group: name(query, "consumerGroup")?,
        from: time(query, "from")?,
        to: time(query, "to")?,
        error: query.text("errorContains").map(|text| text.replace('\0', "")),
    })
}

fn redrive_request(body: &Bytes) -> Result<Redrive, Failure> {
    let request: RedriveRequest<'_> = read(body)?;
    let at = |field: &str| field.to_owned();
    let filter = match &request.filter {
        Field::Is(Object(filter)) => redrive_filter(filter)?,
        Field::Absent => return Err(Refused::Invalid("filter is required".into()).into()),
        Field::Wrong => return Err(Refused::Invalid("filter must be an object".into()).into()),
    };
    let mut to = Replay { payload: payload(body, request.payload, &at)?, ..Replay::default() };
    match &request.destination {
        Field::Absent => {}
        Field::Wrong => return Err(Refused::Invalid("destination must be an object".into()).into()),
        Field::Is(Object(place)) => {
            let at = |field: &str| format!("destination.{field}");
            to.queue = body_queue(&place.queue, &at)?;
            to.partition = body_name(&place.partition, "partition", &at)?;
            if to.queue.is_none() {
                return Err(Refused::Invalid("destination.queue is required".into()).into());
            }
        }
    }
    let limit = match request.limit {
        Field::Absent => DEFAULT_REDRIVE,
        Field::Is(limit) => usize::try_from(limit.max(1)).unwrap_or(MAX_REDRIVE).min(MAX_REDRIVE),
        Field::Wrong => return Err(Refused::Invalid("limit must be a whole number".into()).into()),
    };
    let dry_run = match request.dry_run {
        Field::Absent => false,
        Field::Is(dry_run) => dry_run,
        Field::Wrong => return Err(Refused::Invalid("dryRun must be true or false".into()).into()),
    };
    let cursor = optional(&request.cursor, "cursor", &at)?.filter(|text| !text.is_empty());
    let wrong = |()| Refused::Invalid("cursor must be one that an earlier redrive answered".into());
    let cursor = cursor.map(RedriveCursor::from_str).transpose().map_err(wrong)?;
    Ok(Redrive { filter, to, cursor, limit, dry_run })
}

fn redrive_filter(filter: &RedriveFilter<'_>) -> Result<LetterQuery, Refused> {
    let at = |field: &str| format!("filter.{field}");
    let error = optional(&filter.error_contains, "errorContains", &at)?.filter(|text| !text.is_empty());
    let filter = LetterQuery {
        queue: body_name(&filter.queue, "queue", &at)?,
        partition: body_name(&filter.partition, "partition", &at)?,
        group: body_name(&filter.consumer_group, "consumerGroup", &at)?,
        from: body_time(&filter.from, "from", &at)?,
        to: body_time(&filter.to, "to", &at)?,
        error: error.map(|text| text.replace('\0', "")),
    };
    if filter.queue.is_none() {
        return Err(Refused::Invalid("filter.queue is required".into()));
    }
    Ok(filter)
}

fn entry(shown: &Letter) -> LetterEntry<'_> {
    let letter = &shown.letter;
    let context = shown.message.as_ref().and_then(|message| message.context.as_deref());
    LetterEntry {
        id: letter.id,
        transaction_id: &letter.transaction_id,
        partition_id: letter.lane.0,
        queue: &shown.queue,
        partition: &letter.partition,
        consumer_group: &letter.group,
        error_message: &letter.error,
        retry_count: letter.attempts,
        data: Payload(shown.message.as_ref().map(|message| &message.payload[..])),
        producer_sub: shown.message.as_ref().and_then(|message| message.producer()),
        traceparent: context.map(|context| context.text()),
        tracestate: context.and_then(|context| context.state_text()),
        created_at: Millis(letter.created_at.0),
        failed_at: Millis(letter.failed_at.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_redrives_are_refused_by_the_path_of_the_field() {
        for (body, complaint) in [
            ("{}", "filter is required"),
            (r#"{"filter":[]}"#, "filter must be an object"),
            (r#"{"filter":{}}"#, "filter.queue is required"),
            (r#"{"filter":{"queue":7}}"#, "filter.queue must be a string"),
            (r#"{"filter":{"queue":"q","from":"soon"}}"#, "filter.from must be an ISO 8601 timestamp"),
            (r#"{"filter":{"queue":"q","errorContains":1}}"#, "filter.errorContains must be a string"),
            (r#"{"filter":{"queue":"q"},"destination":"x"}"#, "destination must be an object"),
            (r#"{"filter":{"queue":"q"},"destination":{"partition":"p"}}"#, "destination.queue is required"),
            (
                r#"{"filter":{"queue":"q"},"destination":{"queue":"__system_history"}}"#,
                "destination.queue must not begin with __system_, which is the server's own",
            ),
            (r#"{"filter":{"queue":"q"},"limit":"9"}"#, "limit must be a whole number"),
            (r#"{"filter":{"queue":"q"},"dryRun":"yes"}"#, "dryRun must be true or false"),
            (
                r#"{"filter":{"queue":"q"},"cursor":"x"}"#,
                "cursor must be one that an earlier redrive answered",
            ),
        ] {
            let refused = redrive_request(&Bytes::from_static(body.as_bytes())).unwrap_err();
            assert_eq!((refused.status, &*refused.error), (StatusCode::BAD_REQUEST, complaint), "{body}");
        }
    }

    #[test]
    fn a_redrive_has_defaults_and_bounds() {
        let read = |body: &'static str| redrive_request(&Bytes::from_static(body.as_bytes())).unwrap();
        let seen = read(r#"{"filter":{"queue":"q","partition":null,"from":""}}"#);
        assert_eq!((seen.limit, seen.dry_run, seen.cursor), (1000, false, None));
        assert!(seen.to.payload.is_none() && seen.to.queue.is_none() && seen.filter.partition.is_none());
        let seen = read(
            r#"{"filter":{"queue":"q"},"limit":99999999999,"dryRun":true,"payload":null,"destination":{"queue":"d"}}"#,
        );
        assert_eq!((seen.limit, seen.dry_run), (10_000, true));
        assert_eq!((seen.to.payload.as_deref(), seen.to.queue.as_deref()), (Some(&b"null"[..]), Some("d")));
        assert_eq!(read(r#"{"filter":{"queue":"q"},"limit":-4}"#).limit, 1);
    }
}
