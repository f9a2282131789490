//! Sends spans as they come and metrics at an interval. Each signal has a task of its own, so that one does not wait for the other.

use std::time::Duration;

use bugle_broker::Broker;
use tokio::sync::mpsc::Receiver;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::collector::{Collector, Refusal};
use super::span::{Begun, Span};
use super::{TelemetryConfig, proto};
use crate::edge::{Edge, Export};
use crate::families;
use crate::process::Process;

/// Most spans of one request.
const BATCH: usize = 512;
/// How long a span waits for others.
const GATHERING: Duration = Duration::from_secs(1);
/// Times that a batch is sent, and the pause before the second; it doubles.
const TRIES: u32 = 4;
const PAUSE: Duration = Duration::from_secs(1);
/// Between two complaints about the same collector.
const COMPLAINING: Duration = Duration::from_secs(60);
/// Time for what is left when the server stops.
const FAREWELL: Duration = Duration::from_secs(2);

/// Sends what is recorded and counted.
pub struct Exporter {
    config: TelemetryConfig,
    spans: Receiver<Span>,
    edge: Edge,
}

/// The tasks that send.
pub struct Exporting {
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl Exporting {
    /// Send what is left, within a bound.
    pub async fn end(self) {
        self.stop.cancel();
        self.tasks.close();
        if timeout(2 * FAREWELL, self.tasks.wait()).await.is_err() {
            tracing::debug!("telemetry was not sent to its end");
        }
    }
}

impl Exporter {
    pub(super) fn new(config: TelemetryConfig, spans: Receiver<Span>, edge: Edge) -> Self {
        Self { config, spans, edge }
    }

    /// Begin to send.
    pub fn start(self, broker: Broker) -> Exporting {
        let Self { config, spans, edge } = self;
        let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
        let shipment = |uri| Shipment {
            collector: Collector::new(uri, config.headers.clone(), config.timeout),
            failing: None,
            edge: edge.clone(),
            stop: stop.clone(),
        };
        if let Some(uri) = config.traces.clone() {
            tasks.spawn(send_spans(spans, config.resource.clone(), shipment(uri)));
        }
        if let Some(uri) = config.metrics.clone() {
            tasks.spawn(send_metrics(
                broker,
                config.resource.clone(),
                config.metrics_interval,
                shipment(uri),
            ));
        }
        Exporting { tasks, stop }
    }
}

async fn send_spans(mut waiting: Receiver<Span>, resource: Vec<(String, String)>, mut shipment: Shipment) {
    let stop = shipment.stop.clone();
    let mut batch = Vec::with_capacity(BATCH);
    while !stop.is_cancelled() {
        tokio::select! {
            received = waiting.recv_many(&mut batch, BATCH) => if received == 0 { return },
            () = stop.cancelled() => break,
        }
        let gathered = sleep(GATHERING);
        tokio::pin!(gathered);
        while batch.len() < BATCH {
            let room = BATCH - batch.len();
            tokio::select! {
                received = waiting.recv_many(&mut batch, room) => if received == 0 { break },
                () = &mut gathered => break,
                () = stop.cancelled() => break,
            }
        }
        if !stop.is_cancelled() {
            shipment.ship_spans(&resource, &mut batch).await;
        }
    }
    while let Ok(span) = waiting.try_recv() {
        batch.push(span);
    }
    if !batch.is_empty() {
        let _ = timeout(FAREWELL, shipment.ship_spans(&resource, &mut batch)).await;
    }
}

async fn send_metrics(
    broker: Broker,
    resource: Vec<(String, String)>,
    every: Duration,
    mut shipment: Shipment,
) {
    let begun = Begun::now();
    let mut ticks = interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // The first comes at once, when there is nothing to tell yet.
    ticks.tick().await;
    let stop = shipment.stop.clone();
    loop {
        let last = tokio::select! {
            _ = ticks.tick() => false,
            () = stop.cancelled() => true,
        };
        let points = families::points(&broker.read_all(), &shipment.edge.read(), Process::read());
        let body = proto::metrics(&resource, &points, begun.nanos(), begun.later());
        if last {
            let _ =
                timeout(FAREWELL, shipment.ship(body, 1, Export::MetricsSent, Export::MetricsFailed)).await;
            return;
        }
        // What is not taken now comes with the next report: counters count from the beginning.
        shipment.ship(body, 1, Export::MetricsSent, Export::MetricsFailed).await;
    }
}

/// One signal on its way.
struct Shipment {
    collector: Collector,
    /// When the failures were last told of, while there are any.
    failing: Option<Instant>,
    edge: Edge,
    stop: CancellationToken,
}

impl Shipment {
    async fn ship_spans(&mut self, resource: &[(String, String)], batch: &mut Vec<Span>) {
        let body = proto::spans(resource, batch);
        let sent = self.ship(body, TRIES, Export::TracesSent, Export::TracesFailed).await;
        let outcome = if sent { Export::SpansSent } else { Export::SpansDropped };
        self.edge.exported(outcome, batch.len() as u64);
        batch.clear();
    }

    /// Send, and again while that may help. Whether it was taken.
    async fn ship(&mut self, body: Vec<u8>, tries: u32, sent: Export, failed: Export) -> bool {
        let body = bytes::Bytes::from(body);
        for attempt in 1..=tries {
            match self.collector.send(body.clone()).await {
                Ok(()) => {
                    self.edge.exported(sent, 1);
                    if self.failing.take().is_some() {
                        tracing::info!("the collector takes telemetry again");
                    }
                    return true;
                }
                Err(refusal) => {
                    self.edge.exported(failed, 1);
                    self.complain(&refusal);
                    if !refusal.passing || attempt == tries {
                        return false;
                    }
                }
            }
            tokio::select! {
                () = sleep(PAUSE * 2_u32.pow(attempt - 1)) => {}
                () = self.stop.cancelled() => return false,
            }
        }
        false
    }

    fn complain(&mut self, refusal: &Refusal) {
        let now = Instant::now();
        if self.failing.is_none_or(|last| now - last >= COMPLAINING) {
            self.failing = Some(now);
            let reason = &refusal.reason;
            tracing::warn!(%reason, "the collector does not take telemetry; it is dropped and counted until it does");
        }
    }
}
