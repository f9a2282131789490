//! Pops that come together are served together: few store calls, each pop with a lease of its own, no lane held twice,
//! no connection held by those who wait.

use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::common::{Answer, Client, Line, Metrics, On, PATIENCE, Waiter, ids, until_true};
use crate::waking::NO_FLOOR;

/// So many pops at a time, on one connection.
fn at_once(line: &Line, count: usize, rest: &'static str) -> JoinSet<Answer> {
    let mut pops = JoinSet::new();
    for _ in 0..count {
        let line = line.clone();
        pops.spawn(async move { line.pop(rest).await });
    }
    pops
}

/// All their messages; each must have got some.
async fn gather(pops: JoinSet<Answer>) -> Vec<String> {
    let answers = timeout(PATIENCE, pops.join_all()).await.expect("all are answered");
    let popped: Vec<_> = answers.into_iter().map(|answer| answer.expect(200)).collect();
    let mut seen: Vec<String> = popped.iter().flat_map(ids).map(str::to_owned).collect();
    let all = seen.len();
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), all, "nothing was delivered twice");
    seen
}

/// Messages in each of so many lanes, in one push.
async fn fill(client: &Client, lanes: usize, each: usize) {
    let of_lane = |lane| {
        (0..each).map(move |n| json!({"queue": "q", "partition": format!("p{lane}"), "transactionId": format!("{lane}/{n}"), "payload": n}))
    };
    client.push((0..lanes).flat_map(of_lane).collect()).await;
}

/// A hundred pops that do not wait, for a hundred lanes; what they cost.
async fn a_hundred(on: &On, flags: &[&str]) -> f64 {
    let server = on.start_with(flags).await;
    fill(&server, 100, 1).await;
    // The queue and group are known from here on, and the connection is open.
    let line = server.line().await;
    assert_eq!(line.pop("/queue/q/partition/none").await.status, 204);
    let before = server.metrics().await;
    assert_eq!(gather(at_once(&line, 100, "/queue/q")).await.len(), 100);
    let after = server.metrics().await;
    assert_eq!(after.since(&before, "bugle_claim_pops_total"), 100.0);
    after.claims(&before)
}

/// The last waiter of a kind that cannot be told from the others.
fn served_and_parked(metrics: &Metrics) -> (f64, f64) {
    (metrics.get("bugle_waiting_total{outcome=\"served\"}"), metrics.parked())
}

