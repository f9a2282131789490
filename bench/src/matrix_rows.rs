//! What can make a message due on one server while somebody waits for it on another: one round of each.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::cli_servers::MatrixArgs;
use crate::launch::{Place, Server};
use crate::matrix_rig::{Carrier, Delivery, Pair, cut_listener, item, restart_database};
use crate::moment;

/// The floor of the row in which nobody tells anything.
const SHORT_FLOOR: &str = "--pop-wait-with-carrier=2s";
/// After a burst hints are repeated once; a lost one is the last only when that is over.
const CALM: Duration = Duration::from_millis(2500);

/// A row of the matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Row {
    Push,
    DelayEnd,
    WindowEnd,
    Failed,
    Retry,
    RetryDelay,
    AckFrees,
    Seek,
    Redrive,
    LeaseOfLostClient,
    LeaseOfLostServer,
    ListenCut,
    HintLost,
    DatabaseRestarted,
    NoCarrier,
    NoHint,
}

impl Row {
    pub(crate) const ALL: [Self; 16] = [
        Self::Push,
        Self::DelayEnd,
        Self::WindowEnd,
        Self::Failed,
        Self::Retry,
        Self::RetryDelay,
        Self::AckFrees,
        Self::Seek,
        Self::Redrive,
        Self::LeaseOfLostClient,
        Self::LeaseOfLostServer,
        Self::ListenCut,
        Self::HintLost,
        Self::DatabaseRestarted,
        Self::NoCarrier,
        Self::NoHint,
    ];

    /// What it is called, and the latest it may be, in milliseconds.
    pub(crate) fn title(self) -> (&'static str, u32) {
        match self {
            Self::Push => ("push", 15),
            Self::DelayEnd => ("end of delayedProcessing (1 s)", 30),
            Self::WindowEnd => ("end of windowBuffer (1 s)", 30),
            Self::Failed => ("nack, failed", 15),
            Self::Retry => ("nack, retry", 15),
            Self::RetryDelay => ("end of retryDelay (1 s, enforced)", 30),
            Self::AckFrees => ("ack that frees a lane with more in it", 15),
            Self::Seek => ("seek back", 15),
            Self::Redrive => ("redrive of a dead letter", 15),
            Self::LeaseOfLostClient => ("end of a lease whose holder went away", 30),
            Self::LeaseOfLostServer => ("end of a lease whose server was killed", 30),
            Self::ListenCut => ("LISTEN of B cut, then push", 120),
            Self::HintLost => ("the last hint lost", 2_000),
            Self::DatabaseRestarted => ("PostgreSQL restarted: push after its return", 1_000),
            Self::NoCarrier => ("no carrier at all: push", 1_000),
            Self::NoHint => ("crash between commit and hint, floor 2 s", 2_000),
        }
    }

    /// Whether it can be measured with these options.
    pub(crate) fn possible(self, args: &MatrixArgs) -> bool {
        match self {
            Self::ListenCut => !args.udp,
            Self::HintLost => args.udp,
            Self::DatabaseRestarted => args.pg_data.is_some(),
            _ => true,
        }
    }

    fn options(self) -> Value {
        match self {
            Self::DelayEnd => json!({"delayedProcessing": 1}),
            Self::WindowEnd => json!({"windowBuffer": 1}),
            Self::RetryDelay => json!({"retryDelay": 1000, "enforce": ["retryDelay"]}),
            _ => json!({}),
        }
    }
}

/// A row being measured: two fresh servers and a queue.
pub(crate) struct Stage<'p> {
    row: Row,
    args: &'p MatrixArgs,
    place: &'p Place,
    pair: Pair,
    /// Tells nobody what it does; only where that is wanted.
    silent: Option<Server>,
    queue: String,
}

impl<'p> Stage<'p> {
    pub(crate) async fn set(row: Row, args: &'p MatrixArgs, place: &'p Place) -> Result<Self> {
        let carrier = match (row, args.udp) {
            (Row::NoCarrier, _) => Carrier::None,
            (_, true) => Carrier::Udp,
            (_, false) => Carrier::Notify,
        };
        let more: &[&str] = if row == Row::NoHint { &[SHORT_FLOOR] } else { &[] };
        let mut pair = Pair::start(place, carrier, more).await?;
        let silent = match row {
            Row::NoHint => Some(place.start(&["--notify=false"]).await?),
            _ => None,
        };
        let queue = format!("q{:08x}", fastrand::u32(..));
        pair.a.configure(&queue, &row.options()).await?;
        Ok(Self { row, args, place, pair, silent, queue })
    }

