//! The server itself.

use bugle_wire::{Greeting, HealthAnswer, MetricsSummary, SharedState, StatusAnswer};
use serde_json::{Value, json};

use super::SERVER;
use super::answer::content;
use super::api::Api;
use crate::exposition::{OPEN_METRICS, TEXT};

pub(super) fn describe(api: &mut Api) {
    health(api);
    numbers(api);
    api.get("/docs", "docs").says(SERVER, "This description, for people").answers_with(
        200,
        content("A page that needs nothing but this server.", &[("text/html; charset=utf-8", text())], &[]),
    );
    let any = json!({ "type": "object", "required": ["openapi", "info", "paths"] });
    api.get("/openapi.json", "openapi")
        .says(SERVER, "This description, for programs")
        .answers_with(200, content("An OpenAPI 3.1 document.", &[("application/json", any)], &[]));
}

fn text() -> Value {
    json!({ "type": "string" })
}

fn health(api: &mut Api) {
    api.get("/", "greeting")
        .says(SERVER, "What this is")
        .answers::<Greeting>(200, "The server, and where to go on.");
    api.get("/health", "health")
        .says(SERVER, "Whether the server reaches its store")
        .answers::<HealthAnswer<'_>>(200, "It does.")
        .answers::<HealthAnswer<'_>>(503, "The store is away.");
    api.get("/health/live", "live")
        .says(SERVER, "Whether the process answers")
        .answers::<StatusAnswer>(200, "It does.");
    api.get("/health/ready", "ready")
        .says(SERVER, "Whether to send requests here")
        .about(
            "A store that is away does not count: it is as absent for every other server. One that has stopped after a \
             failure of its disk does, until the server is started again.",
        )
        .answers::<StatusAnswer>(200, "Do.")
        .answers::<StatusAnswer>(503, "Do not: the server is about to stop, or its store has stopped.");
}

fn numbers(api: &mut Api) {
    let op = api
        .get("/metrics", "metrics")
        .says(SERVER, "Numbers of this server")
        .about("JSON, unless the `Accept` header likes Prometheus text or OpenMetrics better.");
    let op = op.answers::<MetricsSummary>(200, "The numbers.");
    op.kinds(200, &[(TEXT, text()), (OPEN_METRICS, text())]);
    api.get("/metrics/prometheus", "prometheus")
        .says(SERVER, "Numbers of this server, for Prometheus")
        .answers_with(200, content("The numbers.", &[(TEXT, text())], &[]));
    api.get("/api/v1/system/shared-state", "sharedState")
        .says(SERVER, "Waiting pops and other servers, as this one sees them")
        .answers::<SharedState<'_>>(200, "The numbers.");
}
