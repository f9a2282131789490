//! The load of the growth curves: pushes for a window, then pops of exactly what was pushed, so that a server ends each round as it began it.
//! Contents are not checked here (`pop` does that); a payload may so be as small as two bytes.

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::Result;
use tokio::task::JoinSet;

use crate::answer::{AckItems, each_receipt};
use crate::cli::{AckStyle, Spread};
use crate::client::{Connection, Post, Target};
use crate::ids::{Stamps, write_uuid};
use crate::stats::{Backoff, Errors, Latency};
use crate::{body, scan};

/// Payloads are slices of this many random characters.
const TEXT: usize = 1 << 20;
/// Lanes follow each other in steps of this: a prime, so that all are visited and none is near the one before.
const STRIDE: u64 = 7_368_787;
/// A group that gets nothing for this long although something is owed has a server that does not deliver.
const SILENCE: Duration = Duration::from_secs(5);

/// What pushes and pops of one queue share.
pub(crate) struct Load {
    pub(crate) target: Target,
    pub(crate) queue: String,
    lanes: u32,
    payload: usize,
    batch: usize,
    connections: usize,
    text: Vec<u8>,
    /// Counts messages, for their ids.
    number: Cell<u64>,
    /// Counts visits of lanes.
    visit: Cell<u64>,
}

/// What a window gave.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) messages: u64,
    pub(crate) seconds: f64,
    pub(crate) latency: Latency,
    pub(crate) errors: Errors,
    /// Messages owed and not delivered when the time was over.
    pub(crate) undelivered: u64,
}

/// Pops of some groups.
#[derive(Debug, Clone)]
pub(crate) struct Pops {
    pub(crate) groups: Vec<String>,
    /// Messages each of them is to get.
    pub(crate) owed: u64,
    /// Lanes per pop.
    pub(crate) claim: u32,
    /// Messages per pop.
    pub(crate) batch: usize,
    pub(crate) auto_ack: bool,
    /// Where a new group begins: `all` or `new`.
    pub(crate) mode: &'static str,
    /// The end, even if something is still owed.
    pub(crate) longest: Duration,
}

/// One group while it is read.
struct Reading {
    pops: Pops,
    group: String,
    got: Cell<u64>,
    progress: Cell<Instant>,
    deadline: Instant,
}

struct Counts {
    latency: Latency,
    messages: u64,
    errors: Errors,
}

impl Load {
    pub(crate) fn new(
        target: Target,
        queue: &str,
        lanes: u32,
        message: (usize, usize),
        connections: usize,
    ) -> Rc<Self> {
        let (payload, batch) = message;
        let text = (0..TEXT + payload).map(|_| fastrand::alphanumeric() as u8).collect();
        let (number, visit) = (Cell::new(0), Cell::new(0));
        Rc::new(Self {
            target,
            queue: queue.to_owned(),
            lanes,
            payload,
            batch,
            connections,
            text,
            number,
            visit,
        })
    }

    fn next_lane(&self) -> u32 {
        let visit = self.visit.replace(self.visit.get() + 1);
        (visit.wrapping_mul(STRIDE) % u64::from(self.lanes)) as u32
    }

    /// Puts the next messages into a request.
    fn fill(&self, post: &mut Post, stamps: &mut Stamps, spread: Spread, items: u64) {
        let out = post.begin();
        let stamp = stamps.reserve(items);
        let first = self.number.replace(self.number.get() + items);
        let mut lane = self.next_lane();
        body::begin_push(out);
        for item in 0..items {
            let id = |out: &mut Vec<u8>| {
                write_uuid(out, stamp + item, (first + item).wrapping_mul(0x9e37_79b9_7f4a_7c15))
            };
            body::push_item_of(out, &self.queue, lane, id, |out| self.write_payload(out));
            if spread == Spread::Item {
                lane = self.next_lane();
            }
        }
        body::end_push(out);
        post.finish();
    }

    /// A JSON string of exactly the asked size.
    fn write_payload(&self, out: &mut Vec<u8>) {
        let start = fastrand::usize(..TEXT);
        out.push(b'"');
        out.extend_from_slice(&self.text[start..start + self.payload.saturating_sub(2)]);
        out.push(b'"');
    }

