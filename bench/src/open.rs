//! `open`: pushes at a fixed rate, timed from the moment each was due.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use anyhow::Result;
use serde_json::{Value, json};

use crate::cli::Common;
use crate::cli_open::OpenArgs;
use crate::client::{Connection, Post, Target};
use crate::content::Content;
use crate::ids::Stamps;
use crate::offer::{Fate, Offered, Sender, offer};
use crate::stats::round;
use crate::{Outcome, body, probe, scan};

/// The status of a server that has too much to do.
const TOO_MANY: u16 = 429;

/// What all connections share.
pub(crate) struct Pushes {
    target: Target,
    queue: String,
    content: Content,
    batch: usize,
    lanes: u32,
    number: Cell<u64>,
    queued: Cell<u64>,
}

impl Pushes {
    /// Messages sent so far, and how many of them the server has said to be stored.
    pub(crate) fn sent_and_queued(&self) -> (u64, u64) {
        (self.number.get(), self.queued.get())
    }

    pub(crate) fn new(common: &Common) -> Result<Rc<Self>> {
        let timeout = Duration::from_secs_f64(common.timeout_seconds);
        Ok(Rc::new(Self {
            target: Target::new(&common.url, common.token.as_deref(), timeout)?,
            queue: common.queue_name()?,
            content: Content::new(fastrand::u64(..), common.payload_bytes)?,
            batch: common.batch,
            lanes: common.partitions,
            number: Cell::new(0),
            queued: Cell::new(0),
        }))
    }

    pub(crate) fn senders(self: &Rc<Self>, connections: usize) -> Vec<PushSender> {
        let sender = |index: usize| PushSender {
            connection: self.target.connection(),
            post: self.target.post("/api/v1/push"),
            stamps: Stamps::default(),
            lane: index as u32 % self.lanes,
            pushes: Rc::clone(self),
        };
        (0..connections).map(sender).collect()
    }
}

/// A connection that pushes the next batch to the next lane.
pub(crate) struct PushSender {
    pushes: Rc<Pushes>,
    connection: Connection,
    post: Post,
    stamps: Stamps,
    lane: u32,
}

impl Sender for PushSender {
    async fn send(&mut self) -> Fate {
        let Pushes { queue, content, batch, lanes, number, queued, .. } = &*self.pushes;
        let first = number.replace(number.get() + *batch as u64);
        let stamp = self.stamps.reserve(*batch as u64);
        let out = self.post.begin();
        body::begin_push(out);
        for item in 0..*batch as u64 {
            body::push_item(out, queue, content, (self.lane, first + item), stamp + item);
        }
        body::end_push(out);
        self.post.finish();
        self.lane = (self.lane + 1) % lanes;
        match self.connection.call(self.post.bytes()).await {
            Ok(response) if response.status == 201 => match scan::push_answer(response.body) {
                Ok(answer) if answer.queued == *batch as u64 => {
                    queued.set(queued.get() + answer.queued);
                    Fate::Done(answer.queued)
                }
                Ok(answer) => Fate::Failed(format!("not queued: {answer:?}")),
                Err(_) => Fate::Failed("malformed push answer".to_owned()),
            },
            Ok(response) if response.status == TOO_MANY => Fate::Refused,
            Ok(response) => Fate::Failed(format!("http_{}", response.status)),
            Err(failure) => Fate::Failed(failure.kind().to_owned()),
        }
    }
}

/// Runs the command.
pub(crate) async fn run(args: OpenArgs) -> Result<Outcome> {
    args.check()?;
    let common = &args.common;
    let pushes = Pushes::new(common)?;
    let fdatasync = probe::fdatasync_median_ms(&common.fsync_dir)?;
    let before = probe::cpu(&common.watched())?;
    let requests = args.rate / common.batch as f64;
    let offered =
        offer(pushes.senders(common.connections), requests, args.warmup_seconds, args.seconds).await?;
    let after = probe::cpu(&common.watched())?;
    let mut json = json!({
        "command": "open",
        "url": common.url, "queue": pushes.queue, "batch": common.batch, "connections": common.connections,
        "partitions": common.partitions, "payload_bytes": common.payload_bytes, "rate": args.rate,
        "seconds": args.seconds, "warmup_seconds": args.warmup_seconds, "coordinated_omission_corrected": true,
        // Warm-up included, so per message it is a little too much.
        "processes": probe::usage(&before, &after, offered.messages),
        "fdatasync_ms": round(fdatasync),
    });
    if let (Value::Object(report), Value::Object(results)) = (&mut json, report(&offered)) {
        report.extend(results);
    }
    Ok(Outcome { json, ok: offered.messages > 0, table: None })
}

/// The part of a report that a window gives.
pub(crate) fn report(offered: &Offered) -> Value {
    json!({
        "messages": offered.messages,
        "msgs_per_s": round(offered.messages as f64 / offered.seconds),
        "due_to_answer_ms": offered.latency.json(),
        "refused_requests": offered.refused,
        "unsent_requests": offered.unsent,
        "errors": offered.errors.json(),
    })
}
