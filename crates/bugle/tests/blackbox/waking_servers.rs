//! Several servers on one database: what happens on one wakes those who wait on another, by NOTIFY, by UDP, and where
//! neither carries, by the floor.
//!
//! With a carrier the floor is ten minutes away, so that nothing but a hint can have delivered in time.

use std::time::{Duration, Instant};

use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::common::{On, PATIENCE, Server, free_udp, ids, until_true};
use crate::waking::NO_FLOOR;

pub(crate) const SECRET: &str = "--udp-secret=shared by the servers";

/// Two servers that hear each other through the database.
pub(crate) async fn by_notify(on: &On) -> (Server, Server) {
    let (a, b) = tokio::join!(on.start_with(&NO_FLOOR), on.start_with(&NO_FLOOR));
    tokio::join!(a.until_hearing("notify", 1), b.until_hearing("notify", 1));
    (a, b)
}

/// Flags of a server that hears another by datagrams only.
pub(crate) fn by_datagrams(own: impl ToString, peer: impl ToString) -> Vec<String> {
    let own = format!("--udp-listen={}", own.to_string());
    let peer = format!("--udp-peers={}", peer.to_string());
    let flags = [own.as_str(), peer.as_str(), SECRET, "--notify=false"];
    flags.into_iter().chain(NO_FLOOR).map(str::to_owned).collect()
}

async fn by_udp(on: &On) -> (Server, Server) {
    let [x, y] = free_udp();
    let (one, two) = (by_datagrams(x, y), by_datagrams(y, x));
    let (a, b) = tokio::join!(on.start_with(&one), on.start_with(&two));
    tokio::join!(a.until_hearing("udp", 1), b.until_hearing("udp", 1));
    (a, b)
}

/// Two servers that do not hear each other.
async fn deaf(on: &On, more: &[&str]) -> (Server, Server) {
    let flags: Vec<&str> = more.iter().copied().chain(["--notify=false"]).collect();
    let (a, b) = tokio::join!(on.start_with(&flags), on.start_with(&flags));
    for server in [&a, &b] {
        assert_eq!(server.get("/health").await.json()["hearing"], "none");
    }
    (a, b)
}

/// Pushes on one server wake who waits on the other, each time by this carrier once it is known who waits for what.
async fn pushes_wake(a: &Server, b: &Server, carrier: &str) {
    let first = b.park("/queue/q?autoAck=true").await;
    a.push_ids("q", "p", &["first"]).await;
    assert_eq!(ids(&first.answer().await), ["first"]);
    let before = b.metrics().await;
    for rest in ["/queue/q", "/queue/q/partition/p", "/queue/q?batch=2", "?namespace=q"] {
        let join = if rest.contains('?') { '&' } else { '?' };
        let waiter = b.park(&format!("{rest}{join}autoAck=true")).await;
        a.push_ids("q", "p", &[rest]).await;
        assert_eq!(ids(&waiter.answer().await), [rest]);
    }
    let waiter = b.park("/queue/q?autoAck=true").await;
    let operations =
        json!([{"type": "push", "items": [{"queue": "q", "transactionId": "in a transaction"}]}]);
    a.post("/api/v1/transaction", json!({"operations": operations})).await.expect(200);
    assert_eq!(ids(&waiter.answer().await), ["in a transaction"]);
    let after = b.metrics().await;
    assert!(after.woken_by(carrier, &before) >= 4.0, "by {carrier}: {after:#?}");
    let health = b.get("/health").await.json();
    assert_eq!((&health["hearing"], &health["carriers"][0]["name"]), (&json!("connected"), &json!(carrier)));
    assert_eq!(health["carriers"][0]["peers"][0]["healthy"], true, "{health}");
}

/// What is freed on one server wakes who waits on the other.
async fn what_is_freed_wakes(a: &Server, b: &Server) {
    a.push_ids("freed", "p", &["t1", "t2", "t3"]).await;
    let held = a.pop_some("/queue/freed?leaseSeconds=300").await;
    let waiter = b.park("/queue/freed?leaseSeconds=300").await;
    a.ack_all(&held, "completed").await;
    let popped = waiter.answer().await;
    assert_eq!(ids(&popped), ["t2"], "an ack that leaves more");

    // The other way round, and given back.
    let waiter = a.park("/queue/freed?leaseSeconds=300").await;
    b.ack_all(&popped, "retry").await;
    let again = waiter.answer().await;
    assert_eq!(ids(&again), ["t2"], "a message given back");
    a.ack_all(&again, "completed").await;

    let taken = Instant::now();
    assert_eq!(ids(&a.pop_some("/queue/freed?leaseSeconds=2").await), ["t3"]);
    let (popped, at) = b.park("/queue/freed").await.timed().await;
    assert_eq!((ids(&popped), &popped["messages"][0]["deliveryAttempt"]), (vec!["t3"], &json!(2)));
    let waited = at - taken;
    assert!(
        waited >= Duration::from_secs(2) && waited < Duration::from_secs(4),
        "at the lease's end: {waited:?}"
    );
}

