//! Looking at messages, and handling single ones.

use bugle_wire::{
    FullMessage, GiveUpRequest, MessageListAnswer, MessageOutcome, NoSuccess, Pagination, ReplayAnswer,
    ReplayRequest,
};
use serde_json::json;

use super::MESSAGES;
use super::api::Api;
use super::parameter::{Parameter, name, page, path_id, time, word};
use crate::routes::messages::{DEFAULT_LIMIT, MAX_LIMIT};

pub(super) fn describe(api: &mut Api) {
    looks(api);
    handles(api);
}

/// A message by its place and the producer's id.
fn message() -> [Parameter; 2] {
    [
        path_id("partition", "The partition's id (`partitionId`)."),
        path_id("transaction", "The message's `transactionId`."),
    ]
}

fn group() -> Parameter {
    name("consumerGroup", "Only the dead letter of this group.")
}

fn looks(api: &mut Api) {
    api.get("/api/v1/messages", "messages")
        .says(MESSAGES, "List messages")
        .about("Newest first, over all partitions that match.")
        .takes(name("queue", "Of this queue."))
        .takes(name("partition", "Of partitions of this name."))
        .takes(name("namespace", "Of queues of this namespace."))
        .takes(name("ns", "The same."))
        .takes(name("task", "Of queues of this task."))
        .takes(word("status", &["pending", "processing", "completed", "dead_letter"], "In this state."))
        .takes(time("from", "Pushed at or after."))
        .takes(time("to", "Pushed before."))
        .takes_all(page(DEFAULT_LIMIT, MAX_LIMIT))
        .answers::<MessageListAnswer<'_, Pagination>>(200, "A page of messages.")
        .stored();
    api.get("/api/v1/messages/{partition}/{transaction}", "message")
        .says(MESSAGES, "One message")
        .about("With what each group has made of it.")
        .takes_all(message())
        .answers::<FullMessage<'_>>(200, "The message.")
        .refuses(404, "There is no such message.")
        .stored();
}

fn handles(api: &mut Api) {
    api.delete("/api/v1/messages/{partition}/{transaction}", "deleteMessage")
        .says(MESSAGES, "Delete the dead letter of a message")
        .about("The message itself stays in its partition as long as it is kept.")
        .takes_all(message())
        .takes(group())
        .answers::<MessageOutcome<'_>>(200, "It is gone.")
        .answers::<MessageOutcome<'_>>(404, "There is no dead letter of it.")
        .stored();
    api.post("/api/v1/messages/{partition}/{transaction}/retry", "retryMessage")
        .says(MESSAGES, "Send the dead letter of a message back")
        .about("To the end of its partition, or where the body says.")
        .takes_all(message())
        .takes(group())
        .optional_body::<ReplayRequest<'_>>(json!({ "queue": "orders-repaired" }))
        .answers::<ReplayAnswer<'_>>(200, "Where it went.")
        .answers::<NoSuccess<'_>>(404, "There is no dead letter of it.")
        .refuses(409, "It cannot be decrypted or stored.")
        .bounded()
        .stored();
    api.post("/api/v1/messages/{partition}/{transaction}/dlq", "giveUpMessage")
        .says(MESSAGES, "Give a message up")
        .about("In the name of a group whose next message it is: it becomes a dead letter, and the group goes on behind it.")
        .takes_all(message())
        .optional_body::<GiveUpRequest<'_>>(json!({ "consumerGroup": "billing", "error": "no such customer" }))
        .answers::<MessageOutcome<'_>>(200, "It is a dead letter now, or dropped where the queue keeps none.")
        .answers::<MessageOutcome<'_>>(404, "There is no such message.")
        .answers::<MessageOutcome<'_>>(409, "The group is elsewhere.")
        .bounded()
        .stored();
}
