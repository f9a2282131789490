//! Dead letters.

use bugle_wire::{
    LetterCount, LetterList, NoSuccess, RedriveAnswer, RedriveRequest, ReplayAnswer, ReplayRequest,
};
use serde_json::json;

use super::LETTERS;
use super::api::Api;
use super::parameter::{Parameter, name, page, path_id, text, time};
use crate::routes::dlq::{DEFAULT_LIMIT, MAX_LIMIT, MAX_REDRIVE};

pub(super) fn describe(api: &mut Api) {
    api.get("/api/v1/dlq", "deadLetters")
        .says(LETTERS, "List dead letters")
        .about("Latest failure first. Each keeps its own copy of the message.")
        .takes_all(filter())
        .takes_all(page(DEFAULT_LIMIT, MAX_LIMIT))
        .answers::<LetterList<'_>>(200, "A page of dead letters.")
        .stored();
    api.get("/api/v1/dlq/count", "deadLetterCount")
        .says(LETTERS, "Count dead letters")
        .takes_all(filter())
        .answers::<LetterCount>(200, "How many match.")
        .stored();
    api.post("/api/v1/dlq/{id}/replay", "replayDeadLetter")
        .says(LETTERS, "Send one dead letter back")
        .about("To the end of its partition, or where the body says; once, however often it is asked for.")
        .takes(path_id("id", "Its id."))
        .optional_body::<ReplayRequest<'_>>(json!({ "payload": { "total": 20 } }))
        .answers::<ReplayAnswer<'_>>(200, "Where it went.")
        .answers::<NoSuccess<'_>>(404, "There is no such dead letter, or its queue was deleted.")
        .refuses(409, "It cannot be decrypted or stored.")
        .bounded()
        .stored();
    api.post("/api/v1/dlq/redrive", "redrive")
        .says(LETTERS, "Send many dead letters back")
        .about(format!(
            "Those that match, oldest first, at most {MAX_REDRIVE} in one call. The answer's `cursor` goes on where this call \
             stopped; letters that fail again meanwhile are not sent back over and over.",
        ))
        .body::<RedriveRequest<'_>>(json!({ "filter": { "queue": "orders", "errorContains": "no stock" }, "dryRun": true }))
        .answers::<RedriveAnswer<'_>>(200, "What was done.")
        .refuses(404, "There is no such queue.")
        .refuses(409, "The queue is being deleted, or is encrypted and the server has no key.")
        .bounded()
        .stored();
}

fn filter() -> [Parameter; 6] {
    [
        name("queue", "Of this queue."),
        name("partition", "Of this partition of the queue, which must be given, too."),
        name("consumerGroup", "Given up by this group."),
        time("from", "Failed at or after."),
        time("to", "Failed before."),
        text("errorContains", "With this text in the error."),
    ]
}
