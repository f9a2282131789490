//! Lanes that are let go of before an append is durable (`early_release` of the PostgreSQL engine): nothing is answered before, and a
//! crash in between takes away only what nobody was told of.
#![allow(clippy::unwrap_used)]

mod common;
#[path = "common/faulty.rs"]
mod faulty;

use std::sync::Arc;
use std::time::Duration;

use bugle_broker::{Broker, BrokerConfig, Operation, PopRequest};
use bugle_pg::testdb::{self, PrivateServer, Stop};
use bugle_store::{Catalog, MemoryStore};
use bugle_store_postgres::{PostgresOptions, PostgresStore};

use common::*;
use faulty::Faulty;

const LIMIT: Duration = Duration::from_secs(90);

/// Waits for an event, no longer than [`LIMIT`].
async fn until(event: impl AsyncFn() -> bool) {
    let happens = async {
        while !event().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(LIMIT, happens).await.expect("it happens");
}

async fn server_on(database: &PrivateServer) -> (Arc<PostgresStore>, Broker) {
    let options = PostgresOptions { early_release: true, ..PostgresOptions::new(database.address()) };
    let store = PostgresStore::open(options).await.unwrap();
    assert!(store.early_release());
    (store.clone(), Broker::open(store, BrokerConfig::default()).await.unwrap())
}

fn taking(group: &str) -> PopRequest {
    PopRequest { auto_ack: true, group: group.into(), ..from_queue("q") }
}

async fn heads(database: &PrivateServer) -> i64 {
    let sql = "SELECT coalesce(max(head), 0) FROM bugle.lanes WHERE name = 'p'";
    database.client().await.query_one(sql, &[]).await.unwrap().get(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_takes_away_only_what_nobody_was_told_of() {
    let database = testdb::durable_server().await;
    let ((here_store, here), (there_store, there)) = (server_on(&database).await, server_on(&database).await);
    push(&here, "q", "p", &["a"]).await;
    assert!(push(&there, "q", "p", &["a", "b"]).await[0].duplicate);
    push(&here, "q", "p", &["c"]).await;
    assert_eq!(ids(&there.pop(taking("g")).await.unwrap()), ["a", "b", "c"]);

    database.hold_log().await;
    let pushing = tokio::spawn({
        let here = here.clone();
        async move { here.push(vec![item("q", "p", "lost", "1")]).await }
    });
    until(async || heads(&database).await == 4).await;
    // The other one sees it. Its claim would make it durable, and cannot.
    let popping = tokio::spawn({
        let there = there.clone();
        async move { there.pop(taking("g")).await }
    });
    let claims = "SELECT FROM pg_stat_activity WHERE application_name LIKE 'bugle%' AND wait_event = 'WALWrite' \
                  AND query NOT LIKE '%emit_message%'";
    until(async || !database.client().await.query(claims, &[]).await.unwrap().is_empty()).await;
    assert!(!pushing.is_finished(), "nothing is answered before it is durable");
    assert!(!popping.is_finished(), "nothing is delivered before it is durable");

    database.restart(Stop::Immediate).await;
    assert!(pushing.await.unwrap().is_err());
    assert!(popping.await.unwrap().map_or(true, |answer| ids(&answer).is_empty()));
    assert_eq!(heads(&database).await, 3, "it is gone");
    for store in [&here_store, &there_store] {
        until(async || store.ping().await.is_ok()).await;
    }

    // The offset is given out again. Whoever remembers what was there would move past it.
    assert_eq!(ids(&there.pop(taking("g")).await.unwrap()), Vec::<String>::new());
    assert!(!push(&here, "q", "p", &["new"]).await[0].duplicate);
    assert_eq!(ids(&there.pop(taking("g")).await.unwrap()), ["new"]);
    assert!(push(&there, "q", "p", &["new"]).await[0].duplicate, "it is not known by another's place");
    assert!(!push(&there, "q", "p", &["lost"]).await[0].duplicate, "it was lost");
    let everything = PopRequest { subscription_mode: Some("all".into()), ..taking("late") };
    assert_eq!(ids(&here.pop(everything).await.unwrap()), ["a", "b", "c", "new", "lost"]);
}

#[tokio::test]
async fn a_duplicate_is_answered_when_what_it_repeats_is_durable() {
    let store = Faulty::new(Arc::new(MemoryStore::default().shared()));
    let broker = Broker::open(store.clone(), BrokerConfig::default()).await.unwrap();
    push(&broker, "q", "p", &["a"]).await;

    let gate = store.hold_before("flush");
    let again = tokio::spawn({
        let broker = broker.clone();
        async move { push(&broker, "q", "p", &["a"]).await }
    });
    gate.reached().await;
    assert!(!again.is_finished());
    gate.open();
    assert!(again.await.unwrap()[0].duplicate);

    let gate = store.hold_before("flush");
    let transaction = tokio::spawn({
        let broker = broker.clone();
        async move { broker.transact(vec![Operation::Push(item("q", "p", "a", "1"))], Vec::new()).await }
    });
    gate.reached().await;
    assert!(!transaction.is_finished());
    gate.open();
    assert_eq!(transaction.await.unwrap().unwrap().reason, Some("duplicate"));

    store.break_down(&["flush"]);
    assert!(broker.push(vec![item("q", "p", "a", "1")]).await.is_err(), "nobody can tell");
}
