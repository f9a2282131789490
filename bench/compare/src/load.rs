//! The closed loop for systems whose client lives in this process: each connection sends its next request when the last
//! one is answered. What comes out is compared with what went in.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bugle_bench::{Content, cpu, own_cpu};
use tokio::task::LocalSet;

use crate::peer::{Clients, Measured, Producer, Shape, Window};

/// Size of every payload, as JSON.
pub(crate) const PAYLOAD: usize = 256;
/// Stock is filled up with large batches: how it came in is not what is measured then.
const FILL: Shape = Shape { batch: 100, connections: 8 };
/// Pause of a consumer that found nothing.
const EMPTY_PAUSE: Duration = Duration::from_millis(1);
/// A queue that gives nothing for so long, although it must have something, has lost it.
const STALL: Duration = Duration::from_secs(5);

/// What was sent to one queue and what came back.
pub(crate) struct Books {
    content: Content,
    sent: Cell<u64>,
    seen: RefCell<Vec<bool>>,
    damaged: Cell<u64>,
    doubled: Cell<u64>,
}

impl Books {
    pub(crate) fn new() -> Result<Self> {
        Ok(Self {
            content: Content::new(fastrand::u64(..), PAYLOAD)?,
            sent: Cell::new(0),
            seen: RefCell::default(),
            damaged: Cell::new(0),
            doubled: Cell::new(0),
        })
    }

    /// Writes the next payloads into the buffers.
    fn fill(&self, payloads: &mut [Vec<u8>]) {
        let first = self.sent.replace(self.sent.get() + payloads.len() as u64);
        for (number, payload) in (first..).zip(payloads) {
            payload.clear();
            self.content.write(payload, 0, number);
        }
    }

    fn check(&self, payload: &[u8]) {
        match self.content.identify(payload) {
            Some(message) if message.intact && message.number < self.sent.get() => {
                let mut seen = self.seen.borrow_mut();
                let place = message.number as usize;
                if seen.len() <= place {
                    seen.resize(self.sent.get() as usize, false);
                }
                if std::mem::replace(&mut seen[place], true) {
                    self.doubled.set(self.doubled.get() + 1);
                }
            }
            _ => self.damaged.set(self.damaged.get() + 1),
        }
    }

    /// A system that gives back something else than it got is not compared with.
    fn verdict(&self) -> Result<()> {
        let (damaged, doubled) = (self.damaged.get(), self.doubled.get());
        ensure!(damaged == 0 && doubled == 0, "{damaged} messages came back damaged, {doubled} twice");
        Ok(())
    }
}

/// CPU counters at the start of a window.
pub(crate) struct Clock {
    start: Instant,
    server: bugle_bench::CpuSnapshot,
    own: u64,
    pids: Vec<u32>,
}

impl Clock {
    pub(crate) fn start(pids: &[u32]) -> Result<Self> {
        Ok(Self { server: cpu(pids)?, own: own_cpu(), pids: pids.to_vec(), start: Instant::now() })
    }

