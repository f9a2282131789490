//! Messages that applications commit in their own transactions: once, in order, at once, and only if the transaction commits.
//!
//! Where nothing else is said the floor is ten minutes away, so that only the transaction's own announcement can have
//! delivered in time.

use std::collections::HashMap;

use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::common::{On, Server, Sql, ids, until_true};
use crate::waking::NO_FLOOR;
use crate::waking_servers::by_notify;

/// A server that hears what transactions announce.
async fn listening(on: &On) -> Server {
    let server = on.start_with(&NO_FLOOR).await;
    server.until("it listens", |m| m.get("bugle_hearing{state=\"connected\"}") == 1.0).await;
    server
}

fn push(queue: &str, partition: &str, id: &str) -> String {
    format!("SELECT {{schema}}.push('{queue}', '{partition}', '{{\"n\": \"{id}\"}}', '{id}');")
}

/// Rows in the inbox.
async fn left(sql: &mut Sql) -> i64 {
    sql.rows("SELECT count(*) FROM {schema}.inbox").await[0].get(0)
}

/// Take everything out of a queue: ids by partition, in order.
async fn drained(server: &Server, queue: &str, wanted: usize) -> HashMap<String, Vec<String>> {
    let mut found: HashMap<String, Vec<String>> = HashMap::new();
    let mut count = 0;
    while count < wanted {
        let rest = format!("/queue/{queue}?autoAck=true&batch=5000&partitions=100&wait=true&timeout=20000");
        let popped = server.pop(&rest).await.unwrap_or_else(|| panic!("{count} of {wanted} in {queue}"));
        for message in popped["messages"].as_array().unwrap() {
            let id = message["transactionId"].as_str().unwrap().to_owned();
            found.entry(message["partition"].as_str().unwrap().to_owned()).or_default().push(id);
            count += 1;
        }
    }
    assert_eq!(
        server.pop(&format!("/queue/{queue}?autoAck=true&batch=10")).await,
        None,
        "no more than {wanted}"
    );
    found
}

/// Health, and the state that servers share.
async fn told_by(server: &Server) -> (Value, Value) {
    let state = server.get("/api/v1/system/shared-state").await.expect(200);
    (server.get("/health").await.expect(200), state)
}

