//! What there is and how much of it.

use bugle_store::QueueOptions;
use bugle_wire::{
    DepthAnswer, NamespacesAnswer, OverviewAnswer, Pagination, QueueDetailAnswer, QueueListAnswer,
    QueueStatusAnswer, RankingAnswer, RefreshAnswer, StatusMessageEntry, TasksAnswer,
};

use super::STATISTICS;
use super::api::Api;
use super::parameter::{Parameter, name, number, page, path_id, text, time, word};
use crate::routes::{queue_status, resources};

pub(super) fn describe(api: &mut Api) {
    queues(api);
    one_queue(api);
    all_together(api);
    status(api);
}

/// Which queues.
fn filter() -> [Parameter; 3] {
    [
        name("namespace", "Of this namespace."),
        name("task", "Of this task."),
        text("search", "With this text in their name."),
    ]
}

fn queue() -> Parameter {
    path_id("queue", "The queue.")
}

/// Which partitions of a queue.
fn partitions(default: usize) -> [Parameter; 2] {
    let most = format!("Most partitions, cut to 1..{}.", resources::MAX_PARTITIONS);
    [
        number("limit", u64::try_from(default).ok(), &most),
        name("after", "Only partitions behind this one: the last of the answer before."),
    ]
}

fn queues(api: &mut Api) {
    api.get("/api/v1/resources/queues", "queues")
        .says(STATISTICS, "List queues")
        .about("Newest first unless there is a `sort`; all of them unless there is a `limit`.")
        .takes_all(filter())
        .takes(number("limit", None, "Most queues; below 1 is 1."))
        .takes(number("offset", Some(0), "Queues to skip. Below 0 is 0."))
        .takes(word("sort", &resources::SORTS, "By what; `created` if absent. Equals are sorted by name."))
        .takes(word("order", &["asc", "desc"], "`asc` for names and `desc` for everything else if absent."))
        .answers::<QueueListAnswer<'_, Pagination>>(200, "The queues.")
        .stored();
    api.get("/api/v1/resources/partitions", "partitions")
        .says(STATISTICS, "Partitions with most to be delivered")
        .takes(name("queue", "Of this queue."))
        .takes(number(
            "limit",
            u64::try_from(resources::RANKED).ok(),
            &format!("Most partitions, cut to 1..{}.", resources::MAX_RANKED),
        ))
        .answers::<RankingAnswer<'_>>(200, "Most pending first.")
        .refuses(404, "There is no such queue.")
        .stored();
}

fn one_queue(api: &mut Api) {
    api.get("/api/v1/resources/queues/{queue}", "queue")
        .says(STATISTICS, "One queue with its partitions")
        .takes(queue())
        .takes_all(partitions(resources::DETAILED))
        .answers::<QueueDetailAnswer<'_, QueueOptions>>(200, "The queue.")
        .refuses(404, "There is no such queue.")
        .stored();
    api.get("/api/v1/resources/queues/{queue}/depth", "depth")
        .says(STATISTICS, "How much is before a group")
        .about("Messages that are not acknowledged, in all and by partition.")
        .takes(queue())
        .takes(name("group", "The group; if absent, the one the queue is judged by in all other numbers, or everything kept if nobody reads it."))
        .takes_all(partitions(resources::MAX_PARTITIONS))
        .answers::<DepthAnswer<'_>>(200, "The numbers.")
        .refuses(404, "There is no such queue.")
        .stored();
}

fn all_together(api: &mut Api) {
    api.get("/api/v1/resources/namespaces", "namespaces")
        .says(STATISTICS, "List namespaces")
        .answers::<NamespacesAnswer<'_>>(200, "By name.")
        .stored();
    api.get("/api/v1/resources/tasks", "tasks")
        .says(STATISTICS, "List tasks")
        .answers::<TasksAnswer<'_>>(200, "By name.")
        .stored();
    api.get("/api/v1/resources/overview", "overview")
        .says(STATISTICS, "Everything in a few numbers")
        .answers::<OverviewAnswer>(200, "The numbers.")
        .stored();
    api.post("/api/v1/stats/refresh", "refresh")
        .says(STATISTICS, "Count again")
        .about("For clients that expect it: numbers are counted for each answer, so there is nothing to refresh.")
        .answers::<RefreshAnswer>(200, "What there is to count.")
        .stored();
}

fn status(api: &mut Api) {
    api.get("/api/v1/status/queues", "queueStatuses")
        .says(STATISTICS, "List queues, a page at a time")
        .takes_all(filter())
        .takes(time("from", "Checked, and otherwise of no account: numbers are those of now."))
        .takes(time("to", "The same."))
        .takes_all(page(queue_status::QUEUES, queue_status::MAX_QUEUES))
        .answers_telling::<QueueListAnswer<'_, Pagination>>(200, "A page of queues.", &["pagination"])
        .stored();
    api.get("/api/v1/status/queues/{queue}", "queueStatus")
        .says(STATISTICS, "One queue with its options and partitions")
        .takes(queue())
        .takes_all(partitions(queue_status::PARTITIONS))
        .answers::<QueueStatusAnswer<'_>>(200, "The queue.")
        .refuses(404, "There is no such queue.")
        .stored();
    api.get("/api/v1/status/queues/{queue}/messages", "queueMessages")
        .says(STATISTICS, "The newest messages of a queue")
        .about("Newest first, without their payloads.")
        .takes(queue())
        .takes_all(page(queue_status::MESSAGES, queue_status::MAX_MESSAGES))
        .answers::<[StatusMessageEntry<'_>]>(200, "A page of messages.")
        .refuses(404, "There is no such queue.")
        .stored();
}