    /// Pushes for `seconds`, at most `most` messages.
    pub(crate) async fn push(self: &Rc<Self>, spread: Spread, seconds: f64, most: u64) -> Result<Done> {
        let start = Instant::now();
        let (deadline, left) = (start + Duration::from_secs_f64(seconds), Rc::new(Cell::new(most)));
        let mut tasks = JoinSet::new();
        for _ in 0..self.connections {
            tasks.spawn_local(Box::pin(produce(Rc::clone(self), spread, deadline, Rc::clone(&left))));
        }
        gathered(tasks, start, None).await
    }

    /// Pops and acknowledges until every group has what it is owed.
    pub(crate) async fn pop(self: &Rc<Self>, pops: &Pops) -> Result<Done> {
        let start = Instant::now();
        let readings: Vec<Rc<Reading>> = pops
            .groups
            .iter()
            .map(|group| Reading {
                pops: pops.clone(),
                group: group.clone(),
                got: Cell::new(0),
                progress: Cell::new(start),
                deadline: start + pops.longest,
            })
            .map(Rc::new)
            .collect();
        let mut tasks = JoinSet::new();
        for index in 0..self.connections.max(readings.len()) {
            let reading = Rc::clone(&readings[index % readings.len()]);
            tasks.spawn_local(Box::pin(consume(Rc::clone(self), reading)));
        }
        gathered(tasks, start, Some(&readings)).await
    }
}

/// The sum of what all connections did. Pops end with the last message, not with the look that finds nothing more.
async fn gathered(
    mut tasks: JoinSet<Result<Counts>>,
    start: Instant,
    readings: Option<&[Rc<Reading>]>,
) -> Result<Done> {
    let (mut messages, mut latency, mut errors) = (0, Latency::new()?, Errors::default());
    while let Some(counts) = tasks.join_next().await {
        let counts = counts??;
        messages += counts.messages;
        latency.add(&counts.latency)?;
        errors.add(&counts.errors);
    }
    let (mut end, mut undelivered) = (Instant::now(), 0);
    if let Some(readings) = readings {
        end = readings.iter().map(|r| r.progress.get()).max().unwrap_or(end);
        undelivered = readings.iter().map(|r| r.pops.owed.saturating_sub(r.got.get())).sum();
    }
    Ok(Done { messages, seconds: (end - start).as_secs_f64(), latency, errors, undelivered })
}

async fn produce(load: Rc<Load>, spread: Spread, deadline: Instant, left: Rc<Cell<u64>>) -> Result<Counts> {
    let mut counts = Counts { latency: Latency::new()?, messages: 0, errors: Errors::default() };
    let (mut connection, mut post) = (load.target.connection(), load.target.post("/api/v1/push"));
    let (mut stamps, mut backoff) = (Stamps::default(), Backoff::default());
    while left.get() > 0 && Instant::now() < deadline {
        let items = left.get().min(load.batch as u64);
        left.set(left.get() - items);
        load.fill(&mut post, &mut stamps, spread, items);
        let start = Instant::now();
        match push_once(&mut connection, &post).await {
            Ok(queued) => {
                counts.latency.record(start.elapsed());
                counts.messages += queued;
                counts.errors.count("item not queued", items.saturating_sub(queued));
                backoff.reset();
            }
            Err(why) => {
                counts.errors.count(&why, 1);
                backoff.wait(Duration::from_millis(10), Duration::from_secs(1)).await;
            }
        }
    }
    Ok(counts)
}

async fn push_once(connection: &mut Connection, post: &Post) -> Result<u64, String> {
    match connection.call(post.bytes()).await {
        Ok(response) if response.status == 201 => {
            scan::push_answer(response.body).map(|a| a.queued).map_err(|_| "malformed push answer".to_owned())
        }
        Ok(response) => Err(format!("push: http_{}", response.status)),
        Err(failure) => Err(format!("push: {}", failure.kind())),
    }
}

impl Reading {
    fn over(&self) -> bool {
        let silent = self.progress.get().elapsed() > SILENCE;
        self.got.get() >= self.pops.owed || silent || Instant::now() >= self.deadline
    }

    fn path(&self, queue: &str) -> String {
        let Pops { claim, batch, auto_ack, mode, .. } = &self.pops;
        let auto_ack = if *auto_ack { "&autoAck=true" } else { "" };
        let group = &self.group;
        format!(
            "/api/v1/pop/queue/{queue}?partitions={claim}&consumerGroup={group}&batch={batch}&wait=false&subscriptionMode={mode}{auto_ack}"
        )
    }
}

