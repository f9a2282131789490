//! Consumers: claim, check, acknowledge, until a filled queue is empty or the time is up.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::answer::AnswerReader;
use crate::body;
use crate::cli::{AckStyle, PopMode};
use crate::client::{Connection, Post, Target};
use crate::content::Content;
use crate::scan::{self, Malformed};
use crate::stats::{Backoff, Errors, Latency};
use crate::verify::Ledger;

/// What all consumers share.
pub(crate) struct Plan {
    pub(crate) target: Target,
    pub(crate) queue: String,
    pub(crate) namespace: String,
    pub(crate) content: Rc<Content>,
    pub(crate) mode: PopMode,
    pub(crate) ack: AckStyle,
    pub(crate) auto_ack: bool,
    pub(crate) batch: usize,
    pub(crate) lanes: u32,
    pub(crate) claim_partitions: u32,
    pub(crate) deadline: Option<Instant>,
    pub(crate) idle: Duration,
    pub(crate) lease: Duration,
    pub(crate) legacy_status: bool,
}

impl Plan {
    /// The path of a pop; `lane` only matters in direct mode.
    fn path(&self, mode: PopMode, lane: u32, group: &str) -> String {
        let route = match mode {
            PopMode::Direct => format!("/api/v1/pop/queue/{}/partition/p{lane}?", self.queue),
            PopMode::Queue => {
                format!("/api/v1/pop/queue/{}?partitions={}&", self.queue, self.claim_partitions)
            }
            PopMode::Filter => {
                format!("/api/v1/pop?namespace={}&partitions={}&", self.namespace, self.claim_partitions)
            }
        };
        let auto_ack = if self.auto_ack { "&autoAck=true" } else { "" };
        // `all` is asked for by name: servers differ in what they take as the default of a new group.
        format!("{route}consumerGroup={group}&batch={}&wait=false&subscriptionMode=all{auto_ack}", self.batch)
    }
}

/// One consumer group's side of the run.
pub(crate) struct Group {
    pub(crate) name: String,
    pub(crate) ledger: RefCell<Ledger>,
    /// When a message last arrived.
    pub(crate) progress: Cell<Instant>,
    pub(crate) drained: Cell<bool>,
    /// A request without a clear answer may have left a lease behind, which only its end frees.
    lease_may_linger: Cell<bool>,
}

impl Group {
    pub(crate) fn new(name: String, ledger: Ledger) -> Self {
        Self {
            name,
            ledger: RefCell::new(ledger),
            progress: Cell::new(Instant::now()),
            drained: Cell::new(false),
            lease_may_linger: Cell::new(false),
        }
    }
}

/// What one consumer has measured.
pub(crate) struct Counters {
    pub(crate) pop: Latency,
    pub(crate) ack: Latency,
    pub(crate) empty: u64,
    pub(crate) messages: u64,
    pub(crate) errors: Errors,
}

impl Counters {
    pub(crate) fn new() -> Result<Self> {
        Ok(Self {
            pop: Latency::new()?,
            ack: Latency::new()?,
            empty: 0,
            messages: 0,
            errors: Errors::default(),
        })
    }

    pub(crate) fn add(&mut self, other: &Self) -> Result<()> {
        self.pop.add(&other.pop)?;
        self.ack.add(&other.ack)?;
        self.empty += other.empty;
        self.messages += other.messages;
        self.errors.add(&other.errors);
        Ok(())
    }
}

/// What a pop brought.
enum Popped {
    Messages,
    Empty,
    Failed,
}

struct Consumer {
    plan: Rc<Plan>,
    group: Rc<Group>,
    connection: Connection,
    ack: Post,
    counters: Counters,
    /// First message of each run of one lane in the answer, for an ack that fails.
    claimed: Vec<(u32, u64)>,
}

/// One connection of a group; `index` of `of` decides which lanes it asks for in direct mode.
pub(crate) async fn consume(plan: Rc<Plan>, group: Rc<Group>, index: usize, of: usize) -> Result<Counters> {
    let mut consumer = Consumer {
        connection: plan.target.connection(),
        ack: plan.target.post("/api/v1/ack/batch"),
        counters: Counters::new()?,
        claimed: Vec::new(),
        plan,
        group,
    };
    let plan = Rc::clone(&consumer.plan);
    let lanes: Vec<u32> = own_lanes(index, of, plan.lanes);
    let mut request = plan.target.get(&plan.path(plan.mode, lanes[0], &consumer.group.name));
    let (mut backoff, mut turn) = (Backoff::default(), 0usize);
    while !consumer.finished() {
        if plan.mode == PopMode::Direct {
            let Some(lane) = consumer.next_lane(&lanes, &mut turn) else { break };
            request = plan.target.get(&plan.path(plan.mode, lane, &consumer.group.name));
        }
        match consumer.cycle(&request).await {
            Popped::Messages => backoff.reset(),
            Popped::Empty => backoff.wait(Duration::from_micros(500), Duration::from_millis(20)).await,
            Popped::Failed => backoff.wait(Duration::from_millis(10), Duration::from_secs(1)).await,
        }
    }
    Ok(consumer.counters)
}

