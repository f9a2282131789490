//! The inbox: what the function writes is told, and taken as a whole or not at all, by one taker.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::time::Duration;

use bugle_pg::{Config, Conn, Listener, Pool, PoolOptions, Schema, Statement, testdb};
use bugle_store::{
    Append, AppendError, Catalog, Engine, Guard, INBOX_HINT, Inbox, InboxAsk, InboxFront, LaneId, Load,
    NewLane, NewSegment, Queue, QueueId, QueueOptions, Store, Survey, Take, TakeError, Timestamp,
};
use bugle_store_postgres::{Extras, PostgresOptions, PostgresStore};

struct Stage {
    store: Arc<PostgresStore>,
    sql: Conn,
    schema: Schema,
    queue: QueueId,
}

async fn stage(dsn: String, change: impl FnOnce(&mut PostgresOptions)) -> Stage {
    let mut options = PostgresOptions { schema: testdb::fresh_schema(), ..PostgresOptions::new(dsn) };
    change(&mut options);
    let schema = Schema::new(&options.schema).unwrap();
    let store = PostgresStore::open(options).await.unwrap();
    let pool = Pool::new(Config::parse(&testdb::server().await).unwrap(), PoolOptions::default());
    let (id, none): (_, Arc<str>) = (QueueId::random(), "".into());
    let (namespace, task, options) = (none.clone(), none, QueueOptions::default());
    let queue =
        Queue { id, name: "q".into(), namespace, task, created_at: Timestamp(1), version: 1, options };
    store.put_queue(queue).await.unwrap();
    Stage { store, sql: pool.get().await.unwrap(), schema, queue: id }
}

impl Stage {
    async fn run(&mut self, sql: &str) {
        self.sql.execute_batch(&self.schema.fill(sql)).await.unwrap();
    }

    async fn push(&mut self, queue: &str, partition: &str, payload: &str) {
        self.run(&format!("SELECT {{schema}}.push('{queue}', '{partition}', '{payload}', 't{payload}')"))
            .await;
    }

    fn inbox(&self) -> &dyn Inbox {
        self.store.inbox().unwrap()
    }

    async fn front(&self, change: impl FnOnce(&mut InboxAsk)) -> InboxFront {
        let mut ask = InboxAsk { after: None, without: Vec::new(), lanes: 100, rows: 1000, bytes: 1 << 20 };
        change(&mut ask);
        self.inbox().front(ask).await.unwrap()
    }

    async fn lane(&self, name: &str) -> LaneId {
        let new = NewLane { queue: self.queue, name: name.into(), now: Timestamp(1) };
        self.store.ensure_lanes(vec![new]).await.unwrap().remove(0).unwrap().id
    }

    /// Take these rows of a partition as one segment.
    async fn take(&self, partition: &str, rows: &[u64], known_head: u64) -> Take {
        let fingerprints = rows.iter().copied().collect();
        let segment = NewSegment { id: 1, fingerprints, greatest: None, body: "x".into() };
        let lane = self.lane(partition).await;
        let append = Append { lane, known_head, guard: Guard::Head, segment, now: Timestamp(5) };
        Take { name: ("q".into(), partition.into()), rows: rows.to_vec(), append: Some(append) }
    }

    async fn head(&self, partition: &str) -> u64 {
        let load = Load::Lane(self.lane(partition).await, "g".into());
        self.store.load(vec![load]).await.unwrap().remove(0).remove(0).lane.head
    }
}

/// Lanes with the payloads of their rows.
fn told(front: &InboxFront) -> Vec<(String, Vec<String>)> {
    let text = |bytes: &bytes::Bytes| String::from_utf8(bytes.to_vec()).unwrap();
    let lane = |lane: &bugle_store::InboxLane| {
        (format!("{}/{}", lane.name.0, lane.name.1), lane.rows.iter().map(|row| text(&row.payload)).collect())
    };
    front.lanes.iter().map(lane).collect()
}