on_every_engine! {
    // The four rows of the table of what can be claimed by one call, two queues, and those who name a partition together
    // with those who do not.
    async fn pops_of_all_kinds_share_calls(on: On) {
        let flags: Vec<&str> = NO_FLOOR.into_iter().chain(["--calls-in-flight=1,1"]).collect();
        let server = on.start_with(&flags).await;
        let one = |rest: &str| server.wait(&format!("{rest}?consumerGroup=g1"));
        let any = [one("/queue/q1"), one("/queue/q1")];
        let other_group = server.wait("/queue/q1?consumerGroup=g2");
        let named = [one("/queue/q1/partition/x"), one("/queue/q1/partition/y")];
        let same = [one("/queue/q1/partition/z"), one("/queue/q1/partition/z")];
        let other_queue = one("/queue/q2");
        let before = server.until_parked(8).await;

        let item = |(queue, lane): (&str, &str)| json!({"queue": queue, "partition": lane, "transactionId": lane});
        let lanes = [("q1", "x"), ("q1", "a"), ("q1", "y"), ("q1", "b"), ("q1", "z"), ("q2", "c")];
        server.push(lanes.into_iter().map(item).collect()).await;
        let mut leases = Vec::new();
        let mut got = Vec::new();
        for waiter in any.into_iter().chain([other_queue]).chain(named) {
            let popped = waiter.answer().await;
            leases.push(popped["leaseId"].as_str().unwrap().to_owned());
            got.push(ids(&popped)[0].to_owned());
        }
        got[..2].sort();
        assert_eq!(got, ["a", "b", "c", "x", "y"], "who names a partition gets it, the others get the rest");
        let popped = other_group.answer().await;
        leases.push(popped["leaseId"].as_str().unwrap().to_owned());
        assert_eq!(ids(&popped).len(), 1, "the other group reads the same partitions");

        let after = server.until("one of the same is served", |m| served_and_parked(m) == (7.0, 1.0)).await;
        let claims = after.claims(&before);
        assert!((1.0..=5.0).contains(&claims), "{claims} calls for seven pops");
        let (first, second) = first_served(same).await;
        assert_eq!(ids(&first), ["z"], "one partition and group is one lease");
        leases.push(first["leaseId"].as_str().unwrap().to_owned());
        leases.sort();
        leases.dedup();
        assert_eq!(leases.len(), 7, "each pop has a lease of its own");
        server.push_ids("q1", "z", &["z2"]).await;
        assert!(!second.is_answered(), "the partition is held");
        server.ack_all(&first, "completed").await;
        assert_eq!(ids(&second.answer().await), ["z2"]);
    }

    async fn a_hundred_pops_share_few_claims(on: On) {
        // How many come together is a matter of timing: a first few go alone.
        let claims = a_hundred(&on, &[]).await;
        assert!((1.0..=20.0).contains(&claims), "{claims}");
    }

    async fn without_batching_each_pop_claims_for_itself(on: On) {
        let claims = a_hundred(&on, &["--pop-batching=false"]).await;
        assert!((100.0..=120.0).contains(&claims), "{claims}");
    }

    async fn without_batching_waiters_are_woken_all_the_same(on: On) {
        let flags: Vec<&str> = NO_FLOOR.into_iter().chain(["--pop-batching=false"]).collect();
        let server = on.start_with(&flags).await;
        let pops = at_once(&server.line().await, 20, "/queue/q?wait=true&timeout=60000");
        server.until_parked(20).await;
        fill(&server, 20, 1).await;
        assert_eq!(gather(pops).await.len(), 20);
    }

    async fn a_burst_is_delivered_by_few_calls(on: On) {
        let server = on.start_with(&NO_FLOOR).await;
        let pops = at_once(&server.line().await, 1000, "/queue/q?wait=true&timeout=60000&batch=10&autoAck=true");
        let before = server.until_parked(1000).await;
        fill(&server, 1000, 10).await;
        assert_eq!(gather(pops).await.len(), 10_000);
        let after = server.metrics().await;
        let calls = after.store_calls(&before);
        assert!(calls <= 50.0, "{calls} store calls for 10,000 messages and 1,000 waiters");
        assert_eq!(after.since(&before, "bugle_claim_lost_total"), 0.0, "nobody raced");
    }
}

/// Two that wait for the same thing: what the one got that was served, and the other.
async fn first_served([one, two]: [Waiter; 2]) -> (Value, Waiter) {
    until_true("one is answered", async || one.is_answered() || two.is_answered()).await;
    if one.is_answered() { (one.answer().await, two) } else { (two.answer().await, one) }
}

on_every_database! {
    async fn a_thousand_who_wait_hold_no_connection(on: On) {
        let server = on.start_with(&["--pg-connections=1,4", "--pop-wait-with-carrier=10m"]).await;
        let line = server.line().await;
        let pops = at_once(&line, 1000, "/queue/idle?wait=true&timeout=100000");
        server.until_parked(1000).await;
        for n in 0..5 {
            server.push_ids("q", "p", &[&format!("t{n}")]).await;
            let popped = server.pop_some("/queue/q").await;
            assert_eq!(server.ack_all(&popped, "completed").await[0]["success"], true);
            let operations = json!([{"type": "push", "items": [{"queue": "q2", "payload": n}]}]);
            let done = server.post("/api/v1/transaction", json!({"operations": operations})).await.expect(200);
            assert_eq!(done["success"], true);
        }
        let in_use = |m: &Metrics| m.get("bugle_store_connections{state=\"in_use\"}");
        let after = server.until("no connection is in use", |m| in_use(m) == 0.0).await;
        assert_eq!((after.parked(), after.get("bugle_store_connections{state=\"max\"}")), (1000.0, 4.0));
        assert!(after.get("bugle_store_connections{state=\"idle\"}") <= 4.0);
        // Looked at for a while: nothing runs on their behalf.
        let calls = after.get("bugle_store_calls_total");
        let until = after.get("bugle_uptime_seconds") + 0.5;
        let later = server.until("half a second later", |m| m.get("bugle_uptime_seconds") > until).await;
        assert!(later.get("bugle_store_calls_total") - calls <= 2.0);
        drop(pops);
        server.until_parked(0).await;
    }
}
