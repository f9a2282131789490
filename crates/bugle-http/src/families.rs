//! Everything the broker counts, as families of metrics.

use std::time::Duration;

use bugle_broker::{InboxReading, QueueReading, Reading};
use bugle_wake::HearingState;

use crate::edge::{EdgeReading, Export, Limit};
use crate::exposition::{Metric, Page};
use crate::hearing::{HEARINGS, dropped, healthy_peers, hearing};
use crate::process::Process;
use crate::refusals;

/// Queues with series of their own. What a scraper keeps must have a bound, and queues are made by clients.
const MAX_QUEUES: usize = 1000;
/// The label of all others together. A queue of this very name is counted with them: two equal series would make the
/// page unreadable.
const OTHERS: &str = "other";

/// The whole page.
pub(crate) fn write(
    reading: &Reading,
    edge: &EdgeReading,
    process: Option<Process>,
    open_metrics: bool,
) -> String {
    let mut page = Page::new(open_metrics);
    fill(&mut page, reading, edge, process);
    page.finish()
}

/// The same as points.
pub(crate) fn points(reading: &Reading, edge: &EdgeReading, process: Option<Process>) -> Vec<Metric> {
    let mut page = Page::of_points();
    fill(&mut page, reading, edge, process);
    page.points()
}

fn fill(page: &mut Page, reading: &Reading, edge: &EdgeReading, process: Option<Process>) {
    server(page, reading, process);
    self::edge(page, edge);
    telemetry(page, edge);
    verbs(page, reading);
    waiting(page, reading);
    claims(page, reading);
    floor(page, reading);
    store(page, reading);
    packing(page, reading);
    maintenance(page, reading);
    inbox(page, reading.inbox.as_ref());
    carriers(page, reading);
    carrier_frames(page, reading);
    queues(page, &reading.queues);
}

fn server(page: &mut Page, reading: &Reading, process: Option<Process>) {
    page.gauge("bugle_build_info", "The version that runs; always 1.")
        .sample(&[("version", env!("CARGO_PKG_VERSION"))], 1);
    page.gauge("bugle_uptime_seconds", "Since the server started.").only(seconds(reading.uptime));
    let Some(process) = process else { return };
    let mut time = page.counter("bugle_process_cpu_seconds", "Time on processors.");
    time.sample(&[("mode", "user")], seconds(process.user));
    time.sample(&[("mode", "system")], seconds(process.system));
    page.gauge("bugle_process_resident_memory_bytes", "Memory in use.").only(process.resident_bytes);
    page.gauge("bugle_process_virtual_memory_bytes", "Address space in use.").only(process.virtual_bytes);
}

fn edge(page: &mut Page, edge: &EdgeReading) {
    page.gauge("bugle_connections", "Connections of clients.").only(edge.connections);
    page.counter("bugle_connections_shed", "Idle connections closed because others had no place.")
        .only(edge.shed);
    page.gauge("bugle_body_bytes", "Memory taken by large request bodies.").only(edge.bodies);
    let mut family =
        page.counter("bugle_requests_limited", "Requests answered with 429 before a queue was asked.");
    for ((_, name), count) in Limit::ALL.iter().zip(edge.limited) {
        family.sample(&[("limit", name)], count);
    }
}

fn telemetry(page: &mut Page, edge: &EdgeReading) {
    let count = |what: Export| edge.exports[what as usize];
    let mut family =
        page.counter("bugle_telemetry_spans", "Spans of requests, by whether the collector got them.");
    family.sample(&[("outcome", "sent")], count(Export::SpansSent));
    family.sample(&[("outcome", "dropped")], count(Export::SpansDropped));
    let mut family = page.counter("bugle_telemetry_exports", "Requests to the collector.");
    for (signal, sent, failed) in [
        ("traces", Export::TracesSent, Export::TracesFailed),
        ("metrics", Export::MetricsSent, Export::MetricsFailed),
    ] {
        family.sample(&[("signal", signal), ("outcome", "sent")], count(sent));
        family.sample(&[("signal", signal), ("outcome", "failed")], count(failed));
    }
}

