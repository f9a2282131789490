//! The description of the API (OpenAPI 3.1), made from the types that are read and written, and a page that shows it.
//!
//! Schemas are derived (`bugle-wire`); what operations do with them is said here, a file per noun as in `routes`, with the
//! same constants. `docs/openapi.json` is what comes out of it: a test compares the two, another this table with the
//! router's. The black-box tests hold every answer they get against it.

mod answer;
mod parameter;

mod api;
mod operation;

mod consume;
mod dlq;
mod groups;
mod internals;
mod messages;
mod produce;
mod queue;
mod resources;
mod server;
mod system;
mod traces;

mod history;

use std::sync::LazyLock;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use http::{HeaderValue, StatusCode};
use serde_json::json;

use crate::error::json_body;
use api::{Api, Document};

const PRODUCE: &str = "Produce";
const CONSUME: &str = "Consume";
const QUEUES: &str = "Queues";
const GROUPS: &str = "Consumer groups";
const MESSAGES: &str = "Messages";
const LETTERS: &str = "Dead letters";
const TRACES: &str = "Traces";
const STATISTICS: &str = "Statistics";
const HISTORY: &str = "History";
const SERVER: &str = "Server";

/// The groups of operations, in the order one meets them.
const TAGS: [(&str, &str); 10] = [
    (PRODUCE, "Put messages into queues, alone or in one transaction with acknowledgements."),
    (CONSUME, "Take messages out under a lease, acknowledge them, keep the lease."),
    (QUEUES, "Options of queues, emptying them, and their end."),
    (GROUPS, "Where groups of consumers stand, and sending them elsewhere."),
    (MESSAGES, "Look at messages, and handle single ones."),
    (LETTERS, "Messages that were given up, and their way back."),
    (TRACES, "What consumers record about messages."),
    (STATISTICS, "What there is and how much of it, counted for each answer."),
    (HISTORY, "What happened, by time, server and queue."),
    (SERVER, "Health, numbers, maintenance, and this description."),
];

const ABOUT: &str = "\
Bugle is a partitioned message queue. Producers push JSON messages into queues; inside a queue every entity has its own \
ordered partition; consumer groups read each partition through a cursor and a lease, and wait for messages by long polling.

**Conventions.** `null` is the same as absent everywhere but in payloads. Fields and parameters nobody knows are ignored. \
Names (queues, partitions, groups, transaction ids) have at most 255 bytes of UTF-8 and no NUL. Times are ISO 8601, in answers always UTC. \
Numbers out of range are cut to their range where the description says so, and refused otherwise.

**Errors** are `{\"error\": text}`, with a `code` where programs need one. An unknown path is a 404 `no_such_route`, \
a method that a path does not know a 405 with `Allow`. A 429 or 503 says in `Retry-After` when to try again. \
Every answer carries `X-Request-Id`.

**Credentials** are needed only where authentication is switched on; `x-roles` names the roles that suffice.";

/// The description.
fn document() -> Document {
    let mut api = Api::new();
    produce::describe(&mut api);
    consume::describe(&mut api);
    queue::describe(&mut api);
    groups::describe(&mut api);
    messages::describe(&mut api);
    dlq::describe(&mut api);
    traces::describe(&mut api);
    resources::describe(&mut api);
    history::describe(&mut api);
    server::describe(&mut api);
    system::describe(&mut api);
    let info = json!({
        "title": "Bugle",
        "version": env!("CARGO_PKG_VERSION"),
        "description": ABOUT,
        "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
    });
    api.finish(info, &TAGS)
}

/// Spelled once, when it is first asked for.
static SPELLED: LazyLock<Bytes> =
    LazyLock::new(|| serde_json::to_vec(&document()).map(Bytes::from).unwrap_or_default());

const PAGE: &str = concat!(
    "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n",
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>Bugle API</title>\n<style>\n",
    include_str!("page/page.css"),
    "</style>\n</head>\n",
    include_str!("page/page.html"),
    "<script>\n",
    include_str!("page/page.js"),
    "</script>\n</body>\n</html>\n",
);

/// The page needs nothing but itself and the description.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; \
                      img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

pub(crate) async fn json() -> Response {
    let mut response = json_body(StatusCode::OK, Body::from(SPELLED.clone()));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}

pub(crate) async fn page() -> Response {
    let mut response = Response::new(Body::from(PAGE));
    for (name, value) in [
        (CONTENT_TYPE, "text/html; charset=utf-8"),
        (CACHE_CONTROL, "no-cache"),
        (CONTENT_SECURITY_POLICY, POLICY),
    ] {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

#[cfg(test)]
mod tests;
