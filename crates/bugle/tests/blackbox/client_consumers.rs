//! Our client as a consumer: leases, failures, panics, order, stops.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use bugle_client::{
    CancellationToken, Client, Consumer, DeadLetterFilter, Error, Message, QueueOptions, SeekTo, Subscription,
};
use serde_json::Value;
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::client_pushes::{message, numbers, patient, url};
use crate::common::{AnswerEater, On, PATIENCE, Server, until_true};

fn n(message: &Message) -> u64 {
    message.json::<Value>().unwrap()["n"].as_u64().unwrap()
}

/// What handlers saw, in their order.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<(String, u64)>>>);

impl Seen {
    fn add(&self, message: &Message) {
        self.0.lock().unwrap().push((message.partition.clone(), n(message)));
    }

    fn numbers(&self) -> Vec<u64> {
        self.0.lock().unwrap().iter().map(|(_, n)| *n).collect()
    }

    async fn until(&self, count: usize) {
        until_true("all were seen", async || self.0.lock().unwrap().len() >= count).await;
    }
}

type Running = JoinHandle<Result<bugle_client::Consumed, Error>>;

/// Stop a consumer; what it did.
async fn stopped(stop: &CancellationToken, running: Running) -> bugle_client::Consumed {
    stop.cancel();
    timeout(PATIENCE, running).await.expect("the consumer stops").unwrap().unwrap()
}

async fn start(on: &On) -> (Server, Client) {
    let server = on.start().await;
    let client = patient(url(&server)).build().unwrap();
    (server, client)
}

async fn push(client: &Client, partition: &str, numbers: std::ops::Range<usize>) {
    let messages: Vec<_> = numbers.map(|n| message("q", partition, n)).collect();
    client.push_all(&messages).await.unwrap();
}

fn record(consumer: Consumer, seen: &Seen) -> Running {
    let seen = seen.clone();
    tokio::spawn(consumer.each(move |message| {
        seen.add(&message);
        async { Ok::<(), Error>(()) }
    }))
}

