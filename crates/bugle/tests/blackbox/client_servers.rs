//! Our client and servers that crash, move and hide behind credentials.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bugle_client::{CancellationToken, Client, Error, NewMessage, PushStatus, RetryPolicy};
use bugle_pg::testdb;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::client_pushes::{message, numbers, patient, url};
use crate::common::{AnswerEater, On, PATIENCE, Server, WireCutter, until_true};

const MS: Duration = Duration::from_millis(1);
const LANES: usize = 4;
const EACH: usize = 150;

/// Pushes numbers into one partition, a few at a time, and tells how many are stored.
async fn produce(client: Client, lane: usize, stored: watch::Sender<usize>) {
    for first in (0..EACH).step_by(3) {
        let messages: Vec<NewMessage> =
            (first..first + 3).map(|n| message("q", &format!("lane{lane}"), lane * EACH + n)).collect();
        for pushed in client.push_all(&messages).await.unwrap() {
            assert!(matches!(pushed.status, PushStatus::Queued | PushStatus::Duplicate), "{pushed:?}");
        }
        stored.send_modify(|stored| *stored += 3);
    }
}

/// Kill the server whenever so many more are stored, and start it again at the same address.
async fn crash_again_and_again(on: &On, mut server: Server, stored: &mut watch::Receiver<usize>) -> Server {
    let listen = format!("--listen={}", server.address());
    for crash in 1..5 {
        let some = crash * LANES * EACH / 6;
        timeout(PATIENCE, stored.wait_for(|stored| *stored >= some)).await.expect("pushes go on").unwrap();
        server.kill();
        server = on.start_with(&[&listen]).await;
    }
    server
}

on_every_engine! {
    async fn nothing_is_lost_or_stored_twice_while_the_server_crashes_again_and_again(on: On) {
        let server = on.start().await;
        let client = patient(url(&server)).build().unwrap();
        let (stored, mut watched) = watch::channel(0);
        let producers: Vec<_> =
            (0..LANES).map(|lane| tokio::spawn(produce(client.clone(), lane, stored.clone()))).collect();
        let (stop, seen) = (CancellationToken::new(), Arc::new(Mutex::new(BTreeMap::<String, Vec<u64>>::new())));
        let consumer = client.consume("q").group("g").concurrency(2).batch(5).lease(Duration::from_secs(2));
        let running = tokio::spawn({
            let seen = seen.clone();
            consumer.backoff(10 * MS, 100 * MS).stop_on(stop.clone()).each(move |message| {
                let n = message.json::<Value>().unwrap()["n"].as_u64().unwrap();
                seen.lock().unwrap().entry(message.partition.clone()).or_default().push(n);
                async { Ok::<(), Error>(()) }
            })
        });
        let server = crash_again_and_again(&on, server, &mut watched).await;
        for producer in producers {
            timeout(PATIENCE, producer).await.expect("the producer ends").unwrap();
        }
        let all = |lane: usize| (lane * EACH..(lane + 1) * EACH).map(|n| n as u64).collect::<Vec<u64>>();
        let count = || seen.lock().unwrap().values().flatten().collect::<BTreeSet<_>>().len();
        until_true("all were handled", async || count() == LANES * EACH).await;
        stop.cancel();
        timeout(PATIENCE, running).await.expect("stops").unwrap().unwrap();
        // Stored once and in order, whatever the crashes made of the answers.
        let mut stored = numbers(&server, "q", "check").await;
        stored.sort_by_key(|n| *n as usize / EACH);
        assert_eq!(stored, (0..LANES).flat_map(all).collect::<Vec<u64>>());
        // Handled at least once, and for the first time in order.
        for (partition, numbers) in &*seen.lock().unwrap() {
            let mut known = BTreeSet::new();
            let first: Vec<u64> = numbers.iter().copied().filter(|n| known.insert(*n)).collect();
            assert!(first.is_sorted() && first.len() == EACH, "{partition}: {first:?}");
        }
        assert!(client.pop("q").group("g").send().await.unwrap().messages.is_empty(), "all are acknowledged");
    }

    async fn a_transaction_whose_answer_is_lost_happened_once(on: On) {
        let server = on.start().await;
        let eater = AnswerEater::before(server.address()).await;
        let client = patient(eater.url()).build().unwrap();
        client.push(message("in", "p", 7)).await.unwrap();
        let batch = client.pop("in").group("g").send().await.unwrap();
        eater.eat(2);
        let done = client.transaction().ack(&batch.messages[0]).push(message("out", "p", 8)).send().await.unwrap();
        assert!(eater.is_full() && done.results.is_empty(), "known from the second attempt: {done:?}");
        assert_eq!(numbers(&server, "out", "check").await, [8]);
        assert!(client.pop("in").group("g").send().await.unwrap().messages.is_empty());
    }

    async fn an_acknowledgement_whose_answer_is_lost_is_repeated_without_harm(on: On) {
        let server = on.start().await;
        let eater = AnswerEater::before(server.address()).await;
        let client = patient(eater.url()).build().unwrap();
        client.push(message("q", "p", 1)).await.unwrap();
        let batch = client.pop("q").group("g").send().await.unwrap();
        eater.eat(1);
        assert!(client.ack(&batch.messages[0]).await.unwrap().noop);
        assert!(client.pop("q").group("g").send().await.unwrap().messages.is_empty());
    }

    async fn credentials_are_sent_and_their_lack_is_told(on: On) {
        let keys = "--api-keys=app:read-write:write-write-write-write";
        let server = on.start_with(&[keys]).await;
        let refused = Client::new(url(&server)).unwrap().push(message("q", "p", 1)).await.unwrap_err();
        assert!(matches!(refused, Error::Refused { status: 401, .. }), "{refused:?}");
        let stranger = Client::builder(url(&server)).api_key("wrong-wrong-wrong-wrong").build().unwrap();
        let refused = stranger.consume("q").concurrency(2).each(|_| async { Ok::<(), Error>(()) }).await;
        assert!(matches!(refused, Err(Error::Refused { status: 401, .. })), "a consumer does not try forever");
        let friend = || Client::builder(url(&server));
        let by_key = friend().api_key("write-write-write-write").build().unwrap();
        by_key.push(message("q", "p", 1)).await.unwrap();
        let by_token = friend().bearer_token("write-write-write-write").build().unwrap();
        assert_eq!(by_token.pop("q").send().await.unwrap().messages.len(), 1);
    }

    async fn a_server_behind_tls_is_trusted_by_its_authority_only(on: On) {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let (cert, key) = (dir.path().join("cert.pem"), dir.path().join("key.pem"));
        std::fs::write(&cert, made.cert.pem()).unwrap();
        std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
        let flags = [format!("--tls-cert={}", cert.display()), format!("--tls-key={}", key.display())];
        let server = on.start_with(&flags).await;
        let secure = || {
            let url = format!("https://localhost:{}", server.address().port());
            Client::builder(url).retry(RetryPolicy::never())
        };
        let trusting = secure().certificate_authority(made.cert.pem());
        assert!(trusting.clone().build().unwrap().health().await.unwrap().healthy);
        trusting.clone().build().unwrap().push(message("q", "p", 1)).await.unwrap();
        trusting.http2().build().unwrap().push(message("q", "p", 2)).await.unwrap();
        let wary = secure().build().unwrap().push(message("q", "p", 3)).await.unwrap_err();
        assert!(matches!(wary, Error::Unavailable { .. }), "{wary:?}");
    }
}