/// Asks once more after everything was received: what comes now was delivered twice. False if that got no clear answer.
pub(crate) async fn sweep(plan: Rc<Plan>, group: Rc<Group>) -> Result<(Counters, bool)> {
    const TRIES: u32 = 100;
    let mut consumer = Consumer {
        connection: plan.target.connection(),
        ack: plan.target.post("/api/v1/ack/batch"),
        counters: Counters::new()?,
        claimed: Vec::new(),
        plan: Rc::clone(&plan),
        group,
    };
    let mode = if plan.mode == PopMode::Filter { PopMode::Filter } else { PopMode::Queue };
    let request = plan.target.get(&plan.path(mode, 0, &consumer.group.name));
    for _ in 0..TRIES {
        match consumer.cycle(&request).await {
            Popped::Messages => {}
            Popped::Empty => return Ok((consumer.counters, true)),
            Popped::Failed => break,
        }
    }
    Ok((consumer.counters, false))
}

/// Every `of`-th lane, or a shared one when there are fewer lanes than connections.
fn own_lanes(index: usize, of: usize, lanes: u32) -> Vec<u32> {
    let count = lanes as usize;
    if count < of { vec![(index % count) as u32] } else { (index as u32..lanes).step_by(of).collect() }
}

impl Consumer {
    fn finished(&self) -> bool {
        if self.group.drained.get() || self.plan.deadline.is_some_and(|d| Instant::now() >= d) {
            return true;
        }
        if self.group.ledger.borrow().complete() {
            self.group.drained.set(true);
            return true;
        }
        false
    }

    /// The next lane that has not ended; `None` once all have and nothing in them was jumped over.
    fn next_lane(&self, lanes: &[u32], turn: &mut usize) -> Option<u32> {
        let ledger = self.group.ledger.borrow();
        for _ in 0..lanes.len() {
            let lane = lanes[*turn % lanes.len()];
            *turn += 1;
            if !ledger.lane_complete(lane) {
                return Some(lane);
            }
        }
        None
    }

    /// One pop and, unless the server commits by itself, the ack of what it brought.
    async fn cycle(&mut self, request: &[u8]) -> Popped {
        let sent_after = self.group.ledger.borrow().answers();
        let start = Instant::now();
        let popped = self.pop(request, sent_after, start).await;
        match popped {
            Popped::Messages => {
                if !self.plan.auto_ack {
                    self.acknowledge().await;
                }
                self.group.progress.set(Instant::now());
            }
            Popped::Empty => {
                self.counters.empty += 1;
                let linger = if self.group.lease_may_linger.get() { self.plan.lease } else { Duration::ZERO };
                if self.group.progress.get().elapsed() > self.plan.idle + linger {
                    self.group.drained.set(true);
                }
            }
            Popped::Failed => self.group.lease_may_linger.set(true),
        }
        popped
    }

    async fn pop(&mut self, request: &[u8], sent_after: u64, start: Instant) -> Popped {
        let response = match self.connection.call(request).await {
            Ok(response) => response,
            Err(failure) => {
                self.counters.errors.failure(failure);
                return Popped::Failed;
            }
        };
        match response.status {
            200 => {}
            204 => return Popped::Empty,
            status => {
                self.counters.errors.status(status);
                return Popped::Failed;
            }
        }
        let time = start.elapsed();
        let mut ledger = self.group.ledger.borrow_mut();
        let answer = ledger.answer(sent_after);
        let out = self.ack.begin();
        self.claimed.clear();
        body::begin_ack(out);
        let mut reader = AnswerReader {
            content: &self.plan.content,
            ack: self.plan.ack,
            auto_ack: self.plan.auto_ack,
            ledger: &mut ledger,
            answer,
            out,
            claimed: &mut self.claimed,
        };
        let Ok(count) = reader.read(response.body) else {
            self.counters.errors.count("malformed pop answer", 1);
            ledger.unreadable();
            // What was booked before the fault is never acknowledged and may come again.
            self.claimed.iter().for_each(|(lane, number)| ledger.ack_unclear(*lane, *number));
            return Popped::Failed;
        };
        if count == 0 {
            if !self.plan.legacy_status {
                self.counters.errors.count("200 without messages", 1);
            }
            return Popped::Empty;
        }
        body::end_ack(self.ack.body(), &self.group.name);
        self.ack.finish();
        self.counters.pop.record(time);
        self.counters.messages += count;
        Popped::Messages
    }

    async fn acknowledge(&mut self) {
        let start = Instant::now();
        let mut clear = false;
        match self.connection.call(self.ack.bytes()).await {
            Ok(response) if response.status == 200 => match scan::ack_answer(response.body) {
                Ok((accepted, 0)) if accepted > 0 => clear = true,
                Ok((_, refused)) => self.counters.errors.count("ack refused", refused.max(1)),
                Err(Malformed) => self.counters.errors.count("malformed ack answer", 1),
            },
            Ok(response) => self.counters.errors.status(response.status),
            Err(failure) => self.counters.errors.failure(failure),
        }
        self.counters.ack.record(start.elapsed());
        let mut ledger = self.group.ledger.borrow_mut();
        for (lane, number) in &self.claimed {
            if clear {
                ledger.ack_confirmed(*lane);
            } else {
                ledger.ack_unclear(*lane, *number);
            }
        }
        if !clear {
            self.group.lease_may_linger.set(true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_lane_has_a_connection() {
        for (of, lanes) in [(1, 1), (3, 10), (10, 3), (4, 4)] {
            let mut covered: Vec<u32> = (0..of).flat_map(|i| own_lanes(i, of, lanes)).collect();
            covered.sort_unstable();
            covered.dedup();
            assert_eq!(covered.len(), lanes as usize, "{of} connections, {lanes} lanes");
        }
    }
}