fn lanes(wanted: &[(&str, &[&str])]) -> Vec<(String, Vec<String>)> {
    let lane = |(name, rows): &(&str, &[&str])| {
        ((*name).to_owned(), rows.iter().map(|row| (*row).to_owned()).collect())
    };
    wanted.iter().map(lane).collect()
}

async fn rows_are_told_lane_by_lane(mut on: Stage) {
    assert_eq!(on.front(|_| ()).await, InboxFront::default());
    for (queue, partition, payload) in
        [("b", "x", "1"), ("a", "z", "2"), ("a", "y", "3"), ("a", "z", "4"), ("c", "x", "5"), ("a", "z", "6")]
    {
        on.push(queue, partition, payload).await;
    }
    let all = on.front(|_| ()).await;
    assert_eq!(
        told(&all),
        lanes(&[("a/y", &["3"]), ("a/z", &["2", "4", "6"]), ("b/x", &["1"]), ("c/x", &["5"])])
    );
    assert!(!all.more);
    assert_eq!(all.lanes[0].rows[0].transaction_id, "t3");
    let some = on.front(|ask| ask.lanes = 2).await;
    assert_eq!((told(&some).len(), some.more), (2, true));
    // Two rows for each of four lanes.
    let some = on.front(|ask| ask.rows = 8).await;
    assert_eq!((told(&some)[1].clone(), some.more), (lanes(&[("a/z", &["2", "4"])]).remove(0), true));
    let some = on.front(|ask| ask.after = Some(("a".into(), "y".into()))).await;
    assert_eq!(told(&some)[0].0, "a/z");
    let some = on.front(|ask| (ask.without, ask.lanes) = (vec!["a".into(), "b".into()], 1)).await;
    assert_eq!(told(&some), lanes(&[("c/x", &["5"])]));
    let some = on.front(|ask| ask.bytes = 1).await;
    assert_eq!((told(&some), some.more), (lanes(&[("a/y", &["3"])]), true), "one at least");
    let depth = on.inbox().depth(100).await.unwrap();
    assert_eq!((depth.rows, depth.oldest.is_some()), (6, true));
    assert_eq!(on.inbox().depth(4).await.unwrap().rows, 4);
}

async fn rows_are_taken_whole_and_by_one(mut on: Stage) {
    for payload in ["1", "2", "3"] {
        on.push("q", "p", payload).await;
        on.push("q", "other", payload).await;
    }
    let front = on.front(|_| ()).await;
    let ids = |n: usize| front.lanes[n].rows.iter().map(|row| row.id).collect::<Vec<u64>>();
    let (other, p) = (ids(0), ids(1));
    // A lane that refuses keeps its rows, and holds up no other.
    let refused = on.take("other", &other, 7).await;
    let outcomes = on.inbox().take(vec![refused, on.take("p", &p[..2], 0).await]).await.unwrap();
    assert!(matches!(&outcomes[0], Err(TakeError::Append(AppendError::Moved(lane))) if lane.head == 0));
    assert_eq!(outcomes[1].as_ref().unwrap().unwrap().base, 0);
    assert_eq!((on.head("p").await, on.head("other").await), (2, 0));
    assert_eq!(told(&on.front(|_| ()).await), lanes(&[("q/other", &["1", "2", "3"]), ("q/p", &["3"])]));
    // One row is gone: nothing of the item happens.
    let outcomes = on.inbox().take(vec![on.take("p", &p, 2).await]).await.unwrap();
    assert_eq!(outcomes, [Err(TakeError::Taken)]);
    assert_eq!(on.head("p").await, 2);
    // Of many takers of the same rows one succeeds.
    let takes = futures_util::future::join_all((0..6).map(async |_| {
        let take = on.take("p", &p[2..], 2).await;
        on.inbox()
            .take(vec![Take { append: take.append.map(|a| Append { guard: Guard::Free, ..a }), ..take }])
            .await
    }));
    let won = takes.await.into_iter().filter(|outcome| outcome.as_ref().unwrap()[0].is_ok()).count();
    assert_eq!((won, on.head("p").await), (1, 3));
    // Rows whose messages are known are removed and nothing is appended.
    let known = Take { append: None, ..on.take("other", &other, 0).await };
    assert_eq!(on.inbox().take(vec![known]).await.unwrap(), [Ok(None)]);
    assert_eq!((on.front(|_| ()).await, on.head("other").await), (InboxFront::default(), 0));
    // A lane that does not exist.
    on.push("q", "gone", "1").await;
    let row = on.front(|_| ()).await.lanes[0].rows[0].id;
    let mut take = on.take("p", &[row], 0).await;
    take.name.1 = "gone".into();
    take.append.as_mut().unwrap().lane = LaneId::derive(on.queue, "gone");
    assert_eq!(on.inbox().take(vec![take]).await.unwrap(), [Err(TakeError::Append(AppendError::NoLane))]);
    assert_eq!(on.inbox().depth(9).await.unwrap().rows, 1);
}

