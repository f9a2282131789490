//! What a survey and a question for aged lanes cost on PostgreSQL, and whom an announcement reaches.

mod support;

use std::sync::Arc;

use bugle_pg::testdb;
use bugle_store::{
    Aged, Append, Catalog, Guard, LaneId, NewLane, NewSegment, Queue, QueueId, QueueOptions, Store, Survey,
    Timestamp,
};
use bugle_store_postgres::{Extras, PostgresOptions, PostgresStore};
use support::Counter;
use tokio::sync::mpsc;
use tokio_postgres::{AsyncMessage, Client, NoTls};

async fn open(dsn: &str, change: impl FnOnce(&mut PostgresOptions)) -> Arc<PostgresStore> {
    let mut options = PostgresOptions { schema: testdb::fresh_schema(), ..PostgresOptions::new(dsn) };
    // One connection, so that a statement is prepared once.
    options.pool.max = 1;
    change(&mut options);
    PostgresStore::open(options).await.expect("open the store")
}

async fn queue(store: &PostgresStore, name: &str) -> QueueId {
    let queue = Queue {
        id: QueueId::random(),
        name: name.into(),
        namespace: "".into(),
        task: "".into(),
        created_at: Timestamp(1),
        version: 1,
        options: QueueOptions::default(),
    };
    store.put_queue(queue.clone()).await.expect("stored");
    queue.id
}

async fn written(store: &PostgresStore, queue: QueueId, lanes: u64) -> Vec<LaneId> {
    let new = (0..lanes).map(|n| NewLane { queue, name: n.to_string().into(), now: Timestamp(1) });
    let made = store.ensure_lanes(new.collect()).await.expect("made");
    let ids: Vec<LaneId> = made.into_iter().map(|lane| lane.expect("the queue exists").id).collect();
    let segment = NewSegment { id: 1, fingerprints: Arc::new([1]), greatest: None, body: "x".into() };
    let append = |lane| Append {
        lane,
        known_head: 0,
        guard: Guard::Free,
        segment: segment.clone(),
        now: Timestamp(5_000_000),
    };
    let appended = store.append(ids.iter().copied().map(append).collect()).await.expect("appended");
    assert!(appended.iter().all(Result::is_ok));
    ids
}

fn ask() -> Survey {
    Survey { since: Timestamp(1), recheck: Vec::new(), limit: 100, announce: None }
}