on_every_engine! {
    async fn every_group_gets_every_message_once_and_in_order(on: On) {
        let (_server, client) = start(&on).await;
        let partitions = ["a", "b", "c", "d", "e"];
        let (stop, seen, other) = (CancellationToken::new(), Seen::default(), Seen::default());
        let consumer = || client.consume("q").concurrency(3).batch(7).partitions(2).stop_on(stop.clone());
        let first = record(consumer().group("one"), &seen);
        let second = record(consumer().group("two").autopilot(), &other);
        for partition in partitions {
            push(&client, partition, 0..40).await;
        }
        seen.until(200).await;
        other.until(200).await;
        for (seen, running) in [(&seen, first), (&other, second)] {
            let consumed = stopped(&stop, running).await;
            assert_eq!((consumed.completed, consumed.failed, consumed.rejected), (200, 0, 0));
            let seen = seen.0.lock().unwrap();
            for partition in partitions {
                let of_it: Vec<u64> = seen.iter().filter(|(p, _)| p == partition).map(|(_, n)| *n).collect();
                assert_eq!(of_it, (0..40).collect::<Vec<u64>>(), "{partition}");
            }
        }
    }

    async fn a_group_may_begin_with_what_is_new(on: On) {
        let (server, client) = start(&on).await;
        push(&client, "p", 0..3).await;
        let (stop, seen) = (CancellationToken::new(), Seen::default());
        let running = record(client.consume("q").group("g").subscribe(Subscription::New).stop_on(stop.clone()), &seen);
        server.until_waiting(1).await;
        push(&client, "p", 3..5).await;
        seen.until(2).await;
        stopped(&stop, running).await;
        assert_eq!(seen.numbers(), [3, 4]);
        let from = Subscription::From(SystemTime::UNIX_EPOCH);
        let batch = client.pop("q").group("h").subscribe(from).batch(9).send().await.unwrap();
        assert_eq!(batch.messages.iter().map(n).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
    }

    async fn a_failed_message_comes_again_before_those_behind_it_and_ends_as_a_dead_letter(on: On) {
        let (_server, client) = start(&on).await;
        client.admin().configure("q", &QueueOptions::default().retry_limit(2)).await.unwrap();
        push(&client, "p", 0..5).await;
        let (stop, seen) = (CancellationToken::new(), Seen::default());
        let running = tokio::spawn({
            let seen = seen.clone();
            client.consume("q").group("g").batch(10).stop_on(stop.clone()).each(move |message| {
                seen.add(&message);
                async move { if n(&message) == 2 { Err(format!("no {}", n(&message))) } else { Ok(()) } }
            })
        });
        seen.until(7).await;
        until_true("the dead letter is there", async || letters(&client).await.len() == 1).await;
        let consumed = stopped(&stop, running).await;
        assert_eq!(seen.numbers(), [0, 1, 2, 2, 2, 3, 4]);
        assert_eq!((consumed.completed, consumed.failed, consumed.dead_lettered), (4, 3, 1));
        assert_eq!(letters(&client).await, ["no 2"]);
    }

    async fn a_handler_that_panics_fails_its_message_and_nothing_else(on: On) {
        let (_server, client) = start(&on).await;
        client.admin().configure("q", &QueueOptions::default().retry_limit(1)).await.unwrap();
        push(&client, "p", 0..3).await;
        let (stop, seen) = (CancellationToken::new(), Seen::default());
        let running = tokio::spawn({
            let seen = seen.clone();
            client.consume("q").group("g").batch(10).stop_on(stop.clone()).each(move |message| {
                seen.add(&message);
                // Once in the handler itself, once in its future.
                assert!(n(&message) != 1 || message.delivery_attempt > 1, "at once");
                async move {
                    assert!(n(&message) != 1, "on purpose");
                    Ok::<(), Error>(())
                }
            })
        });
        seen.until(4).await;
        until_true("the dead letter is there", async || letters(&client).await.len() == 1).await;
        let consumed = stopped(&stop, running).await;
        assert_eq!((seen.numbers(), consumed.completed, consumed.failed), (vec![0, 1, 1, 2], 2, 2));
        assert_eq!(letters(&client).await, ["handler panicked: on purpose"]);
    }

    async fn a_batch_fails_as_a_whole(on: On) {
        let (_server, client) = start(&on).await;
        push(&client, "p", 0..4).await;
        let (stop, calls) = (CancellationToken::new(), Arc::new(Mutex::new(Vec::new())));
        let running = tokio::spawn({
            let calls = calls.clone();
            client.consume("q").group("g").batch(10).stop_on(stop.clone()).batches(move |messages| {
                let mut calls = calls.lock().unwrap();
                calls.push(messages.iter().map(n).collect::<Vec<_>>());
                let first = calls.len() == 1;
                async move { if first { Err("not yet") } else { Ok(()) } }
            })
        });
        until_true("both came", async || calls.lock().unwrap().len() == 2).await;
        let consumed = stopped(&stop, running).await;
        assert_eq!(*calls.lock().unwrap(), [[0, 1, 2, 3], [0, 1, 2, 3]]);
        assert_eq!((consumed.completed, consumed.failed, consumed.dead_lettered), (4, 4, 0));
    }

    async fn a_lease_is_renewed_while_its_handler_works(on: On) {
        let (_server, client) = start(&on).await;
        client.admin().configure("q", &QueueOptions::default().lease_time(1)).await.unwrap();
        push(&client, "p", 0..2).await;
        let (stop, go) = (CancellationToken::new(), Arc::new(Notify::new()));
        let (started, mut began) = mpsc::unbounded_channel();
        let running = tokio::spawn({
            let go = go.clone();
            client.consume("q").group("g").batch(10).stop_on(stop.clone()).each(move |message| {
                started.send(n(&message)).unwrap();
                let go = go.clone();
                async move { go.notified().await; Ok::<(), Error>(()) }
            })
        });
        assert_eq!(timeout(PATIENCE, began.recv()).await.unwrap(), Some(0));
        // Three leases long somebody else asks all the time, and gets nothing.
        let other = client.pop("q").group("g").wait(Duration::from_secs(3)).send().await.unwrap();
        assert!(other.messages.is_empty(), "the lease ended under its holder: {other:?}");
        go.notify_one();
        assert_eq!(timeout(PATIENCE, began.recv()).await.unwrap(), Some(1));
        go.notify_one();
        let consumed = stopped(&stop, running).await;
        assert_eq!((consumed.completed, consumed.rejected), (2, 0));
        assert!(client.pop("q").group("g").send().await.unwrap().messages.is_empty());
    }

    async fn a_handler_learns_that_its_lease_is_lost_and_no_further_message_is_begun(on: On) {
        let (_server, client) = start(&on).await;
        client.admin().configure("q", &QueueOptions::default().lease_time(1)).await.unwrap();
        push(&client, "p", 0..2).await;
        let (stop, seen, calls) = (CancellationToken::new(), Seen::default(), Arc::new(AtomicUsize::new(0)));
        let running = tokio::spawn({
            let seen = seen.clone();
            client.consume("q").group("g").batch(10).stop_on(stop.clone()).each(move |message| {
                seen.add(&message);
                let first = calls.fetch_add(1, Ordering::SeqCst) == 0;
                async move {
                    if first {
                        message.lease_lost().await;
                    }
                    Ok::<(), Error>(())
                }
            })
        });
        seen.until(1).await;
        // Takes the lease away, as an operator does.
        client.admin().seek("g", "q", SeekTo::Beginning).await.unwrap();
        seen.until(3).await;
        let consumed = stopped(&stop, running).await;
        assert_eq!(seen.numbers(), [0, 0, 1], "the second was not begun without a lease");
        assert_eq!((consumed.completed, consumed.rejected), (2, 1));
    }

    async fn a_stop_finishes_what_is_in_hand_and_gives_back_the_rest(on: On) {
        let (_server, client) = start(&on).await;
        client.admin().configure("q", &QueueOptions::default().lease_time(300)).await.unwrap();
        push(&client, "a", 0..3).await;
        push(&client, "b", 3..6).await;
        let (stop, go) = (CancellationToken::new(), Arc::new(Notify::new()));
        let (started, mut began) = mpsc::unbounded_channel();
        let running = tokio::spawn({
            let go = go.clone();
            let consumer = client.consume("q").group("g").batch(10).partitions(2).stop_on(stop.clone());
            consumer.each(move |message| {
                started.send(n(&message)).unwrap();
                let go = go.clone();
                async move { go.notified().await; Ok::<(), Error>(()) }
            })
        });
        let first = timeout(PATIENCE, began.recv()).await.unwrap().unwrap();
        stop.cancel();
        go.notify_one();
        let consumed = timeout(PATIENCE, running).await.expect("stops").unwrap().unwrap();
        assert_eq!((consumed.completed, began.recv().await), (1, None), "one was in hand, no other was begun");
        // Long before any lease ends all others can be had again.
        let rest = client.pop("q").group("g").batch(10).partitions(2).send().await.unwrap();
        let mut rest: Vec<u64> = rest.messages.iter().map(n).collect();
        rest.sort_unstable();
        assert_eq!(rest, (0..6).filter(|n| *n != first).collect::<Vec<_>>());
    }

    async fn a_consumer_that_is_refused_a_place_waits_for_it(on: On) {
        let server = on.start_with(&["--max-waiters=1"]).await;
        let client = patient(url(&server)).build().unwrap();
        let parked = server.park("/queue/other").await;
        let (stop, seen) = (CancellationToken::new(), Seen::default());
        let running = record(client.consume("q").stop_on(stop.clone()), &seen);
        server.until("a pop was refused", |m| m.get("bugle_requests_refused_total{verb=\"pop\"}") >= 1.0).await;
        parked.leave();
        push(&client, "p", 0..1).await;
        seen.until(1).await;
        assert_eq!(stopped(&stop, running).await.completed, 1);
    }

    async fn many_waiting_consumers_share_one_connection_by_http2(on: On) {
        let server = on.start().await;
        let line = AnswerEater::before(server.address()).await;
        let client = patient(line.url()).http2().build().unwrap();
        let (stop, seen) = (CancellationToken::new(), Seen::default());
        let running = record(client.consume("q").concurrency(50).stop_on(stop.clone()), &seen);
        server.until_waiting(50).await;
        for p in 0..50 {
            push(&client, &format!("p{p}"), p..p + 1).await;
        }
        seen.until(50).await;
        assert_eq!(stopped(&stop, running).await.completed, 50);
        assert_eq!(line.connections(), 1);
        assert_eq!(numbers(&server, "q", "check").await.len(), 50);
        server.until("nobody waits", |m| m.get("bugle_waiters") == 0.0).await;
    }
}

async fn letters(client: &Client) -> Vec<String> {
    let page = client.admin().dead_letters(&DeadLetterFilter::queue("q"), 0, 100).await.unwrap();
    page.messages.into_iter().map(|letter| letter.error_message).collect()
}