async fn a_survey_tells_whether_there_is_anything(mut on: Stage) {
    let ask = async |on: &Stage| {
        let survey = Survey { since: Timestamp(0), recheck: Vec::new(), limit: 10, announce: None };
        on.store.survey(survey).await.unwrap().inbox
    };
    assert!(!ask(&on).await);
    on.run("BEGIN").await;
    on.push("q", "p", "1").await;
    assert!(!ask(&on).await, "not committed");
    on.run("COMMIT").await;
    assert!(ask(&on).await);
}

macro_rules! in_every_variant {
    ($($name:ident),*) => {
        mod one_bucket {
            $(#[tokio::test] async fn $name() { super::$name(super::stage(super::testdb::server().await, |_| ()).await).await })*
        }
        mod four_buckets {
            $(#[tokio::test] async fn $name() { super::$name(super::stage(super::testdb::server().await, |o| o.buckets = 4).await).await })*
        }
        mod without_extras {
            $(#[tokio::test] async fn $name() { super::$name(super::stage(super::testdb::server().await, |o| o.extras = super::Extras::NONE).await).await })*
        }
        mod behind_a_pooler {
            $(#[tokio::test] async fn $name() { super::$name(super::stage(super::testdb::pgbouncer().await, |o| o.pool.pooled = true).await).await })*
        }
    };
}
in_every_variant!(
    rows_are_told_lane_by_lane,
    rows_are_taken_whole_and_by_one,
    a_survey_tells_whether_there_is_anything
);

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_announces_once_on_the_servers_channel_unless_told_not_to() {
    let limit = Duration::from_secs(10);
    let (plain, long, odd) = (testdb::fresh_schema(), testdb::fresh_schema(), testdb::fresh_schema());
    for schema in [plain, format!("ä{long}{}", "ß".repeat(30)), format!("it's \"q\" $$ {odd}")] {
        let schema = schema[..schema.floor_char_boundary(63)].to_owned();
        let mut on = stage(testdb::server().await, |options| options.schema = schema).await;
        let config = Config::parse(&testdb::server().await).unwrap();
        let mut listener = Listener::connect(&config, on.store.channel(), "test", limit).await.unwrap();
        on.run("BEGIN; SET LOCAL bugle.notify = off").await;
        on.push("q", "p", "1").await;
        on.run("COMMIT; BEGIN").await;
        on.push("q", "p", "2").await;
        on.push("q", "p", "3").await;
        on.run("COMMIT").await;
        let end = "SELECT pg_notify($1, 'end')";
        let end = Statement::new(&on.schema, end, &[bugle_pg::Type::TEXT]);
        on.sql.query(&end, &[&on.store.channel()]).await.unwrap();
        // One for two messages, and none where it is switched off.
        for wanted in [INBOX_HINT, "end"] {
            let heard = tokio::time::timeout(limit, listener.recv()).await.expect(wanted).unwrap();
            assert_eq!(heard, wanted, "{}", on.schema);
        }
    }
}