    /// One round: how much later than it was due the message came, in microseconds.
    pub(crate) async fn round(&mut self, number: usize) -> Result<i64> {
        let id = format!("t{number}");
        match self.row {
            Row::Push => self.push(&id).await,
            Row::DelayEnd | Row::WindowEnd => self.hidden(&id).await,
            Row::Failed => self.given_back(&id, "failed", 0).await,
            Row::Retry => self.given_back(&id, "retry", 0).await,
            Row::RetryDelay => self.given_back(&id, "failed", 1_000_000).await,
            Row::AckFrees => self.ack_frees(&id).await,
            Row::Seek => self.seek(&id).await,
            Row::Redrive => self.redrive(&id).await,
            Row::LeaseOfLostClient | Row::LeaseOfLostServer => self.lease_end(&id).await,
            Row::ListenCut => self.listen_cut(&id).await,
            Row::HintLost => self.hint_lost(&id).await,
            Row::DatabaseRestarted => self.database_restarted(&id).await,
            Row::NoCarrier => self.at_any_time(&id, 1_000).await,
            Row::NoHint => self.at_any_time(&id, 2_000).await,
        }
    }

    async fn push(&mut self, id: &str) -> Result<i64> {
        let waiter = self.pair.park(&self.queue).await?;
        self.pair.a.push(json!([item(&self.queue, id)])).await?;
        let answered = Instant::now();
        Ok(after(&waiter.delivery(id).await?, answered))
    }

    /// Delay and window both count from the message's own time.
    async fn hidden(&mut self, id: &str) -> Result<i64> {
        let waiter = self.pair.park(&self.queue).await?;
        self.pair.a.push(json!([item(&self.queue, id)])).await?;
        let delivery = waiter.delivery(id).await?;
        let created = moment_of(&delivery.message()["createdAt"])?;
        Ok(delivery.clock - created - 1_000_000)
    }

    async fn given_back(&mut self, id: &str, status: &str, delay: i64) -> Result<i64> {
        self.pair.a.push(json!([item(&self.queue, id)])).await?;
        let held = self.pair.a.pop(&self.queue).await?;
        let waiter = self.pair.park(&self.queue).await?;
        self.pair.a.ack(&held, status).await?;
        let answered = Instant::now();
        Ok(after(&waiter.delivery(id).await?, answered) - delay)
    }

    async fn ack_frees(&mut self, id: &str) -> Result<i64> {
        let first = format!("{id}-first");
        self.pair.a.push(json!([item(&self.queue, &first), item(&self.queue, id)])).await?;
        let held = self.pair.a.pop(&self.queue).await?;
        let waiter = self.pair.park(&self.queue).await?;
        self.pair.a.ack(&held, "completed").await?;
        let answered = Instant::now();
        Ok(after(&waiter.delivery(id).await?, answered))
    }

    async fn seek(&mut self, id: &str) -> Result<i64> {
        let mut before = Value::Null;
        for id in [&format!("{id}-before"), id] {
            self.pair.a.push(json!([item(&self.queue, id)])).await?;
            let read = self.pair.a.pop(&self.queue).await?;
            self.pair.a.ack(&read, "completed").await?;
            if before.is_null() {
                before = read["messages"][0]["createdAt"].clone();
            }
        }
        let waiter = self.pair.park(&self.queue).await?;
        let path = format!("/api/v1/consumer-groups/__QUEUE_MODE__/queues/{}/seek", self.queue);
        self.done(&path, &json!({"timestamp": before})).await?;
        let answered = Instant::now();
        Ok(after(&waiter.delivery(id).await?, answered))
    }

    async fn redrive(&mut self, id: &str) -> Result<i64> {
        self.pair.a.push(json!([item(&self.queue, id)])).await?;
        let held = self.pair.a.pop(&self.queue).await?;
        self.pair.a.ack(&held, "dlq").await?;
        let waiter = self.pair.park(&self.queue).await?;
        self.done("/api/v1/dlq/redrive", &json!({"filter": {"queue": self.queue}})).await?;
        let answered = Instant::now();
        Ok(after(&waiter.delivery(id).await?, answered))
    }

