//! What happened, by time, server and queue.

use bugle_wire::{
    AnalyticsAnswer, OpsAnswer, ParkedAnswer, QueueLagEntry, RemovalAnswer, ReplicasAnswer, TrafficAnswer,
    WorkersAnswer,
};

use super::HISTORY;
use super::answer::json as answer;
use super::api::Api;
use super::internals;
use super::parameter::{Parameter, name, text, time, word};

const PAST: &str = "An hour up to now unless `from` and `to` say otherwise; `from` must be before `to`. Buckets are a minute long, \
                    longer ones where the time is longer; there are at most 1500.";

pub(super) fn describe(api: &mut Api) {
    status(api);
    servers(api);
    queues(api);
    api.get("/api/v1/analytics/postgres-stats", "postgresStats")
        .says(HISTORY, "What the database tells of itself")
        .about("Of our tables alone. On an engine without PostgreSQL the sections are there and empty.")
        .answers_with(200, answer("The sections.", &internals::schema(), &[]))
        .stored();
}

/// What every operation here understands.
fn past() -> [Parameter; 7] {
    [
        time("from", "From this time on."),
        time("to", "Up to this time."),
        name("queue", "Only what was done to this queue."),
        name("namespace", "Only what was done to queues of this namespace."),
        name("task", "Only what was done to queues of this task."),
        text("hostname", "Only what was done by servers on this host."),
        text("workerId", "Only what was done by the server of this name."),
    ]
}

fn status(api: &mut Api) {
    api.get("/api/v1/status", "status")
        .says(HISTORY, "Traffic by time, and how things stand now")
        .about(PAST)
        .takes_all(past())
        .answers::<TrafficAnswer<'_>>(200, "The numbers.")
        .stored();
    api.get("/api/v1/status/analytics", "analytics")
        .says(HISTORY, "Messages stored, by time")
        .about("A day up to now unless `from` and `to` say otherwise; at most 1500 intervals.")
        .takes(word("interval", &["minute", "hour", "day"], "Length of a bucket; `hour` if absent."))
        .takes_all(past())
        .answers::<AnalyticsAnswer<'_>>(200, "The numbers.")
        .stored();
}

fn servers(api: &mut Api) {
    api.get("/api/v1/analytics/system-metrics", "systemMetrics")
        .says(HISTORY, "What each server used")
        .about(PAST)
        .takes_all(past())
        .answers::<ReplicasAnswer<'_>>(200, "The numbers.")
        .stored();
    api.get("/api/v1/analytics/worker-metrics", "workerMetrics")
        .says(HISTORY, "What servers did")
        .about(PAST)
        .takes_all(past())
        .answers::<WorkersAnswer<'_>>(200, "The numbers.")
        .stored();
    api.get("/api/v1/analytics/queue-parked-replicas", "parkedPops")
        .says(HISTORY, "Pops that waited, by server and queue")
        .about(PAST)
        .takes_all(past())
        .answers::<ParkedAnswer<'_>>(200, "The numbers.")
        .stored();
}

fn queues(api: &mut Api) {
    api.get("/api/v1/analytics/queue-lag", "queueLag")
        .says(HISTORY, "How long messages waited, by queue")
        .about(PAST)
        .takes_all(past())
        .answers::<[QueueLagEntry<'_>]>(200, "Oldest first, then by queue.")
        .stored();
    api.get("/api/v1/analytics/queue-ops", "queueOps")
        .says(HISTORY, "What was done to each queue")
        .about(PAST)
        .takes_all(past())
        .answers::<OpsAnswer<'_>>(200, "The numbers.")
        .stored();
    api.get("/api/v1/analytics/retention", "removals")
        .says(HISTORY, "Messages that were removed")
        .about(PAST)
        .takes_all(past())
        .answers::<RemovalAnswer>(200, "The numbers.")
        .stored();
}
