//! Fills a queue before it is drained. Each lane belongs to one connection, so the order inside it is known.

use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::client::{Connection, Post, Target};
use crate::content::Content;
use crate::ids::Stamps;
use crate::stats::Backoff;
use crate::verify::share;
use crate::{body, scan};

/// Connections used to fill; more do not help on the machines this runs on.
const CONNECTIONS: u32 = 8;
/// Tries per request. The body stays the same, so a server that stored it the first time reports duplicates.
const TRIES: u32 = 20;

/// What to fill a queue with.
pub(crate) struct Fill {
    pub(crate) target: Target,
    pub(crate) queue: String,
    pub(crate) content: Rc<Content>,
    pub(crate) lanes: u32,
    pub(crate) messages: u64,
    /// Consecutive messages of one lane in a request.
    pub(crate) run: usize,
    /// Most messages in a request.
    pub(crate) batch: usize,
    pub(crate) legacy_status: bool,
}

/// Creates the queue with its namespace and lease length.
pub(crate) async fn configure(
    target: &Target,
    queue: &str,
    namespace: &str,
    lease_seconds: u32,
) -> Result<()> {
    let mut post = target.post("/api/v1/configure");
    let body = serde_json::json!({
        "queue": queue, "namespace": namespace, "options": { "leaseTime": lease_seconds },
    });
    post.begin().extend_from_slice(body.to_string().as_bytes());
    post.finish();
    let mut connection = target.connection();
    let response = match connection.call(post.bytes()).await {
        Ok(response) => response,
        Err(failure) => bail!("configure: {}", failure.kind()),
    };
    ensure!(matches!(response.status, 200 | 201), "configure: HTTP status {}", response.status);
    Ok(())
}

/// Pushes all messages; any that cannot be stored ends the run, because nothing could be verified then.
pub(crate) async fn fill(fill: Fill) -> Result<()> {
    let fill = Rc::new(fill);
    let connections = CONNECTIONS.min(fill.lanes);
    let tasks: Vec<_> = (0..connections)
        .map(|index| tokio::task::spawn_local(Box::pin(fill_lanes(Rc::clone(&fill), index, connections))))
        .collect();
    for task in tasks {
        task.await?.context("preload")?;
    }
    Ok(())
}

struct Lane {
    index: u32,
    next: u64,
    total: u64,
}

async fn fill_lanes(fill: Rc<Fill>, index: u32, connections: u32) -> Result<()> {
    let mut lanes: Vec<Lane> = (index..fill.lanes)
        .step_by(connections as usize)
        .map(|lane| Lane { index: lane, next: 0, total: share(lane, fill.lanes, fill.messages) })
        .filter(|lane| lane.total > 0)
        .collect();
    let (mut connection, mut post) = (fill.target.connection(), fill.target.post("/api/v1/push"));
    let (mut stamps, mut at) = (Stamps::default(), 0usize);
    while !lanes.is_empty() {
        let out = post.begin();
        let mut stamp = stamps.reserve(fill.batch as u64);
        let mut room = fill.batch as u64;
        body::begin_push(out);
        while room > 0 && !lanes.is_empty() {
            at %= lanes.len();
            let lane = &mut lanes[at];
            let count = (lane.total - lane.next).min(fill.run as u64).min(room);
            for number in lane.next..lane.next + count {
                body::push_item(out, &fill.queue, &fill.content, (lane.index, number), stamp);
                stamp += 1;
            }
            room -= count;
            lane.next += count;
            if lane.next == lane.total {
                lanes.swap_remove(at);
            } else {
                at += 1;
            }
        }
        body::end_push(out);
        post.finish();
        send(&fill, &mut connection, &post, fill.batch as u64 - room).await?;
    }
    Ok(())
}

async fn send(fill: &Fill, connection: &mut Connection, post: &Post, count: u64) -> Result<()> {
    let mut backoff = Backoff::default();
    let mut last = String::new();
    for _ in 0..TRIES {
        match connection.call(post.bytes()).await {
            Ok(response) if response.status == 201 || (fill.legacy_status && response.status == 200) => {
                match scan::push_answer(response.body) {
                    Ok(answer) if answer.queued + answer.duplicate == count && answer.other == 0 => {
                        return Ok(());
                    }
                    Ok(answer) => last = format!("{count} items were answered with {answer:?}"),
                    Err(_) => last = "malformed push answer".to_owned(),
                }
            }
            Ok(response) => last = format!("HTTP status {}", response.status),
            Err(failure) => last = failure.kind().to_owned(),
        }
        backoff.wait(Duration::from_millis(20), Duration::from_secs(2)).await;
    }
    bail!("given up after {TRIES} tries: {last}")
}
