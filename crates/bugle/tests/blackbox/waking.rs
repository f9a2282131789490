//! Waking on one server: who waits is woken by what happens there, at once, at little cost, and nobody else is.
//!
//! The floor is set to ten minutes wherever a wake is expected, so that nothing but the wake can have delivered in time.
//!
//! Which test holds which line of the check-lists for waking. A test without a file is here; each runs on every engine
//! where it makes sense.
//!
//! | What | Test |
//! |---|---|
//! | one client long-polls, a push wakes it at once | `waiting::a_push_wakes_a_waiting_pop`, `a_lone_server_wakes_without_carriers` |
//! | several clients on one queue are served by few calls | `waiters_on_one_queue_are_served_together` |
//! | several clients on different queues | `waiters_on_many_queues_get_their_own` |
//! | empty at the deadline, not before; early with a message | `a_wait_ends_at_its_deadline_or_with_a_message`, `waking_races::what_comes_at_a_deadline_is_not_lost` |
//! | competing consumers, one query for a group of waiters | `one_message_for_four_waiters_is_one_claim` |
//! | consumer groups are separate | `groups_get_a_message_each_and_do_not_wake_each_other` |
//! | long polling of one partition | `a_waiter_at_a_partition_sleeps_through_others` |
//! | `wait=true` and `wait=false` mixed | `pops_that_do_not_wait_pass_those_that_do` |
//! | many consumers | `five_hundred_connections_wait_and_all_are_served` |
//! | server restart | `waiters_come_back_after_a_restart`, `waking_faults::a_restarted_server_is_heard_again` |
//! | idle consumers cost nothing | `fifty_consumers_that_come_again_and_again_cost_nothing` |
//! | wake by delay, window, retry delay, lease end; the earliest counts | `waking_timers` |
//! | unique leases, no duplicate ones, groups, no lost wake | `waking_races` |
//! | what can share a call: groups, partitions, queues, named or not | `waking_batches::pops_of_all_kinds_share_calls` |
//! | 100 pops: few claims; 100 claims without batching | `waking_batches::a_hundred_pops_share_few_claims`, `…::without_batching_…` |
//! | 10,000 messages, 1,000 lanes, 1,000 waiters | `waking_batches::a_burst_is_delivered_by_few_calls`, `waking_servers::a_burst_is_shared_…` |
//! | waiters hold no database connection | `waking_batches::a_thousand_who_wait_hold_no_connection`, `waking_races::one_connection_each_…` |
//! | too many waiters; a client that leaves frees its place | `waking_clients::one_too_many_is_told_when_to_come_back` |
//! | a client killed during its claim or its answer | `waking_clients` |
//! | several servers by NOTIFY, by UDP, by both | `waking_servers::{notifications,datagrams}_wake_…`, `…::both_carriers_together_deliver_once` |
//! | push, transaction, ack, nack, lease end, options on another server | the same |
//! | no carrier: the floor delivers, options act, interval backs off | `waking_servers::without_carriers_…`, `…::the_floor_backs_off_…` |
//! | 1,000 consumers on two servers, one message | `waking_servers::one_message_for_a_thousand_consumers_…` |
//! | LISTEN cut or killed, garbage, lost datagram, dead server, pooler | `waking_faults` |
//! | database restarted, servers come and go, claims cut off | `waking_outages` |
//! | wakes by source, carriers in health, unread too long | `waking_numbers` |

use std::time::{Duration, Instant};

use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::common::{Client, On, PATIENCE, ids, until_true};

/// No look but the first: what is delivered was told.
pub(crate) const NO_FLOOR: [&str; 3] =
    ["--pop-wait-base=10m", "--pop-wait-max=10m", "--pop-wait-with-carrier=10m"];