on_every_database! {
    async fn a_commit_is_delivered_once_and_at_once_and_a_rollback_never(on: On) {
        let (server, mut sql) = (listening(&on).await, Sql::to(&on).await);
        let waiter = server.park("/queue/q?autoAck=true&batch=10").await;
        sql.run(&format!("BEGIN; {} ROLLBACK", push("q", "p", "undone"))).await;
        sql.run(&format!("BEGIN; {} {} COMMIT", push("q", "p", "one"), push("q", "p", "two"))).await;
        let popped = waiter.answer().await;
        assert_eq!(ids(&popped), ["one", "two"]);
        assert_eq!(popped["messages"][0]["data"], json!({"n": "one"}), "{popped}");
        assert_eq!(popped["messages"][0]["partition"], "p");
        assert_eq!(server.pop("/queue/q").await, None);
        assert_eq!(left(&mut sql).await, 0);
        let metrics = server.metrics().await;
        assert_eq!(metrics.get("bugle_inbox_moved_total{result=\"stored\"}"), 2.0);
        assert_eq!(metrics.get("bugle_inbox_delay_seconds_count"), 1.0);
        assert_eq!(metrics.get("bugle_inbox_waiting"), 0.0);
        // Another server that has nothing to do with it finds the queue as any other.
        let other = on.start().await;
        assert_eq!(ids(&other.pop_some("/queue/q?consumerGroup=late&batch=10").await), ["one", "two"]);
    }

    async fn a_transaction_that_commits_late_is_not_passed_over(on: On) {
        let (server, mut slow, mut fast) = (listening(&on).await, Sql::to(&on).await, Sql::to(&on).await);
        slow.run(&format!("BEGIN; {}", push("q", "p", "slow 1"))).await;
        let waiter = server.park("/queue/q?autoAck=true").await;
        fast.run(&push("q", "p", "fast")).await;
        assert_eq!(ids(&waiter.answer().await), ["fast"], "nobody waits for a transaction that is open");
        let waiter = server.park("/queue/q?autoAck=true&batch=10").await;
        slow.run(&format!("{} COMMIT", push("q", "p", "slow 2"))).await;
        assert_eq!(ids(&waiter.answer().await), ["slow 1", "slow 2"]);
    }

    async fn two_servers_move_each_message_once_and_in_order(on: On) {
        const WRITERS: usize = 6;
        const EACH: usize = 60;
        let (a, b) = by_notify(&on).await;
        let mut writers = JoinSet::new();
        for writer in 0..WRITERS {
            let mut sql = Sql::to(&on).await;
            writers.spawn(async move {
                for n in 0..EACH {
                    // Two writers to a lane.
                    sql.run(&push("q", &format!("lane {}", writer / 2), &format!("{writer} {n:03}"))).await;
                }
            });
        }
        let found = drained(&a, "q", WRITERS * EACH).await;
        writers.join_all().await;
        assert_eq!(found.len(), WRITERS / 2);
        for (lane, ids) in found {
            for writer in 0..WRITERS {
                let own: Vec<&String> = ids.iter().filter(|id| id.starts_with(&format!("{writer} "))).collect();
                let wanted = if lane == format!("lane {}", writer / 2) { EACH } else { 0 };
                assert_eq!(own.len(), wanted);
                assert!(own.is_sorted(), "{lane}: {own:?}");
            }
        }
        let stored = "bugle_inbox_moved_total{result=\"stored\"}";
        let moved = a.metrics().await.get(stored) + b.metrics().await.get(stored);
        assert_eq!(moved, (WRITERS * EACH) as f64);
    }

    async fn a_server_killed_while_it_moves_loses_and_repeats_nothing(on: On) {
        const ROWS: usize = 60_000;
        const LANES: usize = 7;
        on.start().await.terminate().await;
        let mut sql = Sql::to(&on).await;
        // Without transaction ids that anybody could recognize: what is stored twice shows in the numbers of the payloads.
        sql.run(&format!(
            "SELECT count({{schema}}.push('q', (n % {LANES})::text, n::text)) FROM generate_series(1, {ROWS}) n"
        ))
        .await;
        for _ in 0..3 {
            let server = on.start().await;
            server.until("it moves", |m| m.get("bugle_inbox_moved_total{result=\"stored\"}") > 0.0).await;
            server.kill();
        }
        let server = on.start().await;
        let mut next: Vec<usize> = (0..LANES).map(|lane| if lane == 0 { LANES } else { lane }).collect();
        let mut count = 0;
        while count < ROWS {
            let popped = server.pop_some("/queue/q?autoAck=true&batch=5000&partitions=100&wait=true&timeout=20000").await;
            for message in popped["messages"].as_array().unwrap() {
                let lane: usize = message["partition"].as_str().unwrap().parse().unwrap();
                assert_eq!(message["data"], json!(next[lane]), "lane {lane}");
                next[lane] += LANES;
                count += 1;
            }
        }
        assert_eq!(server.pop("/queue/q").await, None);
        until_true("the inbox is empty", async || left(&mut sql).await == 0).await;
    }

    async fn what_is_announced_by_nobody_is_found_by_looking(on: On) {
        let server = on.start_with(&["--pop-wait-with-carrier=600ms"]).await;
        server.until("it listens", |m| m.get("bugle_hearing{state=\"connected\"}") == 1.0).await;
        let mut sql = Sql::to(&on).await;
        let waiter = server.park("/queue/q?autoAck=true").await;
        let before = server.metrics().await;
        sql.run(&format!("BEGIN; SET LOCAL bugle.notify = off; {} COMMIT", push("q", "p", "quiet"))).await;
        assert_eq!(ids(&waiter.answer().await), ["quiet"]);
        assert!(server.metrics().await.since(&before, "bugle_floor_surveys_total") >= 1.0);
        drop(server);
        // A server that does not listen, with somebody who waits and with somebody who only asks.
        let deaf = on.start_with(&["--notify=false"]).await;
        let waiter = deaf.park("/queue/q?autoAck=true").await;
        sql.run(&push("q", "p", "deaf")).await;
        assert_eq!(ids(&waiter.answer().await), ["deaf"]);
        sql.run(&push("q", "p", "asked for")).await;
        let mut popped = None;
        until_true("found by asking", async || {
            popped = deaf.pop("/queue/q?autoAck=true").await;
            popped.is_some()
        })
        .await;
        assert_eq!(ids(&popped.unwrap()), ["asked for"]);
    }

    async fn a_repeated_id_is_stored_once_and_leaves_the_inbox(on: On) {
        let (server, mut sql) = (listening(&on).await, Sql::to(&on).await);
        server.push_ids("q", "p", &["a"]).await;
        sql.run(&format!("BEGIN; {} {} {} COMMIT", push("q", "p", "a"), push("q", "p", "b"), push("q", "p", "b"))).await;
        sql.run(&push("q", "p", "a")).await;
        server.until("all are moved", |m| m.get("bugle_inbox_moved_total{result=\"duplicate\"}") == 3.0).await;
        assert_eq!(left(&mut sql).await, 0);
        assert_eq!(ids(&server.pop_some("/queue/q?batch=10&autoAck=true").await), ["a", "b"]);
    }

    async fn a_full_queue_is_waited_for_and_holds_up_no_other(on: On) {
        let (server, mut sql) = (listening(&on).await, Sql::to(&on).await);
        server.configure(json!({"queue": "full", "options": {"maxSize": 2, "enforce": ["maxSize"]}})).await;
        let rows: String = (0..5).map(|n| push("full", "p", &n.to_string())).collect();
        sql.run(&format!("BEGIN; {rows} COMMIT")).await;
        server.until("it is full", |m| m.get("bugle_inbox_blocked_queues") == 1.0).await;
        server.until("and counted", |m| m.get("bugle_inbox_waiting") == 3.0).await;
        let (health, state) = told_by(&server).await;
        assert_eq!(health["status"], "healthy", "one queue is not the server: {health}");
        for told in [&health["inbox"], &state["inbox"]] {
            assert_eq!((&told["waiting"], &told["blocked"]), (&json!(3), &json!(1)), "{told}");
            let queue = &told["blockedQueues"][0];
            assert_eq!(queue["queue"], "full", "{told}");
            assert!(queue["reason"].as_str().unwrap().contains("maxSize"), "{told}");
            assert!(queue["blockedForMs"].as_f64().unwrap() >= 0.0 && told["oldestMs"].as_f64().unwrap() > 0.0, "{told}");
        }
        assert_eq!(server.get("/health/live").await.status, 200);
        assert_eq!(server.get("/health/ready").await.status, 200);
        sql.run(&push("other", "p", "passes")).await;
        assert_eq!(ids(&server.pop_some("/queue/other?wait=true").await), ["passes"]);
        assert_eq!(drained(&server, "full", 5).await["p"], ["0", "1", "2", "3", "4"]);
        server.until("nothing waits", |m| m.get("bugle_inbox_blocked_queues") == 0.0).await;
        let (health, _) = told_by(&server).await;
        assert_eq!((&health["inbox"]["blocked"], &health["inbox"]["blockedQueues"]), (&json!(0), &json!([])));
    }

    async fn messages_for_an_encrypted_queue_wait_for_a_key(on: On) {
        let server = listening(&on).await;
        server.configure(json!({"queue": "secret", "options": {"encryptionEnabled": true}})).await;
        let mut sql = Sql::to(&on).await;
        sql.run(&push("secret", "p", "s")).await;
        server.until("it has no key", |m| m.get("bugle_inbox_blocked_queues") == 1.0).await;
        let (health, _) = told_by(&server).await;
        let reason = health["inbox"]["blockedQueues"][0]["reason"].as_str().unwrap();
        assert!(reason.contains("encryption"), "{health}");
        drop(server);
        let key = format!("--encryption-key=k:{}", "00".repeat(32));
        let server = on.start_with(&[&key]).await;
        let popped = server.pop_some("/queue/secret?wait=true&autoAck=true").await;
        assert_eq!(popped["messages"][0]["data"], json!({"n": "s"}));
        let kept = sql.rows("SELECT position('\"n\"'::bytea IN body) FROM {schema}.segments s JOIN {schema}.lanes USING (lane_id) JOIN {schema}.queues q USING (queue_id) WHERE q.name = 'secret'").await;
        assert_eq!(kept[0].get::<_, i32>(0), 0, "it is kept encrypted");
    }

    async fn nothing_is_moved_while_pushes_are_in_maintenance(on: On) {
        let (server, mut sql) = (listening(&on).await, Sql::to(&on).await);
        server.post("/api/v1/system/maintenance", json!({"enabled": true})).await.expect(200);
        sql.run(&push("q", "p", "later")).await;
        let waiter = server.park("/queue/q?autoAck=true").await;
        assert_eq!(left(&mut sql).await, 1);
        server.post("/api/v1/system/maintenance", json!({"enabled": false})).await.expect(200);
        assert_eq!(ids(&waiter.answer().await), ["later"]);
    }

    async fn a_role_of_its_own_can_push_and_nothing_else(on: On) {
        let (server, mut sql) = (listening(&on).await, Sql::to(&on).await);
        let role = format!("app_{}", on.schema());
        sql.run(&format!("CREATE ROLE {role} LOGIN")).await;
        let mut app = Sql::by(&on, &role).await;
        let pushing = push("q", "p", "mine");
        assert!(app.refused(&pushing).await.contains("permission denied for schema"));
        sql.run(&format!("GRANT USAGE ON SCHEMA {{schema}} TO {role}")).await;
        assert!(app.refused(&pushing).await.contains("permission denied for function"));
        sql.run(&format!(
            "GRANT EXECUTE ON FUNCTION {{schema}}.push(text, text, text, text), {{schema}}.push(text, text, json, text),
                 {{schema}}.push(text, text, jsonb, text) TO {role}"
        ))
        .await;
        let waiter = server.park("/queue/q?autoAck=true&batch=3").await;
        app.run(&format!(
            "BEGIN; {pushing} SELECT {{schema}}.push('q', 'p', jsonb_build_object('b', 1), 'b');
             SELECT {{schema}}.push('q', 'p', json_build_object('c', 1), 'c'); COMMIT"
        ))
        .await;
        assert_eq!(ids(&waiter.answer().await), ["mine", "b", "c"]);
        for statement in [
            "SELECT FROM {schema}.inbox",
            "INSERT INTO {schema}.inbox (queue, partition, transaction_id, written_at, payload) VALUES ('q', 'p', 't', 0, '1')",
            "DELETE FROM {schema}.inbox",
            "SELECT FROM {schema}.segments",
            "UPDATE {schema}.queues SET name = name",
            "SELECT nextval('{schema}.inbox_id_seq')",
        ] {
            let refused = app.refused(statement).await;
            assert!(refused.contains("permission denied"), "{statement}: {refused}");
        }
        sql.run(&format!("DROP OWNED BY {role}; DROP ROLE {role}")).await;
    }

    async fn bad_arguments_are_refused_by_name_and_undo_nothing_else(on: On) {
        let (server, mut sql) = (listening(&on).await, Sql::to(&on).await);
        let long = "x".repeat(256);
        for (arguments, wanted) in [
            ("'', 'p', '1'", "queue must not be empty"),
            ("NULL, 'p', '1'", "queue must not be empty"),
            (&format!("'{long}', 'p', '1'"), "queue is longer than 255 bytes"),
            ("'__system_metrics', 'p', '1'", "queue must not begin with __system_"),
            ("'q', '', '1'", "partition must not be empty"),
            (&format!("'q', '{long}', '1'"), "partition is longer than 255 bytes"),
            ("'q', 'p', NULL", "payload must not be NULL"),
            ("'q', 'p', '{broken'", "payload is not JSON"),
            ("'q', 'p', ''", "payload is not JSON"),
            ("'q', 'p', repeat(' ', 67108865)", "payload is longer than 67108864 bytes"),
            (&format!("'q', 'p', '1', '{long}'"), "transaction_id is longer than 255 bytes"),
        ] {
            let refused = sql.refused(&format!("SELECT {{schema}}.push({arguments})")).await;
            assert!(refused.contains(wanted), "{arguments}: {refused}");
        }
        assert_eq!(left(&mut sql).await, 0);
        // What may be left out.
        let waiter = server.park("/queue/q?autoAck=true").await;
        let id: String = sql.rows("SELECT {schema}.push('q', NULL, '[1,  2]')").await[0].get(0);
        let popped = waiter.answer().await;
        assert_eq!(ids(&popped), [&id]);
        assert_eq!((&popped["messages"][0]["partition"], id.len(), &id[14..15]), (&json!("Default"), 36, "7"));
        let longest = "x".repeat(255);
        let waiter = server.park(&format!("/queue/{longest}?autoAck=true")).await;
        sql.run(&push(&longest, &longest, &longest)).await;
        assert_eq!(ids(&waiter.answer().await), [&longest]);
    }

    async fn rows_of_a_deleted_queue_make_it_anew(on: On) {
        let (server, mut sql) = (listening(&on).await, Sql::to(&on).await);
        server.push_ids("q", "p", &["old"]).await;
        server.post("/api/v1/system/maintenance", json!({"enabled": true})).await.expect(200);
        sql.run(&push("q", "p", "new")).await;
        let answer = server.send("DELETE", "/api/v1/resources/queues/q", "").await;
        assert!(answer.status < 300, "{:?}", answer.body);
        server.post("/api/v1/system/maintenance", json!({"enabled": false})).await.expect(200);
        let popped: Value = server.pop_some("/queue/q?wait=true&autoAck=true&batch=10").await;
        assert_eq!(ids(&popped), ["new"]);
    }
}