fn verbs(page: &mut Page, reading: &Reading) {
    let verbs = [
        ("push", &reading.push),
        ("pop", &reading.pop),
        ("ack", &reading.ack),
        ("transaction", &reading.transact),
    ];
    let mut family = page.counter("bugle_requests", "Requests.");
    verbs.iter().for_each(|(verb, v)| family.sample(&[("verb", verb)], v.requests));
    let mut family = page.counter("bugle_messages", "Messages pushed, delivered or acknowledged.");
    verbs.iter().for_each(|(verb, v)| family.sample(&[("verb", verb)], v.messages));
    let mut family = page.counter("bugle_requests_refused", "Requests refused as a whole.");
    verbs.iter().for_each(|(verb, v)| family.sample(&[("verb", verb)], v.refused));
    let mut family = page.gauge("bugle_queued", "Items that wait for a store call.");
    verbs.iter().for_each(|(verb, v)| family.sample(&[("verb", verb)], v.queued));
    page.histogram("bugle_push_seconds", "How long pushes took.", &reading.push.took);
    page.histogram("bugle_ack_seconds", "How long acknowledgements took.", &reading.ack.took);
    page.histogram("bugle_transaction_seconds", "How long transactions took.", &reading.transact.took);
    page.counter(
        "bugle_acks_rejected",
        "Acknowledgements refused one by one: most often their lease had ended, and somebody else has the messages.",
    )
    .only(reading.acks_rejected);
    let mut family = page.counter("bugle_http_errors", "Answers that were errors, by status.");
    refusals::read().for_each(|(status, count)| family.sample(&[("status", &status)], count));
    page.counter("bugle_dead_lettered", "Messages that became dead letters here.")
        .only(reading.dead_lettered);
    page.counter("bugle_redriven", "Dead letters that this server sent back to a queue.")
        .only(reading.redriven);
}

fn waiting(page: &mut Page, reading: &Reading) {
    let waiting = &reading.waiting;
    page.gauge("bugle_waiters", "Pops with wait=true that are here, parked or being served.")
        .only(waiting.waiting);
    page.gauge("bugle_waiters_parked", "Pops that are parked.").only(waiting.parked);
    let mut family = page.counter("bugle_waiting", "Pops with wait=true, by what became of them.");
    for (outcome, count) in [
        ("registered", waiting.registered),
        ("served", waiting.served),
        ("expired", waiting.expired),
        ("cancelled", waiting.cancelled),
    ] {
        family.sample(&[("outcome", outcome)], count);
    }
    let mut family =
        page.gauge("bugle_waiting_keys", "Combinations of queue, partition and group that are waited for.");
    for (state, count) in [
        ("tracked", waiting.keys),
        ("in_flight", waiting.keys_in_flight),
        ("backed_off", waiting.keys_backed_off),
    ] {
        family.sample(&[("state", state)], count);
    }
    page.gauge("bugle_waiting_shards", "Independently locked parts of the registry of waiting pops.")
        .only(waiting.shards);
    let mut family = page.counter("bugle_wakes", "Waiting pops woken, by what woke them.");
    for (source, count) in waiting.wakes {
        family.sample(&[("source", source.name())], count);
    }
    page.gauge("bugle_wait_mean_seconds", "How long waiting pops that got messages had waited, on average.")
        .only(seconds(waiting.mean_wait));
    page.histogram(
        "bugle_wake_to_delivery_seconds",
        "From the wake of a waiting pop to its answer.",
        &waiting.wake_to_delivery,
    );
}

fn claims(page: &mut Page, reading: &Reading) {
    let claims = reading.claims;
    page.counter("bugle_claim_calls", "Store calls that claim partitions for pops.").only(claims.calls);
    page.counter("bugle_claim_pops", "Pops these calls were made for.").only(claims.pops);
    page.counter("bugle_claim_served", "Of those: waiting pops that got messages.").only(claims.served);
    page.counter("bugle_claim_lanes", "Partitions these calls tried.").only(claims.lanes);
    page.counter("bugle_claim_lost", "Of those: lost to somebody else.").only(claims.lost);
    page.counter("bugle_claim_cached", "Of the partitions: messages came from memory, not from the store.")
        .only(claims.cached);
    page.counter("bugle_claim_empty", "Claim calls that brought nobody a message.").only(claims.empty);
    page.gauge("bugle_claim_served_per_call", "Waiting pops served per claim call, on average.")
        .only(ratio(claims.served, claims.calls));
    let mut family = page.counter("bugle_pending_checks", "Looks of the fallback check at waiting keys.");
    let pending = reading.pending;
    for (result, count) in [("check", pending.checks), ("hit", pending.hits), ("miss", pending.misses)] {
        family.sample(&[("result", result)], count);
    }
}