on_every_engine! {
    async fn a_lone_server_wakes_without_carriers(on: On) {
        let server = on.start_with(&["--notify=false", "--pop-wait-base=10m", "--pop-wait-max=10m"]).await;
        assert_eq!(server.get("/health").await.json()["hearing"], "none");
        let waiter = server.park("/queue/q?autoAck=true").await;
        let before = server.metrics().await;
        server.push_ids("q", "p", &["t"]).await;
        assert_eq!(ids(&waiter.answer().await), ["t"]);
        assert_eq!(server.metrics().await.woken_by("local", &before), 1.0);
    }

    async fn waiters_on_one_queue_are_served_together(on: On) {
        let server = on.start_with(&NO_FLOOR).await;
        let lanes: Vec<String> = (0..20).map(|n| format!("lane {n}")).collect();
        let waiters: Vec<_> = lanes.iter().map(|_| server.wait("/queue/q")).collect();
        let before = server.until_parked(20).await;
        server.push(lanes.iter().map(|l| json!({"queue": "q", "partition": l, "transactionId": l})).collect()).await;
        let mut seen = Vec::new();
        for waiter in waiters {
            seen.extend(ids(&waiter.answer().await).into_iter().map(str::to_owned));
        }
        seen.sort();
        let mut all = lanes.clone();
        all.sort();
        assert_eq!(seen, all, "each message went to one of them");
        let claims = server.metrics().await.claims(&before);
        assert!((1.0..=5.0).contains(&claims), "{claims} claims for 20 waiters");
    }

    async fn waiters_on_many_queues_get_their_own(on: On) {
        let server = on.start_with(&NO_FLOOR).await;
        let queues: Vec<String> = (0..10).map(|n| format!("q{n}")).collect();
        let waiters: Vec<_> = queues.iter().map(|q| server.wait(&format!("/queue/{q}"))).collect();
        server.until_parked(10).await;
        for queue in queues.iter().rev() {
            server.push_ids(queue, "p", &[queue]).await;
        }
        for (queue, waiter) in queues.iter().zip(waiters) {
            assert_eq!(ids(&waiter.answer().await), [queue]);
        }
    }

    async fn a_wait_ends_at_its_deadline_or_with_a_message(on: On) {
        let server = on.start_with(&NO_FLOOR).await;
        let client = server.client();
        let idle = tokio::spawn(async move {
            let begun = Instant::now();
            (client.pop("/queue/idle?wait=true&timeout=1000").await, begun.elapsed())
        });
        let begun = Instant::now();
        let early = server.wait("/queue/q");
        server.until_parked(2).await;
        server.push_ids("q", "p", &["t"]).await;
        let (popped, at) = early.timed().await;
        assert_eq!(ids(&popped), ["t"]);
        assert!(at - begun < Duration::from_secs(10), "long before its timeout");
        let (popped, waited) = timeout(PATIENCE, idle).await.expect("it ends").unwrap();
        assert_eq!(popped, None);
        assert!(waited >= Duration::from_secs(1), "not before: {waited:?}");
        assert!(waited < Duration::from_secs(4), "at its deadline: {waited:?}");
    }

    async fn one_message_for_four_waiters_is_one_claim(on: On) {
        let server = on.start_with(&NO_FLOOR).await;
        let waiters: Vec<_> = (0..4).map(|_| server.wait("/queue/q")).collect();
        let before = server.until_parked(4).await;
        server.push_ids("q", "p", &["t"]).await;
        until_true("one is answered", async || waiters.iter().any(|w| w.is_answered())).await;
        let after = server.until_parked(3).await;
        assert_eq!((after.claims(&before), after.woken(&before)), (1.0, 1.0), "nobody raced for it");
        for waiter in waiters {
            if waiter.is_answered() {
                assert_eq!(ids(&waiter.answer().await), ["t"]);
            }
        }
    }

    async fn groups_get_a_message_each_and_do_not_wake_each_other(on: On) {
        let server = on.start_with(&NO_FLOOR).await;
        let waiters = ["a", "b"].map(|g| server.wait(&format!("/queue/q?consumerGroup={g}")));
        server.until_parked(2).await;
        server.push_ids("q", "p", &["t1"]).await;
        let [a, b] = waiters;
        let (a, b) = (a.answer().await, b.answer().await);
        assert_eq!((ids(&a), ids(&b)), (vec!["t1"], vec!["t1"]));
        server.ack_all(&a, "completed").await;
        let waiter = server.park("/queue/q?consumerGroup=a").await;
        let before = server.metrics().await;
        server.ack_all(&b, "completed").await;
        let after = server.metrics().await;
        assert_eq!((after.woken(&before), after.parked()), (0.0, 1.0), "the other group's ack is nothing to it");
        server.push_ids("q", "p", &["t2"]).await;
        assert_eq!(ids(&waiter.answer().await), ["t2"]);
    }

    async fn a_waiter_at_a_partition_sleeps_through_others(on: On) {
        let server = on.start_with(&NO_FLOOR).await;
        let waiter = server.park("/queue/q/partition/mine").await;
        let before = server.metrics().await;
        server.push_ids("q", "other", &["not mine"]).await;
        assert_eq!(ids(&server.pop_some("/queue/q").await), ["not mine"]);
        let after = server.metrics().await;
        assert_eq!((after.woken(&before), after.parked()), (0.0, 1.0));
        server.push_ids("q", "mine", &["mine"]).await;
        assert_eq!(ids(&waiter.answer().await), ["mine"]);
    }

    async fn pops_that_do_not_wait_pass_those_that_do(on: On) {
        let server = on.start_with(&NO_FLOOR).await;
        let waiters: Vec<_> = (0..3).map(|_| server.wait("/queue/q?autoAck=true")).collect();
        server.until_parked(3).await;
        for _ in 0..3 {
            assert_eq!(server.pop("/queue/q?wait=false").await, None, "answered at once");
        }
        assert_eq!(server.metrics().await.parked(), 3.0, "those who wait stay");
        for (n, lane) in ["a", "b", "c"].into_iter().enumerate() {
            server.push_ids("q", lane, &[lane]).await;
            server.until_parked(2 - n as u32).await;
        }
        let mut seen = Vec::new();
        for waiter in waiters {
            seen.extend(ids(&waiter.answer().await).into_iter().map(str::to_owned));
        }
        seen.sort();
        assert_eq!(seen, ["a", "b", "c"]);
        server.push_ids("q", "a", &["d"]).await;
        assert_eq!(ids(&server.pop_some("/queue/q?wait=false").await), ["d"], "nobody waits any more");
    }

    async fn five_hundred_connections_wait_and_all_are_served(on: On) {
        let server = on.start_with(&NO_FLOOR).await;
        let mut waiters = JoinSet::new();
        for n in 0..500 {
            let waiter = server.wait(&format!("/queue/q{}?autoAck=true", n % 5));
            waiters.spawn(waiter.answer());
        }
        server.until_parked(500).await;
        for queue in 0..5 {
            let item = |n| json!({"queue": format!("q{queue}"), "partition": format!("p{n}"), "transactionId": format!("{queue}/{n}")});
            server.push((0..100).map(item).collect()).await;
        }
        let popped = timeout(PATIENCE, waiters.join_all()).await.expect("all are served");
        let mut seen: Vec<_> = popped.iter().flat_map(ids).collect();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), 500, "each got a message of its own");
    }

    async fn waiters_come_back_after_a_restart(on: On) {
        // The same address again, as clients have it in their settings.
        let place = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let flags = [format!("--listen={place}"), "--shutdown-grace=10s".into()];
        let server = on.start_with(&flags).await;
        let mut consumers = JoinSet::new();
        for _ in 0..10 {
            consumers.spawn(consume_through_restarts(server.client()));
        }
        server.until_parked(10).await;
        server.push_ids("q", "early", &["early"]).await;
        server.until_parked(9).await;
        assert!(server.terminate().await.success());
        let server = on.start_with(&flags).await;
        server.until_parked(9).await;
        for n in 0..9 {
            server.push_ids("q", &format!("p{n}"), &[&format!("t{n}")]).await;
        }
        let mut seen = timeout(PATIENCE, consumers.join_all()).await.expect("all are served");
        seen.sort();
        let mut all: Vec<String> = (0..9).map(|n| format!("t{n}")).collect();
        all.insert(0, "early".into());
        assert_eq!(seen, all);
    }
}