async fn consume(load: Rc<Load>, reading: Rc<Reading>) -> Result<Counts> {
    let mut counts = Counts { latency: Latency::new()?, messages: 0, errors: Errors::default() };
    let request = load.target.get(&reading.path(&load.queue));
    let (mut connection, mut ack) = (load.target.connection(), load.target.post("/api/v1/ack/batch"));
    let mut backoff = Backoff::default();
    while !reading.over() {
        let start = Instant::now();
        match pop_once(&mut connection, &request, &mut ack, &reading).await {
            Ok(0) => backoff.wait(Duration::from_micros(500), Duration::from_millis(10)).await,
            Ok(messages) => {
                counts.latency.record(start.elapsed());
                counts.messages += messages;
                backoff.reset();
            }
            Err(why) => {
                counts.errors.count(&why, 1);
                backoff.wait(Duration::from_millis(10), Duration::from_secs(1)).await;
            }
        }
    }
    Ok(counts)
}

/// One pop and its ack; the number of messages.
async fn pop_once(
    connection: &mut Connection,
    request: &[u8],
    ack: &mut Post,
    reading: &Reading,
) -> Result<u64, String> {
    let style = (!reading.pops.auto_ack).then_some(AckStyle::All);
    let messages = receive(connection, request, ack, &reading.group, style).await?;
    if messages > 0 {
        reading.got.set(reading.got.get() + messages);
        if !reading.pops.auto_ack {
            acknowledge(connection, ack).await?;
        }
        reading.progress.set(Instant::now());
    }
    Ok(messages)
}

/// Pops and prepares the ack, unless the server commits by itself.
pub(super) async fn receive(
    connection: &mut Connection,
    request: &[u8],
    ack: &mut Post,
    group: &str,
    style: Option<AckStyle>,
) -> Result<u64, String> {
    let response = connection.call(request).await.map_err(|failure| format!("pop: {}", failure.kind()))?;
    match response.status {
        200 => {}
        204 => return Ok(0),
        status => return Err(format!("pop: http_{status}")),
    }
    let (mut messages, out) = (0, ack.begin());
    body::begin_ack(out);
    let mut items = AckItems::new(style.unwrap_or(AckStyle::Last), out);
    let read = each_receipt(response.body, style.is_none(), |receipt, _, _| {
        messages += 1;
        items.add(receipt);
    });
    read.map_err(|_| "malformed pop answer".to_owned())?;
    items.end();
    body::end_ack(ack.body(), group);
    ack.finish();
    Ok(messages)
}

/// Sends the ack that was prepared.
pub(super) async fn acknowledge(connection: &mut Connection, ack: &Post) -> Result<(), String> {
    match connection.call(ack.bytes()).await {
        Ok(response) if response.status == 200 => match scan::ack_answer(response.body) {
            Ok((_, 0)) => Ok(()),
            Ok((_, refused)) => Err(format!("ack: {refused} refused")),
            Err(_) => Err("malformed ack answer".to_owned()),
        },
        Ok(response) => Err(format!("ack: http_{}", response.status)),
        Err(failure) => Err(format!("ack: {}", failure.kind())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(lanes: u32, payload: usize) -> Rc<Load> {
        let target = Target::new("http://127.0.0.1:1", None, Duration::from_secs(1)).unwrap();
        Load::new(target, "q", lanes, (payload, 10), 1)
    }

    #[test]
    fn every_lane_is_visited_and_neighbours_are_far_apart() {
        let load = load(1000, 16);
        let visits: Vec<u32> = (0..1000).map(|_| load.next_lane()).collect();
        assert!(visits.windows(2).all(|pair| pair[0].abs_diff(pair[1]) > 100));
        let mut lanes = visits;
        lanes.sort_unstable();
        assert!(lanes.iter().copied().eq(0..1000));
    }

    #[test]
    fn payloads_have_exactly_the_asked_size_and_ids_differ() {
        let load = load(10, 16);
        let mut post = load.target.post("/");
        load.fill(&mut post, &mut Stamps::default(), Spread::Item, 3);
        let text = String::from_utf8(post.bytes().to_vec()).unwrap();
        let body: serde_json::Value = serde_json::from_str(text.split_once("\r\n\r\n").unwrap().1).unwrap();
        let items = body["items"].as_array().unwrap();
        assert_eq!(items.len(), 3);
        for item in items {
            assert_eq!(item["payload"].to_string().len(), 16);
        }
        assert_ne!(items[0]["transactionId"], items[1]["transactionId"]);
        assert_ne!(items[0]["partition"], items[1]["partition"]);
    }
}
