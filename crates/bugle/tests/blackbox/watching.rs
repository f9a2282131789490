//! What the dashboard lives on: events, the waiting room, paused queues, previews of seeks, sorted lists.

use serde_json::{Value, json};
use tokio::time::timeout;

use crate::common::{Events, PATIENCE, ids, until_true};

on_every_engine! {
    async fn events_tell_of_traffic_and_of_nothing_else(on: On) {
        let server = on.start().await;
        let mut events = Events::listen(&server, "server,queues,totals").await;
        let before = events.next("server").await;
        assert_eq!(before["store"]["connected"], true);
        server.push_ids("q", "p", &["a", "b"]).await;
        let moved = events.until("queues", |event| event["queues"] != json!([])).await;
        assert_eq!(moved["queues"][0]["name"], "q");
        assert_eq!(moved["queues"][0]["pushed"], 2);
        let after = events.until("server", |event| event["push"]["messages"] != before["push"]["messages"]).await;
        assert_eq!(after["push"]["messages"].as_u64(), before["push"]["messages"].as_u64().map(|n| n + 2));
        let totals = events.until("totals", |event| event["messages"]["pending"] == 2).await;
        assert_eq!(totals["queues"], 1);
    }

    async fn only_the_topics_asked_for_are_told_and_others_are_refused(on: On) {
        let server = on.start().await;
        let mut events = Events::listen(&server, "waiting").await;
        for _ in 0..2 {
            assert_eq!(events.any().await.0, "waiting");
        }
        let refused = server.get("/api/v1/events?topics=server,weather").await;
        assert_eq!(refused.status, 400);
        assert_eq!(
            refused.json()["error"],
            "topics must be a list of server, queues, totals, waiting, separated by commas"
        );
    }

    async fn the_waiting_room_tells_who_waits_for_what(on: On) {
        let server = on.start().await;
        server.push_ids("q", "p", &["seen"]).await;
        let mut waiters = Vec::new();
        for path in ["/queue/q/partition/x", "/queue/q", "/queue/q", "?namespace=n"] {
            let client = server.client();
            let mark = if path.contains('?') { '&' } else { '?' };
            let rest = format!("{path}{mark}wait=true&timeout=60000&consumerGroup=g&subscriptionMode=new");
            waiters.push(tokio::spawn(async move { client.pop(&rest).await }));
        }
        // Where the floor looks often, one of them may be looking just now.
        let mut room = Value::Null;
        until_true("all are parked", async || {
            room = server.get("/api/v1/waiting").await.json();
            room["waitersTotal"] == 4
        })
        .await;
        assert_eq!((&room["waiting"], &room["keysTotal"]), (&json!(4), &json!(3)));
        let key = &room["keys"][0];
        assert_eq!((&key["queue"], &key["partition"], &key["waiters"]), (&json!("q"), &json!(null), &json!(2)));
        assert_eq!(key["consumerGroup"], "g");
        let named = |field: &str, name: &str| {
            let keys = room["keys"].as_array().unwrap();
            keys.iter().any(|key| key[field] == name && key["waiters"] == 1)
        };
        assert!(named("partition", "x") && named("namespace", "n"), "{room}");
        let waiter = &room["waiters"][0];
        assert!(waiter["peer"].as_str().unwrap().starts_with("127.0.0.1:"), "{waiter}");
        assert!(waiter["leftMs"].as_u64().unwrap() > 1000);
        until_true("a part is told", async || {
            let few = server.get("/api/v1/waiting?limit=1").await.json();
            few["waiters"].as_array().unwrap().len() == 1 && few["waitersTotal"] == 4
        })
        .await;
        waiters.iter().for_each(tokio::task::JoinHandle::abort);
        until_true("all are gone", async || server.get("/api/v1/waiting").await.json()["waitersTotal"] == 0).await;
    }

    async fn who_was_served_is_told_while_somebody_watches(on: On) {
        let server = on.start().await;
        let mut events = Events::listen(&server, "waiting").await;
        events.next("waiting").await;
        let client = server.client();
        let waiter =
            tokio::spawn(async move { client.pop("/queue/q?wait=true&timeout=60000&consumerGroup=g").await });
        server.until_waiting(1).await;
        server.push_ids("q", "p", &["t"]).await;
        timeout(PATIENCE, waiter).await.expect("woken").unwrap().expect("a message");
        let told = events.until("waiting", |event| event["served"] != json!([])).await;
        let served = &told["served"][0];
        assert_eq!((&served["queue"], &served["partition"]), (&json!("q"), &json!("p")));
        assert_eq!((&served["consumerGroup"], &served["messages"]), (&json!("g"), &json!(1)));
        assert!(served["waitedMs"].as_f64().unwrap() > 0.0);
        assert_eq!(served["source"], "local");
        assert!(told["wakes"]["local"].as_u64().unwrap() > 0);
        assert!(told["batching"]["calls"].as_u64().unwrap() > 0);
        drop(events);
        until_true("nobody watches", async || server.get("/api/v1/waiting").await.json()["served"] == json!([])).await;
    }

    async fn a_paused_queue_delivers_nothing_until_it_goes_on(on: On) {
        let server = on.start().await;
        let set = async |paused: bool| {
            let options = json!({"queue": "q", "options": {"paused": paused}});
            assert_eq!(server.post("/api/v1/configure", options).await.json()["options"]["paused"], paused);
        };
        server.push_ids("q", "a", &["1"]).await;
        set(true).await;
        assert_eq!(server.get("/api/v1/resources/queues/q").await.json()["options"]["paused"], true);
        for path in ["/queue/q", "/queue/q/partition/a", "/queue/q?wait=true&timeout=200"] {
            assert_eq!(server.pop(path).await, None, "{path}");
        }
        let waiter = |rest: &'static str| {
            let client = server.client();
            tokio::spawn(async move { client.pop(rest).await })
        };
        let by_queue = waiter("/queue/q?wait=true&timeout=60000&batch=10");
        server.until_waiting(1).await;
        server.push_ids("q", "a", &["2"]).await;
        let by_lane = waiter("/queue/q/partition/b?wait=true&timeout=60000&consumerGroup=other");
        server.until_waiting(2).await;
        server.push_ids("q", "b", &["3"]).await;
        assert_eq!(server.pop("/queue/q?consumerGroup=other").await, None, "no group gets anything");
        assert_eq!(server.get("/api/v1/waiting").await.json()["waiting"], 2, "pushes wake nobody");
        set(false).await;
        let popped = timeout(PATIENCE, by_queue).await.expect("goes on").unwrap().expect("messages");
        let lane = timeout(PATIENCE, by_lane).await.expect("goes on").unwrap().expect("a message");
        assert_eq!(ids(&lane), ["3"]);
        // Which lane came first is the server's choice.
        let rest = server.pop_some("/queue/q?batch=10&partitions=10").await;
        let mut all: Vec<_> = ids(&popped).into_iter().chain(ids(&rest)).collect();
        all.sort_unstable();
        assert_eq!(all, ["1", "2", "3"]);
    }

    async fn what_was_taken_before_a_pause_is_acknowledged_in_it(on: On) {
        let server = on.start().await;
        server.push_ids("q", "a", &["1", "2"]).await;
        let held = server.pop_some("/queue/q?batch=1").await;
        server.post("/api/v1/configure", json!({"queue": "q", "options": {"paused": true}})).await;
        server.ack_all(&held, "completed").await;
        assert_eq!(server.pop("/queue/q").await, None);
        server.post("/api/v1/configure", json!({"queue": "q", "options": {"paused": false}})).await;
        assert_eq!(ids(&server.pop_some("/queue/q").await), ["2"]);
    }

    async fn a_seek_can_be_looked_at_before_it_is_done(on: On) {
        let server = on.start().await;
        server.push_ids("q", "a", &["1", "2", "3"]).await;
        server.push_ids("q", "b", &["4"]).await;
        server.pop_some("/queue/q/partition/a?consumerGroup=g&batch=2&autoAck=true").await;
        let seek = async |partition: &str, body: Value| {
            let path = format!("/api/v1/consumer-groups/g/queues/q{partition}/seek");
            server.post(&path, body).await.json()
        };
        let told = seek("", json!({"toBeginning": true, "dryRun": true})).await;
        assert_eq!(told["preview"], json!({"messages": 4, "partitions": 2, "pending": 2}));
        assert_eq!(told["partitionsUpdated"], 0);
        let end = seek("", json!({"toEnd": true, "dryRun": true})).await;
        assert_eq!(end["preview"], json!({"messages": 0, "partitions": 0, "pending": 2}));
        let past = seek("", json!({"timestamp": "2020-01-01T00:00:00Z", "dryRun": true})).await;
        assert_eq!(past["preview"]["messages"], 4);
        let lane = seek("/partitions/a", json!({"toBeginning": true, "dryRun": true})).await;
        assert_eq!(lane["preview"], json!({"messages": 3, "partitions": 1, "pending": 1}));
        assert_eq!(lane["updated"], false);
        assert_eq!(ids(&server.pop_some("/queue/q/partition/a?consumerGroup=g&batch=9").await), ["3"], "nothing moved");
        let done = seek("", json!({"toBeginning": true})).await;
        assert_eq!(done.get("preview"), None);
        assert_eq!(ids(&server.pop_some("/queue/q/partition/a?consumerGroup=g&batch=9").await), ["1", "2", "3"]);
        let refused = server
            .post("/api/v1/consumer-groups/g/queues/q/seek", json!({"toEnd": true, "dryRun": "yes"}))
            .await;
        assert_eq!((refused.status, refused.json()["error"].as_str().unwrap()), (400, "dryRun must be true or false"));
    }

    async fn lists_of_queues_are_sorted_as_asked(on: On) {
        let server = on.start().await;
        for (queue, count) in [("beta", 1), ("alpha", 3), ("gamma", 2)] {
            let names: Vec<String> = (0..count).map(|n| format!("{queue}{n}")).collect();
            server.push_ids(queue, "p", &names.iter().map(String::as_str).collect::<Vec<_>>()).await;
        }
        for (query, wanted) in [
            ("", ["gamma", "alpha", "beta"]),
            ("sort=created&order=asc", ["beta", "alpha", "gamma"]),
            ("sort=name", ["alpha", "beta", "gamma"]),
            ("sort=name&order=desc", ["gamma", "beta", "alpha"]),
            ("sort=pending", ["alpha", "gamma", "beta"]),
            ("sort=total&order=asc", ["beta", "gamma", "alpha"]),
            ("sort=partitions", ["alpha", "beta", "gamma"]),
        ] {
            let list = server.get(&format!("/api/v1/resources/queues?{query}")).await.json();
            let names: Vec<&str> = list["queues"].as_array().unwrap().iter().filter_map(|q| q["name"].as_str()).collect();
            assert_eq!(names, wanted, "{query}");
        }
        let page = server.get("/api/v1/resources/queues?sort=pending&limit=1&offset=1").await.json();
        assert_eq!((&page["queues"][0]["name"], &page["total"]), (&json!("gamma"), &json!(3)));
        for (query, complaint) in [
            ("sort=colour", "sort must be one of created, name, pending, processing, total, partitions, deadLetter"),
            ("order=up", "order must be asc or desc"),
        ] {
            let refused = server.get(&format!("/api/v1/resources/queues?{query}")).await;
            assert_eq!((refused.status, refused.json()["error"].as_str().unwrap()), (400, complaint));
        }
    }

    async fn browsers_get_the_dashboard_and_programs_the_greeting(on: On) {
        let server = on.start().await;
        let greeting = server.get("/").await.json();
        assert_eq!(greeting["server"], "bugle");
        let page = server.send_with("GET", "/", &[("accept", "text/html")], "").await;
        assert_eq!(page.status, 200);
        let text = String::from_utf8_lossy(&page.body).into_owned();
        let script = text.split('"').find(|part| part.ends_with("/app.js")).expect("a script");
        let file = server.get(script).await;
        assert_eq!(file.status, 200);
        assert!(file.headers["cache-control"].to_str().unwrap().contains("immutable"));
        assert_eq!(server.get("/assets/0/app.js").await.status, 404);
    }
}
