//! The server itself.

use bugle_wire::{
    Greeting, HealthAnswer, MetricsSummary, OverviewAnswer, QueuesEvent, ServerEvent, SharedState,
    StatusAnswer, WaitingAnswer,
};
use serde_json::{Value, json};

use super::SERVER;
use super::answer::content;
use super::api::Api;
use super::parameter::{self, number};
use crate::exposition::{OPEN_METRICS, TEXT};
use crate::hub::Topic;
use crate::routes::{events, waiting};

pub(super) fn describe(api: &mut Api) {
    health(api);
    numbers(api);
    live(api);
    api.get("/docs", "docs").says(SERVER, "This description, for people").answers_with(
        200,
        content("A page that needs nothing but this server.", &[("text/html; charset=utf-8", text())], &[]),
    );
    let any = json!({ "type": "object", "required": ["openapi", "info", "paths"] });
    api.get("/openapi.json", "openapi")
        .says(SERVER, "This description, for programs")
        .answers_with(200, content("An OpenAPI 3.1 document.", &[("application/json", any)], &[]));
}

fn live(api: &mut Api) {
    api.get("/api/v1/waiting", "waiting")
        .says(SERVER, "Who waits for messages on this server")
        .about("The live picture of long polling: what is waited for and by whom, what woke those who were served, how pops are gathered.")
        .takes(number(
            "limit",
            u64::try_from(waiting::DEFAULT_LIMIT).ok(),
            &format!("Most keys, and most waiters, cut to 1..{}.", waiting::MAX_LIMIT),
        ))
        .answers::<WaitingAnswer<'_>>(200, "The waiting room.");
    let names = Topic::ALL.map(|(_, name)| format!("`{name}`")).join(", ");
    let server = api.written::<ServerEvent<'_>>();
    let queues = api.written::<QueuesEvent<'_>>();
    let totals = api.written::<OverviewAnswer>();
    let room = api.written::<WaitingAnswer<'_>>();
    let mut schema = text();
    schema["x-events"] = json!({ "server": server, "queues": queues, "totals": totals, "waiting": room });
    api.get("/api/v1/events", "events")
        .says(SERVER, "What happens, as it happens")
        .about(
            "Server-sent events, about one per second and topic, until the client goes away; after ten minutes it is asked to \
             come again. `x-events` describes the data of each event by its name. Counters are those of the server that \
             answers; `totals` are what the queues of all servers hold. While nobody listens nothing is counted for this.",
        )
        .takes(parameter::text("topics", &format!("What to tell, separated by commas: {names}. `server` if absent.")))
        .takes(number(
            "recent",
            Some(1),
            "Events of `server` and `queues` from before that are told first, at most 120, as far as they are kept: from the first \
             listener until a minute after the last.",
        ))
        .answers_with(200, content("Events without end.", &[(events::KIND, schema)], &[]))
        .bounded();
}

fn text() -> Value {
    json!({ "type": "string" })
}

fn health(api: &mut Api) {
    api.get("/", "greeting")
        .says(SERVER, "What this is")
        .about(
            "The dashboard for browsers, that is for those who accept `text/html`; JSON for everybody else.",
        )
        .answers::<Greeting>(200, "The server, and where to go on.")
        .kinds(200, &[("text/html; charset=utf-8", text())]);
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
