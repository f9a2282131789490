//! The HTTP face of Bugle: reads requests, checks them, asks the broker, spells the answer.
//!
//! No rule about queues lives here. Everything that can be wrong with a request is found before the broker hears of
//! it, so a refused request has changed nothing.
//!
//! Modules in reading order; each uses only those above it.

mod accept;
mod hub;

mod app;
mod archive;
mod aside;
mod body;
mod convert;
mod edge;
mod refusals;

mod error;
mod exposition;
mod hearing;
mod inbox;
mod listing;
mod outbound;
mod pieces;
mod process;
mod query;
mod request_id;
mod seats;
mod stall;
mod tls;
mod trace_headers;
mod watched;

mod families;
#[cfg(test)]
mod sample;

mod telemetry;

mod access;
mod auth;
mod delivery;

mod series;

mod routes;

mod dashboard;
mod serve;

mod openapi;
mod table;

#[cfg(feature = "counted")]
pub mod counted;
#[cfg(feature = "fuzz")]
pub mod fuzz;

use std::sync::Arc;

use axum::Router;
use axum::routing::{delete, get, post};
use bugle_broker::Broker;

use app::App;
use routes::{
    ack, analytics, backup, dlq, fallback, groups, health, lease, messages, metrics, pop, push, queue,
    status, system, traces, transaction,
};
use routes::{events, group_list, queue_status, resources, waiting};
use table::Table;

pub use app::HttpConfig;
pub use auth::{
    ApiKeys, AuthError, CallerLimits, Gate, GateConfig, JwksConfig, JwksSource, JwtAlgorithm, JwtConfig,
    Limits, PUBLIC_PATHS, Permissions, Rate, Role, RoleNames,
};
pub use edge::Edge;
pub use process::vitals;
pub use serve::{ServeConfig, serve};
pub use telemetry::{Exporter, Exporting, Telemetry, TelemetryConfig};
pub use tls::{Tls, TlsError};

/// All routes.
fn routes() -> Table {
    Table::default()
        .route("/", get(dashboard::page))
        .route("/docs", get(openapi::page))
        .route("/openapi.json", get(openapi::json))
        .route("/health", get(health::health))
        .route("/health/live", get(health::live))
        .route("/health/ready", get(health::ready))
        .route("/metrics", get(metrics::metrics))
        .route("/metrics/prometheus", get(metrics::prometheus))
        .route("/api/v1/system/shared-state", get(metrics::shared_state))
        .route("/api/v1/system/maintenance", get(system::maintenance).post(system::switch_pushes))
        .route("/api/v1/system/maintenance/pop", get(system::pop_maintenance).post(system::switch_pops))
        .route("/api/v1/system/backup", post(backup::backup))
        .route("/internal/api/notify", post(system::notify))
        .route("/internal/api/shared-state/stats", get(metrics::shared_state))
        .route("/internal/api/inter-instance/stats", get(system::inter_instance))
        .route("/api/v1/push", post(push::push))
        .route("/api/v1/pop", get(pop::by_filter))
        .route("/api/v1/pop/queue/{queue}", get(pop::by_queue))
        .route("/api/v1/pop/queue/{queue}/partition/{partition}", get(pop::by_partition))
        .route("/api/v1/ack", post(ack::single))
        .route("/api/v1/ack/batch", post(ack::batch))
        .route("/api/v1/lease/{lease}/extend", post(lease::extend))
        .route("/api/v1/transaction", post(transaction::transaction))
        .route("/api/v1/dlq", get(dlq::list))
        .route("/api/v1/dlq/count", get(dlq::count))
        .route("/api/v1/dlq/redrive", post(dlq::redrive))
        .route("/api/v1/dlq/{id}/replay", post(dlq::replay))
        .route("/api/v1/messages", get(messages::list))
        .route("/api/v1/messages/{partition}/{transaction}", get(messages::get).delete(messages::delete))
        .route("/api/v1/messages/{partition}/{transaction}/retry", post(messages::retry))
        .route("/api/v1/messages/{partition}/{transaction}/dlq", post(messages::give_up))
        .route("/api/v1/traces", post(traces::record))
        .route("/api/v1/traces/names", get(traces::names))
        .route("/api/v1/traces/by-name/{name}", get(traces::by_name))
        .route("/api/v1/traces/{partition}/{transaction}", get(traces::of_message))
        .route("/api/v1/consumer-groups", get(group_list::list))
        .route("/api/v1/consumer-groups/lagging", get(group_list::lagging).delete(group_list::delete_lagging))
        .route("/api/v1/consumer-groups/{group}", get(groups::one).delete(groups::delete))
        .route("/api/v1/consumer-groups/{group}/subscription", post(groups::subscription))
        .route("/api/v1/consumer-groups/{group}/queues/{queue}", delete(groups::delete_on_queue))
        .route("/api/v1/consumer-groups/{group}/queues/{queue}/seek", post(groups::seek))
        .route(
            "/api/v1/consumer-groups/{group}/queues/{queue}/partitions/{partition}/seek",
            post(groups::seek_partition),
        )
        .route("/api/v1/status", get(status::status))
        .route("/api/v1/status/analytics", get(status::analytics))
        .route("/api/v1/analytics/system-metrics", get(analytics::system_metrics))
        .route("/api/v1/analytics/worker-metrics", get(analytics::worker_metrics))
        .route("/api/v1/analytics/queue-lag", get(analytics::queue_lag))
        .route("/api/v1/analytics/queue-ops", get(analytics::queue_ops))
        .route("/api/v1/analytics/queue-parked-replicas", get(analytics::parked))
        .route("/api/v1/analytics/retention", get(analytics::retention))
        .route("/api/v1/analytics/postgres-stats", get(analytics::postgres_stats))
        .route("/api/v1/configure", post(queue::configure))
        .route("/api/v1/resources/queues/{queue}", get(resources::queue).delete(queue::delete))
        .route("/api/v1/resources/queues", get(resources::queues))
        .route("/api/v1/resources/queues/{queue}/depth", get(resources::depth))
        .route("/api/v1/resources/partitions", get(resources::partitions))
        .route("/api/v1/resources/namespaces", get(resources::namespaces))
        .route("/api/v1/resources/tasks", get(resources::tasks))
        .route("/api/v1/resources/overview", get(resources::overview))
        .route("/api/v1/stats/refresh", post(resources::refresh))
        .route("/api/v1/status/queues", get(queue_status::list))
        .route("/api/v1/status/queues/{queue}", get(queue_status::one))
        .route("/api/v1/status/queues/{queue}/messages", get(queue_status::messages))
        .route("/api/v1/queues/{queue}/clear", delete(queue::clear))
        .route("/api/v1/events", get(events::events))
        .route("/api/v1/waiting", get(waiting::room))
}

/// What traces requests, and what sends their spans and the metrics. `edge` counts what becomes of them.
pub fn telemetry(config: TelemetryConfig, edge: Edge) -> (Telemetry, Exporter) {
    Telemetry::new(config, edge, routes().paths)
}

/// The routes, and answers to what is none.
pub fn router(broker: Broker, config: HttpConfig) -> Router {
    routes()
        .router
        // No part of the API, so it is not described.
        .route("/assets/{version}/{*name}", get(dashboard::file))
        .fallback(fallback::no_such_route)
        .method_not_allowed_fallback(fallback::wrong_method)
        .with_state(Arc::new(App::new(broker, config)))
}
