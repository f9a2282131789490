//! A group's first claim in a lane that this server began: no question about a cursor that cannot be there, and no harm
//! if it is.
#![allow(clippy::unwrap_used)]

mod common;

use std::time::Duration;

use bugle_broker::Broker;

use common::*;

/// Store calls from a push to a waiting pop's answer, both included.
async fn calls_of_a_delivery(broker: &Broker, partition: &str, id: &str) -> u64 {
    let waiter = broker.clone();
    let request = waiting(from_queue("q"), Duration::from_secs(30));
    let pop = tokio::spawn(async move { waiter.pop(request).await.unwrap() });
    while broker.read().waiting.parked == 0 {
        tokio::task::yield_now().await;
    }
    let before = broker.read().store.calls;
    push(broker, "q", partition, &[id]).await;
    let answer = pop.await.unwrap();
    let calls = broker.read().store.calls - before;
    assert_eq!(ids(&answer), [id]);
    assert!(ack_all(broker, &answer).await[0].success);
    calls
}

on_both! {
    async fn the_first_message_of_a_lane_costs_only_the_lane_itself_more(rig: Rig) {
        push(&rig.broker, "q", "other", &["0"]).await;
        assert!(ack_all(&rig.broker, &rig.broker.pop(from_queue("q")).await.unwrap()).await[0].success);
        assert_eq!(calls_of_a_delivery(&rig.broker, "new", "1").await, 3, "lane, append, claim");
        assert_eq!(calls_of_a_delivery(&rig.broker, "new", "2").await, 2, "append, claim");
    }
}

#[tokio::test]
async fn a_cursor_made_by_another_server_is_found_by_the_claim() {
    let rig = Rig::new(false).await;
    let other = rig.sibling().await;
    // From here on it knows the queue's lanes, and a push puts them before its consumers without asking.
    assert!(ids(&rig.broker.pop(from_queue("q")).await.unwrap()).is_empty());
    push(&rig.broker, "q", "p", &["1", "2"]).await;
    let mut request = from_queue("q");
    request.batch = Some(1);
    let answer = other.pop(request).await.unwrap();
    assert_eq!(ids(&answer), ["1"]);
    // Held by the other server's consumer: the claim is lost, nobody gets it twice.
    let waits = || waiting(from_queue("q"), Duration::from_millis(20));
    assert!(ids(&rig.broker.pop(waits()).await.unwrap()).is_empty());
    assert_eq!(rig.broker.read().claims.lost, 1);
    assert!(ack_all(&other, &answer).await[0].success);
    assert_eq!(ids(&rig.broker.pop(from_queue("q")).await.unwrap()), ["2"]);
}

on_both! {
    async fn a_group_that_subscribed_later_does_not_get_what_was_before(rig: Rig) {
        push(&rig.broker, "q", "p", &["before"]).await;
        let mut request = from_queue("q");
        request.group = "g".into();
        request.subscription_mode = Some("new".into());
        assert!(ids(&rig.broker.pop(request.clone()).await.unwrap()).is_empty());
        push(&rig.broker, "q", "p", &["after"]).await;
        assert_eq!(ids(&rig.broker.pop(request).await.unwrap()), ["after"]);
    }
}
