//! Consumer groups.

use std::collections::BTreeMap;

use bugle_wire::{
    DeleteGroupAnswer, GroupEntry, GroupQueueEntry, LaggingEntry, NoSuccess, SeekAnswer, SeekPartitionAnswer,
    SeekRequest, SubscriptionAnswer, SubscriptionRequest,
};
use serde_json::{Value, json};

use super::GROUPS;
use super::api::Api;
use super::parameter::{Parameter, flag_on, number, path_name};
use crate::routes::group_list::{DEFAULT_LAG, LAGGING};

pub(super) fn describe(api: &mut Api) {
    lists(api);
    looks(api);
    seeks(api);
}

fn group() -> Parameter {
    path_name("group", "The group.")
}

fn queue() -> Parameter {
    path_name("queue", "The queue.")
}

fn metadata() -> Parameter {
    flag_on("deleteMetadata", "Forget where the group started, too.")
}

fn lists(api: &mut Api) {
    api.get("/api/v1/consumer-groups", "groups")
        .says(GROUPS, "List groups")
        .about("An entry for each group and queue.")
        .answers::<[GroupEntry<'_>]>(200, "By group and queue.")
        .stored();
    let most = format!("Most partitions, cut to 1..{LAGGING}.");
    api.get("/api/v1/consumer-groups/lagging", "lagging")
        .says(GROUPS, "Partitions in which groups are behind")
        .takes(number("minLagSeconds", Some(DEFAULT_LAG), "By at least so many seconds. Below 0 is 0."))
        .takes(number("limit", u64::try_from(LAGGING).ok(), &most))
        .answers::<[LaggingEntry<'_>]>(200, "The oldest message first.")
        .stored();
    api.delete("/api/v1/consumer-groups/lagging", "deleteGroupLagging")
        .says(GROUPS, "Delete the group `lagging`")
        .about("A group may have this name, too; then this deletes it as any other.")
        .takes(metadata())
        .answers::<DeleteGroupAnswer<'_>>(200, "It is gone.")
        .bounded()
        .stored();
}

fn looks(api: &mut Api) {
    api.get("/api/v1/consumer-groups/{group}", "group")
        .says(GROUPS, "How far a group is")
        .about("By queue: each partition the group has been in. A group nobody knows is on no queue.")
        .takes(group())
        .answers::<BTreeMap<&str, GroupQueueEntry<'_>>>(200, "By name of the queue.")
        .stored();
    api.delete("/api/v1/consumer-groups/{group}", "deleteGroup")
        .says(GROUPS, "Delete a group")
        .about("On all queues. If it comes again it is a new group.")
        .takes(group())
        .takes(metadata())
        .answers::<DeleteGroupAnswer<'_>>(200, "It is gone.")
        .bounded()
        .stored();
    api.delete("/api/v1/consumer-groups/{group}/queues/{queue}", "deleteGroupOnQueue")
        .says(GROUPS, "Delete a group on one queue")
        .takes(group())
        .takes(queue())
        .takes(metadata())
        .answers::<DeleteGroupAnswer<'_>>(200, "It is gone.")
        .refuses(404, "There is no such queue.")
        .bounded()
        .stored();
    api.post("/api/v1/consumer-groups/{group}/subscription", "subscribe")
        .says(GROUPS, "Change where a group starts")
        .about("On partitions that it has not read yet, of all queues it is on.")
        .takes(group())
        .body::<SubscriptionRequest<'_>>(json!({ "subscriptionTimestamp": "2026-01-31T12:00:00Z" }))
        .answers::<SubscriptionAnswer<'_>>(200, "Where it starts now.")
        .bounded()
        .stored();
}

fn seeks(api: &mut Api) {
    api.post("/api/v1/consumer-groups/{group}/queues/{queue}/seek", "seek")
        .says(GROUPS, "Send a group elsewhere")
        .about(
            "On all partitions of a queue. Leases end; what is acknowledged under them no longer counts. With `dryRun` nothing is \
             done, and the answer tells what would be delivered.",
        )
        .takes(group())
        .takes(queue())
        .body_as::<SeekRequest<'_>>(
            true,
            json!({ "toBeginning": true }),
            |known| json!({ "allOf": [known, { "oneOf": places() }] }),
        )
        .answers::<SeekAnswer<'_>>(200, "Where it is now.")
        .refuses(404, "There is no such queue.")
        .bounded()
        .stored();
    api.post("/api/v1/consumer-groups/{group}/queues/{queue}/partitions/{partition}/seek", "seekPartition")
        .says(GROUPS, "Send a group elsewhere on one partition")
        .about("To the end if the request does not say where.")
        .takes(group())
        .takes(queue())
        .takes(path_name("partition", "The partition."))
        .body_as::<SeekRequest<'_>>(false, json!({ "timestamp": "2026-01-31T12:00:00Z" }), |known| {
            let mut places = places();
            places.push(json!({ "not": { "anyOf": places.clone() } }));
            json!({ "allOf": [known, { "oneOf": places }] })
        })
        .answers::<SeekPartitionAnswer<'_>>(200, "Where it is now.")
        .answers::<NoSuccess<'_>>(404, "There is no such queue or partition.")
        .bounded()
        .stored();
}

/// The ways to say where to go, of which a request has one.
fn places() -> Vec<Value> {
    vec![
        json!({ "properties": { "toEnd": { "const": true } }, "required": ["toEnd"] }),
        json!({ "properties": { "toBeginning": { "const": true } }, "required": ["toBeginning"] }),
        json!({ "properties": { "timestamp": { "type": "string" } }, "required": ["timestamp"] }),
    ]
}
