//! Switches on several servers: what an operator tells one acts on all, with and without carriers.

use serde_json::json;

use crate::common::{On, Server, ids, until_true};
use crate::maintenance::{POPS, PUSHES, drained, statuses, switch};
use crate::waking::NO_FLOOR;

async fn two(on: &On, flags: &[&str]) -> (Server, Server) {
    let with = |spool| flags.iter().copied().chain([spool]).collect::<Vec<&str>>();
    let (one, two) = (with("--spool-dir=spool-a"), with("--spool-dir=spool-b"));
    tokio::join!(on.start_with(&one), on.start_with(&two))
}

/// Looks where nobody asks the store for it.
async fn knows(server: &Server, push: bool, pop: bool) {
    until_true("the other server knows", async || {
        let state = server.get("/health").await.json()["shared_state"].clone();
        (&state["maintenance_mode"], &state["pop_maintenance_mode"]) == (&json!(push), &json!(pop))
    })
    .await;
}

/// A switch on one server acts for who waits, and who comes, on the other.
async fn switches_act(a: &Server, b: &Server) {
    // A pop that waits there is answered when pops are paused, so that whoever waits knows of it at once.
    let waiter = b.park("/queue/q").await;
    switch(a, POPS, true).await;
    until_true("answered", async || waiter.is_answered()).await;
    knows(b, false, true).await;
    a.push_ids("q", "p", &["1"]).await;
    assert_eq!(b.pop("/queue/q").await, None);
    let waiter = b.wait("/queue/q?autoAck=true");
    b.until_waiting(1).await;
    switch(a, POPS, false).await;
    assert_eq!(ids(&waiter.answer().await), ["1"]);

    // Who waits keeps the other server listening or looking.
    let waiter = b.park("/queue/other").await;
    switch(a, PUSHES, true).await;
    knows(b, true, false).await;
    assert_eq!(statuses(b, "q", "p", &["2"]).await, ["buffered"]);
    assert_eq!(statuses(a, "q", "r", &["3"]).await, ["buffered"]);
    switch(b, PUSHES, false).await;
    knows(a, false, false).await;
    drained(a).await;
    drained(b).await;
    assert_eq!(ids(&a.pop_some("/queue/q/partition/p").await), ["2"]);
    assert_eq!(ids(&b.pop_some("/queue/q/partition/r").await), ["3"]);
    waiter.leave();
}

on_every_database! {
    async fn a_switch_acts_on_the_other_server_at_once_by_a_hint(on: On) {
        let (a, b) = two(&on, &NO_FLOOR).await;
        tokio::join!(a.until_hearing("notify", 1), b.until_hearing("notify", 1));
        switches_act(&a, &b).await;
    }

    async fn a_switch_acts_on_a_deaf_server_by_its_floor(on: On) {
        let (a, b) = two(&on, &["--notify=false"]).await;
        switches_act(&a, &b).await;
    }

    async fn a_deaf_server_that_slept_asks_before_it_pushes_or_pops(on: On) {
        // The first request after a silence longer than twice the floor's longest interval.
        // For its answer it waits as long as that interval, which a busy machine needs too.
        let quick = ["--notify=false", "--pop-wait-max=400ms", "--pop-wait-base=400ms", "--pop-wait-active=400ms"];
        let (a, b) = two(&on, &quick).await;
        a.push_ids("q", "p", &["1"]).await;
        switch(&a, PUSHES, true).await;
        switch(&a, POPS, true).await;
        tokio::time::sleep(std::time::Duration::from_millis(1000)).await;
        assert_eq!(b.pop("/queue/q").await, None);
        assert_eq!(statuses(&b, "q", "p", &["2"]).await, ["buffered"]);
    }

    async fn a_switch_survives_all_servers(on: On) {
        let (a, b) = two(&on, &[]).await;
        switch(&a, PUSHES, true).await;
        a.kill();
        b.kill();
        let (a, b) = two(&on, &[]).await;
        assert_eq!(statuses(&a, "q", "p", &["1"]).await, ["buffered"]);
        assert_eq!(statuses(&b, "q", "p", &["2"]).await, ["buffered"]);
    }
}