fn floor(page: &mut Page, reading: &Reading) {
    let floor = reading.floor;
    page.gauge("bugle_floor_interval_seconds", "Interval of the fallback check for waiting pops.")
        .only(seconds(floor.interval));
    page.counter("bugle_floor_surveys", "Fallback checks made.").only(floor.surveys);
    page.counter("bugle_floor_errors", "Fallback checks that the store did not answer.").only(floor.errors);
}

fn store(page: &mut Page, reading: &Reading) {
    let store = reading.store;
    page.gauge("bugle_store_up", "Whether the store answered the last call.").only(u8::from(store.connected));
    page.counter("bugle_store_calls", "Store calls.").only(store.calls);
    page.counter("bugle_store_errors", "Store calls without an answer.").only(store.errors);
    page.counter(
        "bugle_store_timelines",
        "Times the store went on on another timeline (failover, restore) or came back from a crash.",
    )
    .only(store.timelines);
    let mut family =
        page.gauge("bugle_store_connections", "Connections to the store, and the most there may be.");
    for (state, count) in [("in_use", store.in_use), ("idle", store.idle), ("max", store.max)] {
        family.sample(&[("state", state)], count);
    }
}

fn packing(page: &mut Page, reading: &Reading) {
    let packing = reading.packing;
    let mut family = page.counter(
        "bugle_compression_bytes",
        "Bytes of messages that were stored compressed, before and after compression.",
    );
    family.sample(&[("stage", "before")], packing.before);
    family.sample(&[("stage", "after")], packing.after);
    page.counter("bugle_compression_unpaid", "Tries to compress messages that saved too little to be kept.")
        .only(packing.unpaid);
}

fn maintenance(page: &mut Page, reading: &Reading) {
    let (switches, spool) = (reading.switches, &reading.spool);
    let mut family = page.gauge("bugle_maintenance", "Whether operators have switched it on.");
    family.sample(&[("of", "push")], u8::from(switches.push_maintenance));
    family.sample(&[("of", "pop")], u8::from(switches.pop_maintenance));
    page.gauge("bugle_spool_up", "Whether the spool takes messages and can be read.")
        .only(u8::from(spool.state.failed.is_none()));
    page.gauge("bugle_spool_messages", "Messages in the spool.").only(spool.state.records);
    let mut family = page.gauge("bugle_spool_bytes", "Bytes in the spool, and the most there may be.");
    family.sample(&[("state", "used")], spool.state.bytes);
    family.sample(&[("state", "max")], spool.state.max_bytes);
    let mut family = page.counter("bugle_spool_moved", "Messages that went into the spool and out of it.");
    family.sample(&[("direction", "in")], spool.spooled);
    family.sample(&[("direction", "out")], spool.drained);
}

fn inbox(page: &mut Page, inbox: Option<&InboxReading>) {
    let Some(inbox) = inbox else { return };
    let mut family = page.counter("bugle_inbox_moved", "Messages that this server took out of the inbox.");
    family.sample(&[("result", "stored")], inbox.stored);
    family.sample(&[("result", "duplicate")], inbox.duplicates);
    page.counter("bugle_inbox_failures", "Tries to move messages of the inbox that failed.")
        .only(inbox.failures);
    page.gauge("bugle_inbox_waiting", "Messages in the inbox, as last seen here; counted up to 10000.")
        .only(inbox.waiting);
    page.gauge("bugle_inbox_oldest_seconds", "Age of the oldest message in the inbox, as last seen here.")
        .only(seconds(inbox.oldest));
    page.gauge(
        "bugle_inbox_blocked_queues",
        "Queues whose messages wait in the inbox because they are full, or because there is no key to encrypt for them.",
    )
    .only(inbox.blocked);
    page.histogram(
        "bugle_inbox_delay_seconds",
        "From the writing of the oldest message of a batch to its being in its queue.",
        &inbox.delay,
    );
}

