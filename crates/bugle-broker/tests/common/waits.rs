//! Pops that wait, and brokers on one store that hear each other or do not.

use std::sync::Arc;
use std::time::Duration;

use bugle_broker::{Broker, BrokerConfig, FloorConfig, PopAnswer, PopRequest};
use bugle_store::{Engine, MemoryStore};
use bugle_wake::{BellOptions, HearingState};
use tokio::task::JoinHandle;

use super::hub::Hub;
use super::{from_queue, ids, waiting};

/// Longer than anything takes.
pub(crate) const LONG: Duration = Duration::from_secs(20);

/// Two brokers, in real time.
pub(crate) struct Pair {
    pub(crate) a: Broker,
    pub(crate) b: Broker,
    pub(crate) hub: Hub,
}

impl Pair {
    pub(crate) async fn new(config: BrokerConfig) -> Self {
        Self::on(Arc::new(MemoryStore::default().shared()), config).await
    }

    pub(crate) async fn on(engine: Arc<dyn Engine>, config: BrokerConfig) -> Self {
        let hub = Hub::new();
        let open = |name: &str| {
            let bell = BellOptions { name: name.into(), ..BellOptions::default() };
            Broker::open_with(engine.clone(), config.clone(), bell, vec![hub.carrier()])
        };
        let pair = Self { a: open("a").await.unwrap(), b: open("b").await.unwrap(), hub };
        for broker in [&pair.a, &pair.b] {
            until(|| {
                let reading = broker.read();
                reading.hearing.state == HearingState::Connected && !reading.carriers[0].peers.is_empty()
            })
            .await;
            // They have just met, so each looks at everything once; let that be over.
            let scratch = parked(broker, from_queue("scratch")).await;
            until(|| broker.read().floor.surveys > 0).await;
            scratch.abort();
            until(|| broker.read().waiting.parked == 0).await;
        }
        pair
    }

    /// As in production, but the floor is out of the way.
    pub(crate) async fn hearing() -> Self {
        Self::hearing_on(Arc::new(MemoryStore::default().shared())).await
    }

    pub(crate) async fn hearing_on(engine: Arc<dyn Engine>) -> Self {
        let floor = FloorConfig { with_carrier: Duration::from_secs(600), ..FloorConfig::default() };
        Self::on(engine, BrokerConfig { floor, ..BrokerConfig::default() }).await
    }
}

/// Two brokers that cannot hear each other.
pub(crate) async fn deaf_pair(floor: FloorConfig) -> (Broker, Broker) {
    let engine: Arc<dyn Engine> = Arc::new(MemoryStore::default().shared());
    let config = BrokerConfig { floor, ..BrokerConfig::default() };
    let open = || Broker::open(engine.clone(), config.clone());
    (open().await.unwrap(), open().await.unwrap())
}

/// Wait for something that will happen.
pub(crate) async fn until(done: impl Fn() -> bool) {
    let patience = tokio::time::Instant::now() + LONG;
    while !done() {
        assert!(tokio::time::Instant::now() < patience, "it did not happen");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// A pop that is parked by the time this returns.
pub(crate) async fn parked(broker: &Broker, request: PopRequest) -> JoinHandle<PopAnswer> {
    let before = broker.read().waiting.parked;
    let copy = broker.clone();
    let pop = tokio::spawn(async move { copy.pop(waiting(request, LONG)).await.unwrap() });
    until(|| broker.read().waiting.parked > before).await;
    pop
}

/// What it was given.
pub(crate) async fn answer(pop: JoinHandle<PopAnswer>) -> Vec<String> {
    ids(&tokio::time::timeout(LONG, pop).await.unwrap().unwrap())
}