/// Options changed on one server act for who waits on the other.
async fn options_wake(a: &Server, b: &Server, queue: &str) {
    a.configure(json!({"queue": queue, "options": {"delayedProcessing": 3600}})).await;
    a.push_ids(queue, "p", &["t"]).await;
    let waiter = b.park(&format!("/queue/{queue}")).await;
    a.configure(json!({"queue": queue, "options": {"delayedProcessing": 1}})).await;
    assert_eq!(ids(&waiter.answer().await), ["t"]);
}

/// What is pushed, freed and made on one server is found by the other's floor.
async fn the_floor_delivers(a: &Server, b: &Server) {
    let begun = Instant::now();
    let before = b.metrics().await;
    let waiter = b.park("/queue/q").await;
    a.push_ids("q", "p", &["t"]).await;
    let held = waiter.answer().await;
    assert_eq!(ids(&held), ["t"]);
    assert_eq!(b.metrics().await.woken_by("floor", &before), 1.0);
    let waiter = a.park("/queue/q").await;
    b.ack_all(&held, "retry").await;
    assert_eq!(ids(&waiter.answer().await), ["t"]);
    // A queue that nobody knew when the filter began to wait.
    let name = format!("ns.{}", uuid::Uuid::new_v4());
    let waiter = b.park("?namespace=ns&autoAck=true").await;
    a.push_ids(&name, "p", &["u"]).await;
    assert_eq!(ids(&waiter.answer().await), ["u"]);
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
}

on_every_database! {
    async fn notifications_wake_on_the_other_server(on: On) {
        let (a, b) = by_notify(&on).await;
        pushes_wake(&a, &b, "notify").await;
        what_is_freed_wakes(&a, &b).await;
        options_wake(&a, &b, "late").await;
    }

    async fn datagrams_wake_on_the_other_server(on: On) {
        let (a, b) = by_udp(&on).await;
        pushes_wake(&a, &b, "udp").await;
        what_is_freed_wakes(&a, &b).await;
        options_wake(&a, &b, "late").await;
    }

    async fn without_carriers_the_floor_delivers_in_its_time(on: On) {
        for flags in [&[][..], &["--pending-check=false"], &["--pending-check-from=0s"]] {
            let (a, b) = deaf(&on, flags).await;
            the_floor_delivers(&a, &b).await;
            a.send("DELETE", "/api/v1/resources/queues/q", "").await.expect(200);
        }
    }

    async fn without_carriers_changed_options_act_within_the_floor(on: On) {
        // Looks without a check before, each together with a look at the catalog.
        let (a, b) = deaf(&on, &["--pop-wait-base=100ms", "--pop-wait-max=200ms"]).await;
        for round in 0..3 {
            options_wake(&a, &b, &format!("late{round}")).await;
        }
    }
}