fn carriers(page: &mut Page, reading: &Reading) {
    let mut family =
        page.gauge("bugle_hearing", "How well other servers are heard: 1 for the present state.");
    let present = hearing(reading);
    HEARINGS.iter().for_each(|state| family.sample(&[("state", state)], u8::from(*state == present)));
    let named = || reading.carriers.iter().map(|carrier| (carrier.source.to_string(), carrier));
    let mut family = page.gauge("bugle_carrier_up", "Whether the carrier reaches anybody.");
    for (name, carrier) in named() {
        family.sample(&[("carrier", &name)], u8::from(carrier.state != HearingState::Isolated));
    }
    let mut family = page.gauge("bugle_carrier_round_trip_seconds", "The latest round trip of a ping.");
    for (name, carrier) in named() {
        if let Some(round_trip) = carrier.round_trip {
            family.sample(&[("carrier", &name)], seconds(round_trip));
        }
    }
    let mut family = page.gauge("bugle_carrier_peers", "Other servers, by whether they are heard.");
    for (name, carrier) in named() {
        let healthy = healthy_peers(carrier);
        family.sample(&[("carrier", &name), ("state", "healthy")], healthy);
        family.sample(&[("carrier", &name), ("state", "silent")], carrier.peers.len() - healthy);
    }
}

fn carrier_frames(page: &mut Page, reading: &Reading) {
    let named = || reading.carriers.iter().map(|carrier| (carrier.source.to_string(), carrier));
    let mut family = page.counter("bugle_carrier_frames", "Frames sent, and those of others taken in.");
    for (name, carrier) in named() {
        family.sample(&[("carrier", &name), ("direction", "sent")], carrier.sent);
        family.sample(&[("carrier", &name), ("direction", "received")], carrier.received);
    }
    let mut family = page.counter("bugle_carrier_send_failures", "Frames that could not be sent.");
    named().for_each(|(name, carrier)| family.sample(&[("carrier", &name)], carrier.send_failed));
    let mut family = page.counter("bugle_carrier_dropped", "Frames that came and were dropped.");
    for (name, carrier) in named() {
        for (reason, count) in dropped(carrier) {
            family.sample(&[("carrier", &name), ("reason", reason)], count);
        }
    }
    let mut family = page.counter("bugle_carrier_gaps", "Times that frames of another server were missing.");
    named().for_each(|(name, carrier)| family.sample(&[("carrier", &name)], carrier.gaps));
    let mut family = page.counter("bugle_carrier_reconnects", "Times that the connection was made again.");
    named().for_each(|(name, carrier)| family.sample(&[("carrier", &name)], carrier.reconnects));
    page.counter("bugle_hearing_lapses", "Times that hints of other servers may have been missed.")
        .only(reading.hearing.lapses);
}

/// The busiest queues one by one, the others summed. A queue that climbs out of the others takes its count with it, so
/// the counters of `other` may fall.
fn queues(page: &mut Page, queues: &[QueueReading]) {
    let mut shown: Vec<QueueReading> = Vec::with_capacity(queues.len().min(MAX_QUEUES + 1));
    let mut others: Option<QueueReading> = None;
    for queue in queues {
        if shown.len() < MAX_QUEUES && *queue.name != *OTHERS {
            shown.push(queue.clone());
        } else if let Some(sum) = &mut others {
            add(sum, queue);
        } else {
            others = Some(QueueReading { name: OTHERS.into(), ..queue.clone() });
        }
    }
    shown.extend(others);
    let mut family = page.counter("bugle_queue_pushed", "Messages pushed here, by queue.");
    shown.iter().for_each(|q| family.sample(&[("queue", &q.name)], q.pushed));
    let mut family = page.counter("bugle_queue_popped", "Messages delivered here, by queue.");
    shown.iter().for_each(|q| family.sample(&[("queue", &q.name)], q.popped));
    let mut family = page.counter("bugle_queue_acked", "Messages acknowledged here, by queue.");
    shown.iter().for_each(|q| family.sample(&[("queue", &q.name)], q.acked));
    let mut family = page.gauge("bugle_queue_waiting", "Pops parked here, by queue.");
    shown.iter().for_each(|q| family.sample(&[("queue", &q.name)], q.waiting));
    let mut family = page.gauge(
        "bugle_queue_unread_overdue",
        "Unread messages kept beyond the age at which read ones go: some group has fallen behind, and the store grows.",
    );
    shown.iter().for_each(|q| family.sample(&[("queue", &q.name)], q.overdue));
}

fn add(sum: &mut QueueReading, queue: &QueueReading) {
    sum.pushed += queue.pushed;
    sum.popped += queue.popped;
    sum.acked += queue.acked;
    sum.waiting += queue.waiting;
    sum.overdue += queue.overdue;
}

fn seconds(span: Duration) -> f64 {
    span.as_secs_f64()
}

/// `part / whole`, and 0 while there is nothing yet.
pub(crate) fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

#[cfg(test)]
mod tests;