    /// Asks A for something that must succeed.
    async fn done(&mut self, path: &str, body: &Value) -> Result<()> {
        let (status, answer) = self.pair.a.post(path, body).await?;
        ensure!(status == 200, "{path}: {status} {answer}");
        Ok(())
    }

    async fn lease_end(&mut self, id: &str) -> Result<i64> {
        let server_dies = self.row == Row::LeaseOfLostServer;
        self.pair.a.push(json!([item(&self.queue, id)])).await?;
        let mut holder = crate::rest::Rest::new(self.pair.a.target.clone());
        let held = holder.pop(&format!("{}?leaseSeconds=2", self.queue)).await?;
        drop(holder);
        let waiter = self.pair.park(&self.queue).await?;
        if server_dies {
            self.pair.kill_first()?;
        }
        let delivery = waiter.delivery(id).await?;
        if server_dies {
            self.pair.restart_first(self.place).await?;
        }
        Ok(delivery.clock - moment_of(&held["leaseExpiresAt"])?)
    }

    async fn listen_cut(&mut self, id: &str) -> Result<i64> {
        let reconnects = "bugle_carrier_reconnects_total{carrier=\"notify\"}";
        let before = crate::gauge::number(&self.pair.b.target, reconnects).await.unwrap_or(0.0);
        let database = self.place.database().await?;
        let waiter = self.pair.park(&self.queue).await?;
        cut_listener(self.place, &database).await?;
        self.pair.a.push(json!([item(&self.queue, id)])).await?;
        let answered = Instant::now();
        let late = after(&waiter.delivery(id).await?, answered);
        self.pair.b.until(reconnects, |count| count > before).await?;
        self.pair.until_hearing().await?;
        Ok(late)
    }

    async fn hint_lost(&mut self, id: &str) -> Result<i64> {
        tokio::time::sleep(CALM).await;
        let waiter = self.pair.park(&self.queue).await?;
        let proxy = self.pair.proxy.as_ref().context("datagrams go through a proxy")?;
        proxy.lose_one();
        self.pair.a.push(json!([item(&self.queue, id)])).await?;
        let answered = Instant::now();
        let late = after(&waiter.delivery(id).await?, answered);
        let lost = self.pair.proxy.as_ref().is_some_and(crate::datagrams::Proxy::has_lost_it);
        ensure!(lost, "no hint was sent that could be lost");
        Ok(late)
    }

    async fn database_restarted(&mut self, id: &str) -> Result<i64> {
        let waiter = self.pair.park(&self.queue).await?;
        let back = restart_database(self.args, self.place).await?;
        let body = json!({"items": [item(&self.queue, id)]});
        // A server may say for a while that its store is away; the same id is stored once.
        while self.pair.a.post("/api/v1/push", &body).await?.0 != 201 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let late = after(&waiter.delivery(id).await?, back);
        self.pair.until_hearing().await?;
        Ok(late)
    }

    /// What only the floor finds depends on when it looked last, so the push comes at any moment in between.
    async fn at_any_time(&mut self, id: &str, interval_ms: u64) -> Result<i64> {
        let waiter = self.pair.park(&self.queue).await?;
        tokio::time::sleep(Duration::from_millis(fastrand::u64(..interval_ms))).await;
        let items = json!([item(&self.queue, id)]);
        match &self.silent {
            Some(server) => server.rest()?.push(items).await?,
            None => self.pair.a.push(items).await?,
        }
        let answered = Instant::now();
        Ok(after(&waiter.delivery(id).await?, answered))
    }
}

/// Microseconds from a moment to the delivery; negative if it came before.
fn after(delivery: &Delivery, moment: Instant) -> i64 {
    let micros = |time: Duration| i64::try_from(time.as_micros()).unwrap_or(i64::MAX);
    match delivery.at.checked_duration_since(moment) {
        Some(time) => micros(time),
        None => -micros(moment - delivery.at),
    }
}

fn moment_of(value: &Value) -> Result<i64> {
    value.as_str().and_then(moment::parse).with_context(|| format!("no moment: {value}"))
}
