//! Pop, ack and lease.

use bugle_broker::BrokerConfig;
use bugle_wire::{
    AckBatchRequest, AckEntry, AckResult, ErrorBody, PopAnswer, PopRefusal, RenewAnswer, RenewRequest,
};
use serde_json::json;

use super::CONSUME;
use super::answer::empty;
use super::api::Api;
use super::operation::Op;
use super::parameter::{Parameter, flag, name, number, path_id, path_name, positive, text};
use crate::app::HttpConfig;
use crate::routes::pop::MAX_LEASE_SECONDS;

const STORE: &str = "Bugle-Store";
const LEASE: &str = "019a8c1e-8a00-7d11-b0c2-5e4f3a2b1c0d";
const LANE: &str = "5b0b8f6e-2d7c-4f0a-8e1d-3c9a7b6f5e4d";

pub(super) fn describe(api: &mut Api) {
    pops(api);
    acks(api);
}

fn pops(api: &mut Api) {
    let by_queue = api
        .get("/api/v1/pop/queue/{queue}", "popQueue")
        .says(CONSUME, "Take messages of a queue")
        .about(
            "Claims partitions that nobody of the group holds, and answers their next messages under one lease. With `wait` the \
             request is held until there is something, or until `timeout`.",
        )
        .takes(path_name("queue", "The queue."));
    pop(by_queue);
    let by_partition = api
        .get("/api/v1/pop/queue/{queue}/partition/{partition}", "popPartition")
        .says(CONSUME, "Take messages of one partition")
        .about("As popping the queue, but of this partition only.")
        .takes(path_name("queue", "The queue."))
        .takes(path_name("partition", "The partition."));
    pop(by_partition);
    let by_filter = api
        .get("/api/v1/pop", "popFilter")
        .says(CONSUME, "Take messages of any queue of a namespace or task")
        .about("As popping a queue, but of all queues of a namespace, a task, or both. At least one of them is required.")
        .takes(name("namespace", "Of these queues."))
        .takes(name("task", "Of these queues."));
    pop(by_filter).answers_either::<ErrorBody<'_>, PopRefusal<'_>>(
        400,
        "A parameter is wrong, or neither namespace nor task is given.",
    );
}

/// What all three have in common.
fn pop(op: Op<'_>) -> Op<'_> {
    let found = op.takes_all(parameters()).answers::<PopAnswer>(200, "Messages.");
    let found = found.example(200, json!({
        "success": true, "queue": "orders", "partition": "customer-7", "partitionId": LANE, "leaseId": LEASE,
        "leaseExpiresAt": "2026-01-31T12:01:00.000Z", "consumerGroup": "billing", "partitionsClaimed": 1,
        "messages": [{
            "id": "019a8c1e-7f3b-7c55-9a43-0f6c1d2e3b4a", "transactionId": "order-1234", "traceId": null,
            "producerSub": null, "createdAt": "2026-01-31T12:00:00.123456Z", "offset": 0, "data": { "total": 19.9 },
            "queue": "orders", "partition": "customer-7", "partitionId": LANE, "leaseId": LEASE,
            "consumerGroup": "billing", "deliveryAttempt": 1,
        }],
    }));
    found
        .answers_with(204, empty("Nothing to deliver, whatever the reason. A store that is away is told in a header, never by an error: consumers go on.", &[STORE]))
        .bounded()
}

fn parameters() -> Vec<Parameter> {
    let (broker, http) = (BrokerConfig::default(), HttpConfig::default());
    let wait = u64::try_from(http.default_wait.as_millis()).unwrap_or(u64::MAX);
    let batch = format!(
        "Most messages, over all partitions. Below 1 is 1; cut to what the server allows ({} unless set).",
        broker.pop_max_batch
    );
    let timeout = format!(
        "Milliseconds to wait; looked at only with `wait`. Cut to what the server allows ({} unless set).",
        http.max_wait.as_millis()
    );
    let lease = format!(
        "Seconds of the lease, {MAX_LEASE_SECONDS} at most. Below 1, or absent: the queue's `leaseTime`."
    );
    vec![
        name("consumerGroup", "Whose cursor. Absent: the one that anonymous consumers share."),
        flag("wait", "Wait for messages."),
        positive("timeout", wait, &timeout),
        number("batch", Some(broker.default_batch.into()), &batch),
        number("partitions", Some(1), "Most partitions. Below 1: as many as there are."),
        flag("autoAck", "Acknowledge by delivering: at most once, without a lease."),
        number("leaseSeconds", None, &lease),
        text(
            "subscriptionMode",
            "Where a new group starts: `new` (or `new-only`) behind what is there, anything else at the oldest message.",
        ),
        text("subscriptionFrom", "Where a new group starts instead: `now`, or a time (ISO 8601)."),
        flag(
            "conflation",
            "Only the newest message of each partition. Needs a `consumerGroup`, excludes `autoAck`.",
        ),
        flag("autopilot", "Leave `batch` and `partitions` to the server where they are absent."),
    ]
}

fn acks(api: &mut Api) {
    api.post("/api/v1/ack", "ack")
        .says(CONSUME, "Acknowledge a message")
        .about(
            "Whether it was taken is told in the answer, not by the status. `completed` goes on behind the message and all before it; \
             `failed` and `retry` return it and all after it; `dlq` makes it a dead letter.",
        )
        .body::<AckEntry<'_>>(json!({
            "transactionId": "order-1234", "partitionId": LANE, "leaseId": LEASE, "consumerGroup": "billing",
        }))
        .answers::<[AckResult<'_>]>(200, "A list of one.")
        .bounded()
        .stored();
    api.post("/api/v1/ack/batch", "ackBatch")
        .says(CONSUME, "Acknowledge many messages")
        .about("As single acknowledgements, carried out together for each partition.")
        .body::<AckBatchRequest<'_>>(json!({
            "acknowledgments": [
                { "transactionId": "order-1234", "partitionId": LANE, "leaseId": LEASE, "status": "completed" },
                { "transactionId": "order-1235", "partitionId": LANE, "leaseId": LEASE, "status": "failed", "error": "no stock" },
            ],
            "consumerGroup": "billing",
        }))
        .answers::<[AckResult<'_>]>(200, "One result per acknowledgement, in the order of the request.")
        .bounded()
        .stored();
    let most = format!(
        "Extends the lease on all partitions it holds, never shortens it. {MAX_LEASE_SECONDS} seconds at most. A body that \
         cannot be read means the default: a consumer shall not lose its lease for that."
    );
    api.post("/api/v1/lease/{lease}/extend", "extendLease")
        .says(CONSUME, "Keep a lease")
        .about(most)
        .takes(path_id("lease", "The `leaseId` of a pop."))
        .body_as::<RenewRequest>(
            false,
            json!({ "seconds": 60 }),
            |known| json!({ "anyOf": [known, { "not": { "type": "object" } }] }),
        )
        .answers::<RenewAnswer<'_>>(200, "Whether it was extended, and until when.")
        .bounded()
        .stored();
}