#[tokio::test]
async fn a_consumer_outlasts_an_outage_of_the_database() {
    let (wire, address) = WireCutter::before(&testdb::server().await).await;
    let on = On::database(&address, &[]);
    let server = on.start_with(&["--log-level=off"]).await;
    let client = patient(url(&server)).build().unwrap();
    let (stop, seen) = (CancellationToken::new(), Arc::new(Mutex::new(Vec::new())));
    let consumer = client.consume("q").group("g").wait(100 * MS).stop_on(stop.clone());
    let running = tokio::spawn({
        let seen = seen.clone();
        consumer.each(move |message| {
            seen.lock().unwrap().push(message.json::<Value>().unwrap());
            async { Ok::<(), Error>(()) }
        })
    });
    client.push(message("q", "p", 0)).await.unwrap();
    // Once it is acknowledged the consumer does nothing but ask for more.
    server.until("it is done", |m| m.get("bugle_messages_total{verb=\"ack\"}") == 1.0).await;
    wire.cut();
    let pops = "bugle_requests_total{verb=\"pop\"}";
    let before = server.metrics().await;
    let pushing = tokio::spawn({
        let client = client.clone();
        async move { client.push(message("q", "p", 1)).await }
    });
    server.until("it asked again and again", |m| m.since(&before, pops) >= 3.0).await;
    assert!(!client.health().await.unwrap().healthy);
    wire.mend();
    timeout(PATIENCE, pushing).await.expect("pushed in the end").unwrap().unwrap();
    until_true("it came after the outage", async || seen.lock().unwrap().len() >= 2).await;
    stop.cancel();
    timeout(PATIENCE, running).await.expect("stops").unwrap().unwrap();
    assert_eq!(numbers(&server, "q", "check").await, [0, 1]);
}

#[tokio::test]
async fn producers_and_consumers_go_over_to_the_other_server() {
    let on = On::postgres().await;
    let (first, second) = (on.start().await, on.start().await);
    let listen = format!("--listen={}", first.address());
    let client = patient(url(&first)).server(url(&second)).build().unwrap();
    let (stop, seen) = (CancellationToken::new(), Arc::new(Mutex::new(Vec::new())));
    let running = tokio::spawn({
        let seen = seen.clone();
        client.consume("q").group("g").stop_on(stop.clone()).each(move |message| {
            seen.lock().unwrap().push(message.json::<Value>().unwrap());
            async { Ok::<(), Error>(()) }
        })
    });
    client.push(message("q", "p", 0)).await.unwrap();
    until_true("it came", async || seen.lock().unwrap().len() == 1).await;
    first.until_waiting(1).await;
    first.kill();
    assert_eq!(client.push(message("q", "p", 1)).await.unwrap().status, PushStatus::Queued);
    until_true("it came by the other server", async || seen.lock().unwrap().len() == 2).await;
    second.until_waiting(1).await;
    // Back again, when the second goes and the first is there once more.
    let first = on.start_with(&[listen]).await;
    second.kill();
    client.push(message("q", "p", 2)).await.unwrap();
    until_true("it came by the first server", async || seen.lock().unwrap().len() == 3).await;
    stop.cancel();
    assert_eq!(timeout(PATIENCE, running).await.expect("stops").unwrap().unwrap().completed, 3);
    assert_eq!(*seen.lock().unwrap(), [json!({"n": 0}), json!({"n": 1}), json!({"n": 2})]);
    assert_eq!(numbers(&first, "q", "check").await, [0, 1, 2]);
}
