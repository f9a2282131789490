//! Traces.

use bugle_wire::{
    NamedTrace, NoSuccess, Pagination, TraceEntry, TraceList, TraceNameList, TraceRecorded, TraceRequest,
};
use serde_json::json;

use super::TRACES;
use super::api::Api;
use super::parameter::{page, path_id, path_name};
use crate::routes::traces::{BY_NAME_LIMIT, MAX_LIMIT, NAMES_LIMIT};

pub(super) fn describe(api: &mut Api) {
    api.post("/api/v1/traces", "recordTrace")
        .says(TRACES, "Record something about a message")
        .body::<TraceRequest<'_>>(json!({
            "transactionId": "order-1234", "partitionId": "5b0b8f6e-2d7c-4f0a-8e1d-3c9a7b6f5e4d",
            "data": { "step": "paid" }, "traceNames": ["order-1234"], "consumerGroup": "billing",
        }))
        .answers::<TraceRecorded>(201, "It is recorded.")
        .answers::<NoSuccess<'_>>(404, "There is no such message, alive or dead.")
        .stored();
    api.get("/api/v1/traces/names", "traceNames")
        .says(TRACES, "Names of traces")
        .about("Latest first.")
        .takes_all(page(NAMES_LIMIT, MAX_LIMIT))
        .answers::<TraceNameList<'_, Pagination>>(200, "A page of names.")
        .stored();
    api.get("/api/v1/traces/by-name/{name}", "tracesByName")
        .says(TRACES, "Traces of a name")
        .about("Latest first, with their messages.")
        .takes(path_name("name", "The name."))
        .takes_all(page(BY_NAME_LIMIT, MAX_LIMIT))
        .answers::<TraceList<NamedTrace<'_>, Pagination>>(200, "A page of traces.")
        .stored();
    api.get("/api/v1/traces/{partition}/{transaction}", "tracesOfMessage")
        .says(TRACES, "Traces of a message")
        .about("Oldest first.")
        .takes(path_id("partition", "The partition's id (`partitionId`)."))
        .takes(path_id("transaction", "The message's `transactionId`."))
        .takes_all(page(MAX_LIMIT, MAX_LIMIT))
        .answers::<TraceList<TraceEntry<'_>, Pagination>>(200, "A page of traces.")
        .stored();
}