/// Wait for one message, whatever the server does meanwhile.
async fn consume_through_restarts(client: Client) -> String {
    loop {
        let path = "/api/v1/pop/queue/q?wait=true&timeout=60000&autoAck=true";
        match client.try_send("GET", path, "").await {
            Ok(answer) if answer.status == 200 => return ids(&answer.json())[0].to_owned(),
            Ok(answer) => assert_eq!(answer.status, 204, "{:?}", answer.body),
            // The server is away; a client has to pause, or it would do nothing but connect.
            Err(_) => sleep(Duration::from_millis(20)).await,
        }
    }
}

/// On PostgreSQL others may write at any time, and still nothing is asked as long as they would be heard.
#[tokio::test]
async fn fifty_consumers_that_come_again_and_again_cost_nothing() {
    let on = On::postgres().await;
    let server = on.start().await;
    server.until("heard", |m| m.get("bugle_hearing{state=\"connected\"}") == 1.0).await;
    let mut consumers = JoinSet::new();
    for n in 0..50 {
        let client = server.client();
        consumers.spawn(async move {
            loop {
                assert_eq!(client.pop(&format!("/queue/q{}?wait=true&timeout=300", n % 10)).await, None);
            }
        });
    }
    let expired = |m: &crate::common::Metrics| m.get("bugle_waiting_total{outcome=\"expired\"}");
    let quiet = server.until("all have come again", |m| expired(m) >= 150.0).await;
    let later = server.until("and for seconds", |m| expired(m) >= expired(&quiet) + 300.0).await;
    let seconds = later.since(&quiet, "bugle_uptime_seconds");
    // The floor looks every 15 s, and the catalog's turn may come once.
    let calls = later.store_calls(&quiet);
    assert!(calls <= 2.0 + seconds / 15.0, "{calls} store calls in {seconds} s while nothing happened");
}
