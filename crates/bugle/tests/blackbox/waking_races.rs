//! Many consumers on one and on two servers, all after the same lanes while messages come: no lane has two holders at any
//! moment, no message comes twice, none is left, and nobody who waits is forgotten: here consumers wait for minutes, the
//! floor is as far away, and every wake that got lost would leave messages lying.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::common::{Client, On, until_true};
use crate::waking::NO_FLOOR;
use crate::waking_servers::by_notify;

const LANES: usize = 20;
const PER_LANE: usize = 10;
const ALL: usize = LANES * PER_LANE;
const CONSUMERS: usize = 40;

/// What consumers do with what they get.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Manner {
    AutoAck,
    Ack,
    /// Give every third answer back first.
    AckAndGiveBack,
    /// Wait so briefly that messages come at the deadline.
    AckInHaste,
}

/// What consumers hold and have got, over all of them.
#[derive(Default)]
struct Book {
    /// Live leases by (partition, group).
    held: HashMap<(String, String), String>,
    /// Every lease there was.
    leases: HashSet<String>,
    /// Messages done with, by group.
    got: HashMap<String, HashSet<String>>,
}

#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Book>>);

impl Shared {
    /// A pop was answered with a lease: it must be new, and its lanes free.
    fn leased(&self, group: &str, popped: &Value) {
        let mut book = self.0.lock().unwrap();
        let lease = popped["leaseId"].as_str().unwrap().to_owned();
        assert!(book.leases.insert(lease.clone()), "lease {lease} was given twice");
        for message in popped["messages"].as_array().unwrap() {
            let partition = message["partition"].as_str().unwrap().to_owned();
            let holder = book.held.insert((partition.clone(), group.into()), lease.clone());
            assert!(holder.is_none_or(|h| h == lease), "{partition} has two holders");
        }
    }

    /// About to be acknowledged or given back: from the moment the server hears of it somebody else may have the lanes.
    fn release(&self, popped: &Value) {
        let lease = popped["leaseId"].as_str().unwrap();
        self.0.lock().unwrap().held.retain(|_, held| held != lease);
    }

    /// These are done with, and must not have been before.
    fn got(&self, group: &str, popped: &Value) {
        let mut book = self.0.lock().unwrap();
        let got = book.got.entry(group.into()).or_default();
        for message in popped["messages"].as_array().unwrap() {
            let id = message["transactionId"].as_str().unwrap().to_owned();
            assert!(got.insert(id), "delivered twice: {message}");
        }
    }

    fn done(&self, groups: &[&str]) -> bool {
        let book = self.0.lock().unwrap();
        groups.iter().all(|group| book.got.get(*group).is_some_and(|got| got.len() == ALL))
    }
}

/// For ever.
async fn consume(client: Client, shared: Shared, group: &'static str, number: usize, manner: Manner) {
    // Some name a partition, some take several, most take what there is.
    let path = match number % 8 {
        6 => format!("/queue/q/partition/p{}?batch=3", number % LANES),
        7 => "/queue/q?batch=4&partitions=3".to_owned(),
        _ => "/queue/q?batch=2".to_owned(),
    };
    let auto_ack = manner == Manner::AutoAck;
    let wait = if manner == Manner::AckInHaste { 1 + number % 7 } else { 110_000 };
    let rest = format!("{path}&consumerGroup={group}&wait=true&timeout={wait}&autoAck={auto_ack}");
    for round in 0.. {
        let Some(popped) = client.pop(&rest).await else { continue };
        if !auto_ack {
            shared.leased(group, &popped);
            shared.release(&popped);
        }
        if manner == Manner::AckAndGiveBack && round % 3 == 0 {
            client.ack_all(&popped, "retry").await;
            continue;
        }
        shared.got(group, &popped);
        if !auto_ack {
            for result in client.ack_all(&popped, "completed").await.as_array().unwrap() {
                assert_eq!(result["success"], true, "{result}");
            }
        }
    }
}

/// Push a message of every lane at a time, to the servers in turn.
async fn produce(servers: &[Client]) {
    for (n, server) in (0..PER_LANE).zip(servers.iter().cycle()) {
        let item = |lane| json!({"queue": "q", "partition": format!("p{lane}"), "transactionId": format!("{lane}/{n}")});
        server.push((0..LANES).map(item).collect()).await;
    }
}

async fn race(servers: &[Client], groups: &[&'static str], manner: Manner) {
    let shared = Shared::default();
    let mut consumers = JoinSet::new();
    for (number, server) in (0..CONSUMERS).zip(servers.iter().cycle()) {
        // By pairs, so that every group has consumers on every server.
        let group = groups[number / 2 % groups.len()];
        consumers.spawn(consume(server.clone(), shared.clone(), group, number, manner));
    }
    produce(servers).await;
    until_true("all is read", async || {
        if let Some(ended) = consumers.try_join_next() {
            ended.expect("no consumer fails");
        }
        shared.done(groups)
    })
    .await;
    // What was acknowledged last may be on its way still; the consumers' places are empty when all of it was heard.
    let parked =
        async |server: &Client| server.metrics().await.parked() == (CONSUMERS / servers.len()) as f64;
    for server in servers.iter().filter(|_| manner != Manner::AckInHaste) {
        until_true("all wait again", async || parked(server).await).await;
    }
    drop(consumers);
    for (server, group) in servers.iter().flat_map(|s| groups.iter().map(move |g| (s, g))) {
        assert_eq!(
            server.pop(&format!("/queue/q?batch=100&partitions=100&consumerGroup={group}")).await,
            None
        );
    }
}

on_every_engine! {
    async fn no_lane_has_two_holders(on: On) {
        let server = on.start_with(&NO_FLOOR).await;
        race(&[server.client()], &["a", "b"], Manner::Ack).await;
    }

    async fn what_is_given_back_is_delivered_again(on: On) {
        let server = on.start_with(&NO_FLOOR).await;
        race(&[server.client()], &["a"], Manner::AckAndGiveBack).await;
    }

    async fn what_comes_at_a_deadline_is_not_lost(on: On) {
        let server = on.start_with(&NO_FLOOR).await;
        race(&[server.client()], &["a"], Manner::AckInHaste).await;
    }

    async fn an_automatic_ack_delivers_once(on: On) {
        let server = on.start_with(&NO_FLOOR).await;
        race(&[server.client()], &["a"], Manner::AutoAck).await;
    }
}

on_every_database! {
    async fn no_lane_has_two_holders_over_two_servers(on: On) {
        let (a, b) = by_notify(&on).await;
        race(&[a.client(), b.client()], &["a", "b"], Manner::Ack).await;
    }

    async fn what_is_given_back_is_delivered_again_over_two_servers(on: On) {
        let (a, b) = by_notify(&on).await;
        race(&[a.client(), b.client()], &["a"], Manner::AckAndGiveBack).await;
    }

    async fn an_automatic_ack_delivers_once_over_two_servers(on: On) {
        let (a, b) = by_notify(&on).await;
        race(&[a.client(), b.client()], &["a"], Manner::AutoAck).await;
    }
}

#[tokio::test]
async fn one_connection_each_is_enough_for_two_servers() {
    let on = On::postgres().await;
    let flags: Vec<&str> = NO_FLOOR.into_iter().chain(["--pg-connections=1,1"]).collect();
    let (a, b) = tokio::join!(on.start_with(&flags), on.start_with(&flags));
    tokio::join!(a.until_hearing("notify", 1), b.until_hearing("notify", 1));
    race(&[a.client(), b.client()], &["a"], Manner::AckAndGiveBack).await;
}
