//! Whether the server lives, takes requests, and reaches its store.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use bugle_wire::{Greeting, HealthAnswer, Millis, StatusAnswer, StoreEntry};
use http::StatusCode;

use crate::app::App;
use crate::error::json;
use crate::hearing::{carriers, hearing};
use crate::inbox::inbox;
use crate::routes::metrics::shared_in_short;

const SERVER: &str = "bugle";
const VERSION: &str = env!("CARGO_PKG_VERSION");

pub(crate) async fn greeting() -> Response {
    let greeting = Greeting {
        server: SERVER,
        version: VERSION,
        api: "/api/v1",
        health: "/health",
        docs: "/docs",
        openapi: "/openapi.json",
    };
    json(StatusCode::OK, &greeting)
}

/// The process answers: that is all that is asked.
pub(crate) async fn live() -> Response {
    json(StatusCode::OK, &StatusAnswer { status: "alive", reason: None })
}

/// Whether to send requests here. An absent store does not count: it is as absent for every other server, and taking
/// them all out of service would turn parked consumers into failed ones. A store that has stopped does: it is this
/// server's own, and nobody gets anything from it until the server is started again.
pub(crate) async fn ready(State(app): State<Arc<App>>) -> Response {
    if app.config.draining.is_cancelled() {
        return json(StatusCode::SERVICE_UNAVAILABLE, &StatusAnswer { status: "draining", reason: None });
    }
    match app.broker.stopped() {
        None => json(StatusCode::OK, &StatusAnswer { status: "ready", reason: None }),
        reason => json(StatusCode::SERVICE_UNAVAILABLE, &StatusAnswer { status: "stopped", reason }),
    }
}

pub(crate) async fn health(State(app): State<Arc<App>>) -> Response {
    let health = app.broker.health().await;
    let reading = app.broker.read();
    let connected = health.store_connected;
    let (last_error, at) = health.last_error.unzip();
    let body = HealthAnswer {
        status: if connected { "healthy" } else { "unhealthy" },
        database: if connected { "connected" } else { "disconnected" },
        server: SERVER,
        version: VERSION,
        store: StoreEntry {
            engine: &app.config.engine,
            connected,
            last_error,
            last_error_at: at.map(|ms| Millis(ms.saturating_mul(1000))),
        },
        waiting: health.waiting,
        hearing: hearing(&reading),
        carriers: carriers(&reading),
        inbox: inbox(&reading),
        shared_state: shared_in_short(&reading),
    };
    json(if connected { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }, &body)
}