#[tokio::test]
async fn both_carriers_together_deliver_once() {
    let on = On::postgres().await;
    let [x, y] = free_udp();
    let flags =
        |own, peer| by_datagrams(own, peer).into_iter().filter(|f| f != "--notify=false").collect::<Vec<_>>();
    let (one, two) = (flags(x, y), flags(y, x));
    let (a, b) = tokio::join!(on.start_with(&one), on.start_with(&two));
    for server in [&a, &b] {
        server.until_hearing("notify", 1).await;
        server.until_hearing("udp", 1).await;
    }
    let before = b.metrics().await;
    for n in 0..10 {
        let waiters = [b.park("/queue/q?autoAck=true").await, b.park("/queue/q?autoAck=true").await];
        a.push_ids("q", &format!("p{n}"), &["t"]).await;
        b.until_parked(1).await;
        until_true("one is answered", async || waiters.iter().any(|w| w.is_answered())).await;
        a.push_ids("q", &format!("r{n}"), &["u"]).await;
        for waiter in waiters {
            assert_eq!(ids(&waiter.answer().await).len(), 1);
        }
    }
    let after = b.metrics().await;
    assert_eq!(after.since(&before, "bugle_messages_total{verb=\"pop\"}"), 20.0);
    assert!(after.woken_by("udp", &before) + after.woken_by("notify", &before) >= 10.0, "{after:#?}");
    assert_eq!(b.get("/health").await.json()["carriers"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn the_floor_backs_off_while_nothing_comes_and_starts_over_with_a_push() {
    let on = On::postgres().await;
    let flags =
        ["--pop-wait-base=50ms", "--pop-wait-active=20ms", "--pop-wait-max=800ms", "--pending-check-from=0s"];
    let (a, b) = deaf(&on, &flags).await;
    let waiter = b.park("/queue/q").await;
    let state = async || b.get("/api/v1/system/shared-state").await.expect(200);
    assert!(state().await["floor_interval_ms"].as_f64().unwrap() < 800.0, "it starts short");
    until_true("backed off", async || state().await["floor_interval_ms"] == 800.0).await;
    let backed_off = state().await;
    assert_eq!(backed_off["group_backoff"]["groups_backed_off"], 1, "{backed_off}");
    assert!(backed_off["has_pending_misses"].as_u64().unwrap() >= 3, "{backed_off}");
    a.push_ids("q", "p", &["t"]).await;
    assert_eq!(ids(&waiter.answer().await), ["t"]);
    // Nobody waits now, so the interval stays as the find has left it.
    let after = state().await;
    assert!(after["floor_interval_ms"].as_f64().unwrap() <= 50.0, "{after}");
    assert_eq!(after["group_backoff"]["groups_backed_off"], 0, "{after}");
    assert!(after["has_pending_hits"].as_u64().unwrap() >= 1, "{after}");
}

#[tokio::test]
async fn one_message_for_a_thousand_consumers_on_two_servers_is_few_claims() {
    let on = On::postgres().await;
    let (a, b) = by_notify(&on).await;
    let mut consumers = JoinSet::new();
    for server in [&a, &b] {
        let line = server.line().await;
        for _ in 0..500 {
            let line = line.clone();
            consumers.spawn(async move { line.pop("/queue/q?wait=true&timeout=60000&autoAck=true").await });
        }
    }
    let before = [a.until_parked(500).await, b.until_parked(500).await];
    a.push_ids("q", "p", &["t"]).await;
    let first = timeout(PATIENCE, consumers.join_next()).await.expect("one is woken").unwrap().unwrap();
    assert_eq!(ids(&first.expect(200)), ["t"]);
    // What else a hint may have set off would show by now: the next message comes by another.
    let scratch = b.wait("/queue/other?autoAck=true");
    b.until("parked", |m| m.get("bugle_waiting_keys{state=\"tracked\"}") == 2.0).await;
    a.push_ids("other", "p", &["u"]).await;
    assert_eq!(ids(&scratch.answer().await), ["u"]);
    // The other message's own claim is counted too.
    for (server, before, most) in [(&a, &before[0], 2.0), (&b, &before[1], 3.0)] {
        let after = server.metrics().await;
        assert!(after.claims(before) <= most, "{} claims", after.claims(before));
        assert!(after.parked() >= 499.0, "the others sleep on");
    }
}

#[tokio::test]
async fn a_burst_is_shared_by_the_waiters_of_two_servers() {
    let on = On::postgres().await;
    let (a, b) = by_notify(&on).await;
    let mut consumers = JoinSet::new();
    for server in [&a, &b] {
        let line = server.line().await;
        for _ in 0..500 {
            let line = line.clone();
            let rest = "/queue/q?wait=true&timeout=60000&batch=10&autoAck=true";
            consumers.spawn(async move { line.pop(rest).await.expect(200) });
        }
    }
    let before = [a.until_parked(500).await, b.until_parked(500).await];
    let item = |n: usize| json!({"queue": "q", "partition": format!("p{}", n % 1000), "transactionId": n.to_string()});
    a.push((0..10_000).map(item).collect()).await;
    let popped = timeout(PATIENCE, consumers.join_all()).await.expect("all are served");
    let mut seen: Vec<_> = popped.iter().flat_map(ids).collect();
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), 10_000);
    for (server, before) in [&a, &b].into_iter().zip(&before) {
        // More than on one server: each loses lanes to the other and looks again. But fewer than one for each waiter.
        let calls = server.metrics().await.store_calls(before);
        assert!(calls < 500.0, "{calls} store calls");
    }
}
