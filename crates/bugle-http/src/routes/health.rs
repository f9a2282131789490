//! Whether the server lives, takes requests, and reaches its store.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use bugle_wire::Millis;
use http::StatusCode;
use serde_json::json;

use crate::app::App;
use crate::error::json;
use crate::hearing::{carriers, hearing};
use crate::routes::metrics::shared_in_short;

const VERSION: &str = env!("CARGO_PKG_VERSION");

pub(crate) async fn greeting() -> Response {
    json(
        StatusCode::OK,
        &json!({ "server": "bugle", "version": VERSION, "api": "/api/v1", "health": "/health" }),
    )
}

/// The process answers: that is all that is asked.
pub(crate) async fn live() -> Response {
    json(StatusCode::OK, &json!({ "status": "alive" }))
}

/// Whether to send requests here. An absent store does not count: it is as absent for every other server, and taking
/// them all out of service would turn parked consumers into failed ones.
pub(crate) async fn ready(State(app): State<Arc<App>>) -> Response {
    if app.config.draining.is_cancelled() {
        json(StatusCode::SERVICE_UNAVAILABLE, &json!({ "status": "draining" }))
    } else {
        json(StatusCode::OK, &json!({ "status": "ready" }))
    }
}

pub(crate) async fn health(State(app): State<Arc<App>>) -> Response {
    let health = app.broker.health().await;
    let reading = app.broker.read();
    let connected = health.store_connected;
    let (last_error, at) = health.last_error.unzip();
    let body = json!({
        "status": if connected { "healthy" } else { "unhealthy" },
        "database": if connected { "connected" } else { "disconnected" },
        "server": "bugle",
        "version": VERSION,
        "store": {
            "engine": app.config.engine,
            "connected": connected,
            "lastError": last_error,
            "lastErrorAt": at.map(|ms| Millis(ms.saturating_mul(1000))),
        },
        "waiting": health.waiting,
        "hearing": hearing(&reading),
        "carriers": carriers(&reading),
        "shared_state": shared_in_short(&reading),
    });
    json(if connected { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }, &body)
}