    /// What was measured until now, or until `end`.
    pub(crate) fn stop(&self, messages: u64, end: Option<Instant>) -> Result<Measured> {
        let seconds = end.unwrap_or_else(Instant::now).saturating_duration_since(self.start).as_secs_f64();
        let client_cpu = own_cpu().saturating_sub(self.own);
        Ok(Measured {
            messages,
            seconds,
            server_cpu: cpu(&self.pids)?.since(&self.server).iter().sum(),
            client_cpu,
        })
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Phase {
    WarmUp,
    Measure,
    Stop,
}

/// Pushes for the window.
pub(crate) async fn push(
    clients: &dyn Clients,
    pids: &[u32],
    books: &Rc<Books>,
    shape: Shape,
    window: Window,
) -> Result<Measured> {
    let (phase, count) = (Rc::new(Cell::new(Phase::WarmUp)), Rc::new(Cell::new(0u64)));
    let local = LocalSet::new();
    let mut tasks = Vec::new();
    for _ in 0..shape.connections {
        let mut producer = local.run_until(clients.producer()).await?;
        let (phase, count, books) = (Rc::clone(&phase), Rc::clone(&count), Rc::clone(books));
        tasks.push(local.spawn_local(async move {
            let mut payloads = vec![Vec::new(); shape.batch];
            while phase.get() != Phase::Stop {
                books.fill(&mut payloads);
                producer.push(&payloads).await?;
                if phase.get() == Phase::Measure {
                    count.set(count.get() + shape.batch as u64);
                }
            }
            anyhow::Ok(())
        }));
    }
    local
        .run_until(async {
            tokio::time::sleep(window.warmup).await;
            let clock = Clock::start(pids)?;
            phase.set(Phase::Measure);
            tokio::time::sleep(window.measured).await;
            let measured = clock.stop(count.get(), None);
            phase.set(Phase::Stop);
            for task in tasks {
                task.await?.context("push")?;
            }
            measured
        })
        .await
}

/// Fills the queue up to `stock` messages, then takes them out until it is empty or the window is over.
pub(crate) async fn pop(
    clients: &dyn Clients,
    pids: &[u32],
    books: &Rc<Books>,
    shape: Shape,
    window: Window,
    stock: u64,
) -> Result<Measured> {
    fill_up(clients, books, stock).await?;
    let local = LocalSet::new();
    let mut consumers = Vec::new();
    for _ in 0..shape.connections {
        consumers.push(local.run_until(clients.consumer()).await?);
    }
    let clock = Clock::start(pids)?;
    let deadline = Instant::now() + window.measured;
    // The number taken, and when the last of them came.
    let progress = Rc::new(Cell::new((0u64, Instant::now())));
    let mut tasks = Vec::new();
    for mut consumer in consumers {
        let (books, progress) = (Rc::clone(books), Rc::clone(&progress));
        tasks.push(local.spawn_local(async move {
            let left = || progress.get().0 < books.sent.get();
            while Instant::now() < deadline && left() {
                let taken = consumer.take(shape.batch, &mut |payload| books.check(payload)).await?;
                if taken > 0 {
                    progress.set((progress.get().0 + taken as u64, Instant::now()));
                } else {
                    ensure!(progress.get().1.elapsed() < STALL, "nothing comes, and not everything has come");
                    tokio::time::sleep(EMPTY_PAUSE).await;
                }
            }
            anyhow::Ok(())
        }));
    }
    let ended = local
        .run_until(async {
            for task in tasks {
                task.await?.context("pop")?;
            }
            anyhow::Ok(())
        })
        .await;
    let (taken, last) = progress.get();
    let measured = clock.stop(taken, Some(last))?;
    ended?;
    books.verdict()?;
    Ok(measured)
}

async fn fill_up(clients: &dyn Clients, books: &Rc<Books>, stock: u64) -> Result<()> {
    if books.sent.get() >= stock {
        return Ok(());
    }
    let local = LocalSet::new();
    let mut tasks = Vec::new();
    for _ in 0..FILL.connections {
        let producer = local.run_until(clients.producer()).await?;
        tasks.push(local.spawn_local(fill_one(producer, Rc::clone(books), stock)));
    }
    local
        .run_until(async {
            for task in tasks {
                task.await?.context("fill")?;
            }
            Ok(())
        })
        .await
}

async fn fill_one(mut producer: Box<dyn Producer>, books: Rc<Books>, stock: u64) -> Result<()> {
    let mut payloads = vec![Vec::new(); FILL.batch];
    while books.sent.get() < stock {
        books.fill(&mut payloads);
        producer.push(&payloads).await?;
    }
    Ok(())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn sent(books: &Books, count: usize) -> Vec<Vec<u8>> {
        let mut payloads = vec![Vec::new(); count];
        books.fill(&mut payloads);
        payloads
    }

    #[test]
    fn what_comes_once_and_whole_is_right() {
        let books = Books::new().unwrap();
        let payloads = sent(&books, 3);
        assert!(payloads.iter().all(|p| p.len() == PAYLOAD));
        payloads.iter().for_each(|p| books.check(p));
        books.verdict().unwrap();
    }

    #[test]
    fn what_comes_twice_damaged_or_unasked_is_named() {
        let books = Books::new().unwrap();
        let payloads = sent(&books, 2);
        books.check(&payloads[0]);
        books.check(&payloads[0]);
        let mut damaged = payloads[1].clone();
        damaged[100] ^= 1;
        books.check(&damaged);
        books.check(b"{}");
        let error = books.verdict().unwrap_err().to_string();
        assert_eq!(error, "2 messages came back damaged, 1 twice");
    }
}
