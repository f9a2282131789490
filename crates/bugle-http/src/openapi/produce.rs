//! Push and transaction.

use bugle_wire::{PushRequest, PushResult, TransactAnswer, TransactRequest};
use serde_json::json;

use super::PRODUCE;
use super::api::Api;

pub(super) fn describe(api: &mut Api) {
    api.post("/api/v1/push", "push")
        .says(PRODUCE, "Push messages")
        .about(
            "Stores all messages or none. Queues and partitions are made by their first message. Messages of one partition keep \
             the order of the request, and are answered when they are durable. A transaction id that the partition has seen inside \
             the queue's `dedupWindowSeconds` is a duplicate: it is not stored again, and the answer tells the original's id. While pushes are in maintenance they \
             are kept on the server's disk instead: `buffered`.",
        )
        .body::<PushRequest<'_>>(json!({
            "items": [{
                "queue": "orders", "partition": "customer-7", "transactionId": "order-1234",
                "payload": { "total": 19.9 },
            }],
        }))
        .answers::<[PushResult<'_>]>(201, "One result per message, in the order of the request.")
        .example(201, json!([{
            "index": 0, "transaction_id": "order-1234", "status": "queued", "queueName": "orders",
            "message_id": "019a8c1e-7f3b-7c55-9a43-0f6c1d2e3b4a",
            "partition_id": "5b0b8f6e-2d7c-4f0a-8e1d-3c9a7b6f5e4d", "trace_id": null,
        }]))
        .refuses(409, "The queue is being deleted, or is encrypted and the server has no key.")
        .bounded()
        .stored();
    api.post("/api/v1/transaction", "transact")
        .says(PRODUCE, "Push and acknowledge, all or nothing")
        .about(
            "Carries out all operations or none. A bundle that was rolled back is answered with 200 and `success: false`. A push \
             names one message itself or has a list of `items`; results count the messages one by one.",
        )
        .body::<TransactRequest<'_>>(json!({
            "operations": [
                {
                    "type": "ack", "transactionId": "order-1234", "partitionId": "5b0b8f6e-2d7c-4f0a-8e1d-3c9a7b6f5e4d",
                    "leaseId": "019a8c1e-8a00-7d11-b0c2-5e4f3a2b1c0d", "consumerGroup": "billing",
                },
                { "type": "push", "items": [{ "queue": "invoices", "payload": { "order": 1234 } }] },
            ],
        }))
        .answers::<TransactAnswer<'_>>(200, "What became of it, rolled back or not.")
        .refuses(409, "A queue is being deleted, or is encrypted and the server has no key.")
        .bounded()
        .stored();
}
