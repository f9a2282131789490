//! What operators switch for all servers, and what servers once told each other over HTTP.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use bugle_broker::{Refused, check_name, check_queue};
use bugle_store::PutSwitches;
use bugle_wire::{
    BufferStats, FailedFiles, Field, MaintenanceAnswer, NotifyAnswer, NotifyRequest, SwitchRequest, read,
};
use http::StatusCode;

use crate::app::App;
use crate::body;
use crate::convert::optional;
use crate::error::{Failure, json};
use crate::routes::metrics;

pub(crate) async fn maintenance(State(app): State<Arc<App>>) -> Response {
    let (switches, spool) = (app.broker.latest_switches().await, app.broker.spool());
    let answer = MaintenanceAnswer {
        maintenance_mode: Some(switches.push_maintenance),
        pop_maintenance_mode: Some(switches.pop_maintenance),
        buffered_messages: Some(spool.records),
        buffer_healthy: Some(spool.failed.is_none()),
        buffer_stats: Some(BufferStats {
            pending_count: spool.records,
            failed_count: 0,
            db_healthy: app.broker.read().store.connected,
            failed_files: FailedFiles::default(),
            bytes: spool.bytes,
            max_bytes: spool.max_bytes,
            error: spool.failed.as_deref(),
        }),
        message: None,
    };
    json(StatusCode::OK, &answer)
}

pub(crate) async fn switch_pushes(State(app): State<Arc<App>>, body: Body) -> Result<Response, Failure> {
    let enabled = enabled(&app, body).await?;
    let change = PutSwitches { push_maintenance: Some(enabled), pop_maintenance: None };
    let switches = app.broker.switch(change).await?;
    let spool = app.broker.spool();
    let message = match enabled {
        true => "Maintenance mode ENABLED. Pushes are kept in the spool of the server that takes them.",
        false => "Maintenance mode DISABLED. Spools are drained into the store.",
    };
    let answer = MaintenanceAnswer {
        maintenance_mode: Some(switches.push_maintenance),
        pop_maintenance_mode: None,
        buffered_messages: Some(spool.records),
        buffer_healthy: Some(spool.failed.is_none()),
        buffer_stats: None,
        message: Some(message),
    };
    Ok(json(StatusCode::OK, &answer))
}

pub(crate) async fn pop_maintenance(State(app): State<Arc<App>>) -> Response {
    let paused = app.broker.latest_switches().await.pop_maintenance;
    let message = if paused { "Pops get nothing." } else { "Pops are served." };
    json(StatusCode::OK, &pops(paused, message))
}

pub(crate) async fn switch_pops(State(app): State<Arc<App>>, body: Body) -> Result<Response, Failure> {
    let enabled = enabled(&app, body).await?;
    let change = PutSwitches { push_maintenance: None, pop_maintenance: Some(enabled) };
    let switches = app.broker.switch(change).await?;
    let message = match enabled {
        true => "Pop maintenance mode ENABLED. Pops get nothing.",
        false => "Pop maintenance mode DISABLED. Pops are served.",
    };
    Ok(json(StatusCode::OK, &pops(switches.pop_maintenance, message)))
}

fn pops(paused: bool, message: &str) -> MaintenanceAnswer<'_> {
    MaintenanceAnswer {
        maintenance_mode: None,
        pop_maintenance_mode: Some(paused),
        buffered_messages: None,
        buffer_healthy: None,
        buffer_stats: None,
        message: Some(message),
    }
}

async fn enabled(app: &App, body: Body) -> Result<bool, Failure> {
    let body = body::read(body, &app.config).await?;
    let request: SwitchRequest = read(&body)?;
    match request.enabled {
        Field::Is(enabled) => Ok(enabled),
        Field::Absent | Field::Wrong => Err(Refused::Invalid("enabled (boolean) is required".into()).into()),
    }
}

/// A hint from outside: whoever waits looks.
pub(crate) async fn notify(State(app): State<Arc<App>>, body: Body) -> Result<Response, Failure> {
    let body = body::read(body, &app.config).await?;
    let request: NotifyRequest<'_> = read(&body)?;
    let at = |field: &str| field.to_owned();
    let missing = || Refused::Invalid("queue is required".into());
    let queue = optional(&request.queue, "queue", &at)?.ok_or_else(missing)?;
    let partition = optional(&request.partition, "partition", &at)?;
    check_queue("queue", queue)?;
    partition.map_or(Ok(()), |partition| check_name("partition", partition))?;
    app.broker.notify(queue, partition);
    Ok(json(StatusCode::OK, &NotifyAnswer { status: "ok" }))
}

pub(crate) async fn inter_instance(State(app): State<Arc<App>>) -> Response {
    json(StatusCode::OK, &metrics::between_servers(&app.broker.read()))
}
