//! Many consumers, many lanes: everybody gets a share, every lane is read in order, nothing is lost or doubled.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::common::{Client, On, PATIENCE};

const LANES: usize = 100;
const PER_LANE: u64 = 40;
const CONSUMERS: usize = 10;
const ALL: u64 = LANES as u64 * PER_LANE;

/// The next offset of each lane, over all consumers. A lane's lease is held from its pop to its ack, so whoever pops it
/// must see exactly what stands here: a lost, doubled or reordered message shows at once.
#[derive(Default)]
struct Progress(Mutex<HashMap<String, u64>>);

impl Progress {
    fn note(&self, popped: &Value) -> u64 {
        let mut next = self.0.lock().unwrap();
        let messages = popped["messages"].as_array().unwrap();
        for message in messages {
            let expected = next.entry(message["partition"].as_str().unwrap().to_owned()).or_default();
            assert_eq!(message["offset"], *expected, "in {}", message["partition"]);
            assert_eq!(message["data"]["n"], *expected);
            *expected += 1;
        }
        messages.len() as u64
    }

    fn done(&self) -> bool {
        self.0.lock().unwrap().values().sum::<u64>() == ALL
    }
}

async fn fill(client: &Client) {
    for lanes in (0..LANES).collect::<Vec<_>>().chunks(10) {
        let items = lanes.iter().flat_map(|lane| {
            (0..PER_LANE)
                .map(move |n| json!({"queue": "q", "partition": format!("lane {lane}"), "payload": {"n": n}}))
        });
        client.push(items.collect()).await;
    }
}

/// Pop and acknowledge until all is read; how many messages this consumer got.
async fn consume(client: Client, progress: Arc<Progress>) -> u64 {
    let mut got = 0;
    while !progress.done() {
        let Some(popped) = client.pop("/queue/q?batch=5&wait=true&timeout=200").await else { continue };
        got += progress.note(&popped);
        for result in client.ack_all(&popped, "completed").await.as_array().unwrap() {
            assert_eq!(result["success"], true, "{result}");
        }
    }
    got
}

/// Ten consumers on these servers, in turn.
async fn share(servers: &[Client]) {
    fill(&servers[0]).await;
    let progress = Arc::new(Progress::default());
    let mut consumers = JoinSet::new();
    for client in servers.iter().cycle().take(CONSUMERS) {
        consumers.spawn(consume(client.clone(), progress.clone()));
    }
    let shares = timeout(PATIENCE * 2, consumers.join_all()).await.expect("all is read");
    assert_eq!(shares.iter().sum::<u64>(), ALL);
    for share in &shares {
        assert!((ALL / 20..=ALL / 5).contains(share), "each gets 5 to 20 % of {ALL}: {shares:?}");
    }
    for server in servers {
        assert_eq!(server.pop("/queue/q?batch=100&partitions=100").await, None, "nothing is left");
    }
}

on_every_engine! {
    async fn every_consumer_gets_its_share(on: On) {
        let server = on.start().await;
        share(&[server.client()]).await;
    }
}

#[tokio::test]
async fn every_consumer_gets_its_share_over_two_servers() {
    let on = On::postgres().await;
    let (a, b) = (on.start().await, on.start().await);
    share(&[a.client(), b.client()]).await;
}
