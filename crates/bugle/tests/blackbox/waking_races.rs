//! Many consumers on one and on two servers, all after the same lanes while messages come: no lane has two holders at any
//! moment, no message comes twice, none is left.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::common::{Client, PATIENCE};

const LANES: usize = 20;
const PER_LANE: usize = 10;
const ALL: usize = LANES * PER_LANE;
const CONSUMERS: usize = 40;

/// What consumers hold and have got, over all of them.
#[derive(Default)]
struct Book {
    /// Live leases by (partition, group).
    held: HashMap<(String, String), String>,
    /// Every lease there was.
    leases: HashSet<String>,
    /// Messages got, by group.
    got: HashMap<String, HashSet<String>>,
}

#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Book>>);

impl Shared {
    /// A pop was answered: what it got must be new and free.
    fn popped(&self, group: &str, popped: &Value, leased: bool) {
        let mut book = self.0.lock().unwrap();
        let lease = popped["leaseId"].as_str().unwrap_or_default().to_owned();
        if leased {
            assert!(book.leases.insert(lease.clone()), "lease {lease} was given twice");
        }
        for message in popped["messages"].as_array().unwrap() {
            let partition = message["partition"].as_str().unwrap().to_owned();
            let id = message["transactionId"].as_str().unwrap().to_owned();
            assert_eq!(message["deliveryAttempt"], 1, "{message}");
            assert!(book.got.entry(group.into()).or_default().insert(id), "delivered twice: {message}");
            if leased {
                let holder = book.held.insert((partition.clone(), group.into()), lease.clone());
                assert!(holder.is_none_or(|h| h == lease), "{partition} has two holders");
            }
        }
    }

    /// About to be acknowledged: from the moment the server hears of it somebody else may have the lanes.
    fn release(&self, popped: &Value) {
        let lease = popped["leaseId"].as_str().unwrap();
        self.0.lock().unwrap().held.retain(|_, held| held != lease);
    }

    fn done(&self, group: &str) -> bool {
        self.0.lock().unwrap().got.get(group).is_some_and(|got| got.len() == ALL)
    }
}

async fn consume(client: Client, shared: Shared, group: &'static str, number: usize, auto_ack: bool) {
    // Some name a partition, some take several, most take what there is.
    let path = match number % 8 {
        6 => format!("/queue/q/partition/p{}?batch=3", number % LANES),
        7 => "/queue/q?batch=4&partitions=3".to_owned(),
        _ => "/queue/q?batch=2".to_owned(),
    };
    let rest = format!("{path}&consumerGroup={group}&wait=true&timeout=300&autoAck={auto_ack}");
    while !shared.done(group) {
        let Some(popped) = client.pop(&rest).await else { continue };
        shared.popped(group, &popped, !auto_ack);
        if auto_ack {
            continue;
        }
        shared.release(&popped);
        for result in client.ack_all(&popped, "completed").await.as_array().unwrap() {
            assert_eq!(result["success"], true, "{result}");
        }
    }
}

/// Push a message of every lane at a time, to the servers in turn.
async fn produce(servers: Vec<Client>) {
    for (n, server) in (0..PER_LANE).zip(servers.iter().cycle()) {
        let item = |lane| json!({"queue": "q", "partition": format!("p{lane}"), "transactionId": format!("{lane}/{n}")});
        server.push((0..LANES).map(item).collect()).await;
    }
}

async fn race(servers: &[Client], groups: &[&'static str], auto_ack: bool) {
    let shared = Shared::default();
    let mut consumers = JoinSet::new();
    for (number, server) in (0..CONSUMERS).zip(servers.iter().cycle()) {
        // By pairs, so that every group has consumers on every server.
        let group = groups[number / 2 % groups.len()];
        consumers.spawn(consume(server.clone(), shared.clone(), group, number, auto_ack));
    }
    produce(servers.to_vec()).await;
    timeout(PATIENCE * 2, consumers.join_all()).await.expect("all is read");
    for (server, group) in servers.iter().flat_map(|s| groups.iter().map(move |g| (s, g))) {
        assert_eq!(server.pop(&format!("/queue/q?batch=100&partitions=100&consumerGroup={group}")).await, None);
    }
}

on_every_engine! {
    async fn no_lane_has_two_holders(on: On) {
        let server = on.start().await;
        race(&[server.client()], &["a", "b"], false).await;
    }

    async fn an_automatic_ack_delivers_once(on: On) {
        let server = on.start().await;
        race(&[server.client()], &["a"], true).await;
    }
}

on_every_database! {
    async fn no_lane_has_two_holders_over_two_servers(on: On) {
        let (a, b) = tokio::join!(on.start(), on.start());
        race(&[a.client(), b.client()], &["a", "b"], false).await;
    }

    async fn an_automatic_ack_delivers_once_over_two_servers(on: On) {
        let (a, b) = tokio::join!(on.start(), on.start());
        race(&[a.client(), b.client()], &["a"], true).await;
    }
}