/// A connection that listens, and what it hears.
async fn listener(dsn: &str, channel: &str) -> (Client, mpsc::UnboundedReceiver<String>) {
    let (client, mut connection) = tokio_postgres::connect(dsn, NoTls).await.expect("connect");
    let (heard, hears) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Some(Ok(message)) = std::future::poll_fn(|cx| connection.poll_message(cx)).await {
            if let AsyncMessage::Notification(told) = message {
                drop(heard.send(told.payload().to_owned()));
            }
        }
    });
    client.batch_execute(&format!("LISTEN \"{}\"", channel.replace('"', "\"\""))).await.expect("listen");
    (client, hears)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_survey_is_one_statement_in_one_round_trip() {
    let (counter, dsn) = Counter::before(&testdb::server().await).await;
    let store = open(&dsn, |_| ()).await;
    let first = queue(&store, "a").await;
    let lanes = written(&store, first, 20).await;
    let recheck: Vec<_> = lanes.iter().map(|lane| (*lane, "g".into())).collect();
    let announce = Some("hello".to_owned());
    store.survey(ask()).await.expect("prepared from here on");
    counter.take();
    for question in [
        ask(),
        Survey { recheck: recheck.clone(), ..ask() },
        Survey { announce: announce.clone(), ..ask() },
        Survey { recheck, announce, ..ask() },
    ] {
        let asked = format!("{question:?}");
        let surveyed = store.survey(question).await.expect("answered");
        assert_eq!(surveyed.written.len(), 20, "{asked}");
        assert_eq!(counter.take(), (1, 1), "{asked}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_survey_is_one_statement_per_bucket() {
    let (counter, dsn) = Counter::before(&testdb::server().await).await;
    let store = open(&dsn, |options| options.buckets = 4).await;
    let only = queue(&store, "a").await;
    written(&store, only, 20).await;
    store.survey(ask()).await.expect("prepared from here on");
    counter.take();
    let surveyed = store.survey(ask()).await.expect("answered");
    assert_eq!((surveyed.written.len(), counter.take().0), (20, 4));
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_aged_in_many_queues_is_one_statement() {
    let (counter, dsn) = Counter::before(&testdb::server().await).await;
    let store = open(&dsn, |_| ()).await;
    let mut queues = Vec::new();
    for n in 0..20 {
        let id = queue(&store, &n.to_string()).await;
        written(&store, id, 3).await;
        queues.push(id);
    }
    let ask = |before: i64| {
        let each = queues.iter().map(|queue| Aged {
            queue: *queue,
            before: Timestamp(before),
            after: None,
            limit: 10,
        });
        each.collect::<Vec<_>>()
    };
    store.aged(ask(9_000_000)).await.expect("prepared from here on");
    counter.take();
    let aged = store.aged(ask(5_000_000)).await.expect("answered");
    assert_eq!((aged, counter.take()), (vec![Vec::new(); 20], (1, 1)));
    // What is old needs its cuts, for all queues together.
    let aged = store.aged(ask(5_000_001)).await.expect("answered");
    assert!(aged.iter().all(|lanes| lanes.len() == 3 && lanes.iter().all(|a| a.cut == 1)));
    assert_eq!(counter.take().0, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_announcement_reaches_who_listens() {
    let dsn = testdb::server().await;
    let store = open(&dsn, |_| ()).await;
    let (_client, mut hears) = listener(&dsn, store.channel()).await;
    for text in ["1 hello", "", "ünï 'x'"] {
        store.survey(Survey { announce: Some(text.to_owned()), ..ask() }).await.expect("answered");
        assert_eq!(hears.recv().await.as_deref(), Some(text));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_announcement_passes_a_pooler_in_transaction_mode() {
    let dsn = testdb::server().await;
    let store = open(&testdb::pgbouncer().await, |options| options.pool.pooled = true).await;
    let (_client, mut hears) = listener(&dsn, store.channel()).await;
    store.survey(Survey { announce: Some("through".to_owned()), ..ask() }).await.expect("answered");
    assert_eq!(hears.recv().await.as_deref(), Some("through"));
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_announced_unless_asked_and_switched_on() {
    let dsn = testdb::server().await;
    let schema = testdb::fresh_schema();
    let silent = open(&dsn, |options| {
        options.schema.clone_from(&schema);
        options.extras = Extras { listen: false, ..Extras::default() };
    });
    let silent = silent.await;
    let loud = open(&dsn, |options| options.schema.clone_from(&schema)).await;
    assert_eq!(silent.channel(), loud.channel(), "servers of one installation share the channel");
    let (_client, mut hears) = listener(&dsn, loud.channel()).await;
    silent.survey(Survey { announce: Some("switched off".to_owned()), ..ask() }).await.expect("answered");
    loud.survey(ask()).await.expect("answered");
    loud.survey(Survey { announce: Some("heard".to_owned()), ..ask() }).await.expect("answered");
    // In commit order: had the earlier ones announced anything, it would be heard first.
    assert_eq!(hears.recv().await.as_deref(), Some("heard"));
}

#[tokio::test(flavor = "multi_thread")]
async fn installations_beside_each_other_have_channels_of_their_own() {
    let dsn = testdb::server().await;
    let unique = testdb::fresh_schema();
    let long = |last: &str| format!("{unique}{}{last}", "x".repeat(62 - unique.len()));
    let mut channels = Vec::new();
    for schema in [unique.clone(), long("a"), long("b")] {
        let store = open(&dsn, |options| options.schema = schema).await;
        let (_client, mut hears) = listener(&dsn, store.channel()).await;
        store.survey(Survey { announce: Some("x".to_owned()), ..ask() }).await.expect("answered");
        assert_eq!(hears.recv().await.as_deref(), Some("x"), "{}", store.channel());
        channels.push(store.channel().to_owned());
    }
    channels.sort();
    channels.dedup();
    assert_eq!(channels.len(), 3);
}
