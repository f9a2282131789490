//! Numbers of queues and groups on a clock that the test moves: ages, what is remembered, and what must not be.
#![allow(clippy::unwrap_used)]

mod common;

use std::time::Duration;

use bugle_broker::{Broker, GroupState, GroupStats, PartitionPage, PopRequest, QueueFilter};
use bugle_store::{Expire, LaneId, NewLane, Queue, QueueId, Timestamp, Trim};
use common::{Rig, from_lane, from_queue, push};

const ALL: PartitionPage = PartitionPage { after: None, limit: 1000 };

fn of(group: &str, request: PopRequest) -> PopRequest {
    PopRequest { group: group.into(), partitions: Some(100), auto_ack: true, ..request }
}

async fn subscribe_to_new(broker: &Broker, group: &str) {
    let request = of(group, from_queue("q"));
    let answer = broker.pop(PopRequest { subscription_mode: Some("new".into()), ..request }).await.unwrap();
    assert_eq!(answer.count(), 0);
}

async fn group(broker: &Broker, name: &str) -> GroupStats {
    broker.group_stats().await.unwrap().into_iter().find(|g| *g.group == *name).unwrap()
}

async fn lag(broker: &Broker, name: &str) -> (u64, u64) {
    let found = group(broker, name).await;
    assert!(!found.at_most);
    (found.partitions_behind, found.lag)
}

fn lane(rig_queue: &Queue, name: &str) -> LaneId {
    LaneId::derive(rig_queue.id, name)
}

async fn queue(broker: &Broker) -> std::sync::Arc<Queue> {
    broker.queue_detail("q", ALL).await.unwrap().stats.queue
}

on_both! {
    async fn the_age_of_the_oldest_unread_message_is_told(rig: Rig) {
        push(&rig.broker, "q", "a", &["1", "2"]).await;
        rig.advance(Duration::from_secs(100));
        push(&rig.broker, "q", "b", &["3"]).await;
        push(&rig.broker, "q", "b", &["4"]).await;
        rig.broker.pop(PopRequest { batch: Some(1), ..of("g", from_lane("q", "a")) }).await.unwrap();
        rig.advance(Duration::from_secs(150));
        let seconds = |stats: &GroupStats| stats.behind.unwrap().as_secs();
        let now = group(&rig.broker, "g").await;
        assert_eq!((seconds(&now), now.state, now.lag), (250, GroupState::Stable, 3));
        rig.advance(Duration::from_secs(51));
        let later = group(&rig.broker, "g").await;
        assert_eq!((seconds(&later), later.state), (301, GroupState::Lagging), "also when it is remembered");
        let overview = rig.broker.overview().await.unwrap();
        assert_eq!((overview.lag_seconds.max, overview.lag_messages.max), (301, 3));
        let listed = |seconds| {
            let broker = rig.broker.clone();
            async move {
                let found = broker.lagging(seconds, 100).await.unwrap();
                found.iter().map(|p| (p.partition.to_string(), p.lag, p.behind.as_secs())).collect::<Vec<_>>()
            }
        };
        let (a, b) = (("a".to_owned(), 1, 301), ("b".to_owned(), 2, 201));
        assert_eq!(listed(0).await, [a.clone(), b.clone()]);
        assert_eq!(listed(201).await, [a.clone(), b]);
        assert_eq!(listed(202).await, [a]);
        assert!(listed(302).await.is_empty());
        // What is at hand is answered first, what has to be asked for by the next.
        while rig.broker.pop(of("g", from_queue("q"))).await.unwrap().count() > 0 {}
        let done = group(&rig.broker, "g").await;
        assert_eq!((seconds(&done), done.state, done.lag), (0, GroupState::Stable, 0));
    }

    async fn what_was_found_before_a_subscription_is_remembered_while_it_holds(rig: Rig) {
        push(&rig.broker, "q", "a", &["1", "2", "3"]).await;
        push(&rig.broker, "q", "b", &["4"]).await;
        subscribe_to_new(&rig.broker, "g").await;
        rig.advance(Duration::from_secs(61));
        push(&rig.broker, "q", "a", &["5"]).await;
        let calls = || rig.broker.read().store.calls;
        let before = calls();
        assert_eq!(lag(&rig.broker, "g").await, (1, 1));
        let first = calls() - before;
        assert_eq!(lag(&rig.broker, "g").await, (1, 1));
        assert!(calls() - before - first < first, "nothing is asked twice");
        push(&rig.broker, "q", "b", &["6", "7"]).await;
        assert_eq!(lag(&rig.broker, "g").await, (2, 3), "a push to a lane that was skipped whole");
        push(&rig.broker, "q", "c", &["8"]).await;
        assert_eq!(lag(&rig.broker, "g").await, (3, 4), "a lane that is new");
        let queue = queue(&rig.broker).await;
        rig.engine.trim(vec![Trim { lane: lane(&queue, "a"), to: 2 }]).await.unwrap();
        assert_eq!(lag(&rig.broker, "g").await, (3, 4), "less is kept of what it never gets");
        rig.engine.trim(vec![Trim { lane: lane(&queue, "b"), to: 2 }]).await.unwrap();
        assert_eq!(lag(&rig.broker, "g").await, (3, 3), "and of what it would have got");
        rig.broker.pop(of("g", from_lane("q", "a"))).await.unwrap();
        assert_eq!(lag(&rig.broker, "g").await, (2, 2), "a lane it has met");
        rig.broker.subscription(&"g".into(), Timestamp::ZERO).await.unwrap();
        assert_eq!(lag(&rig.broker, "g").await, (2, 2), "it begins elsewhere");
        rig.broker.delete_group(&"g".into(), None, true).await.unwrap();
        subscribe_to_new(&rig.broker, "g").await;
        assert_eq!(lag(&rig.broker, "g").await, (0, 0), "it is another group");
    }

    async fn a_start_that_is_yet_to_come_leaves_nothing_to_read(rig: Rig) {
        push(&rig.broker, "q", "a", &["1"]).await;
        let future = Timestamp(common::START).plus(Duration::from_secs(3600));
        rig.broker.pop(of("g", from_queue("q"))).await.unwrap();
        rig.broker.subscription(&"g".into(), future).await.unwrap();
        push(&rig.broker, "q", "a", &["2"]).await;
        push(&rig.broker, "q", "b", &["3", "4"]).await;
        assert_eq!(lag(&rig.broker, "g").await, (1, 1), "only where it has been");
        rig.advance(Duration::from_secs(3700));
        push(&rig.broker, "q", "b", &["5"]).await;
        assert_eq!(lag(&rig.broker, "g").await, (2, 2));
    }

    async fn a_lane_that_was_collected_and_made_again_has_its_own_ages(rig: Rig) {
        push(&rig.broker, "q", "a", &["1", "2"]).await;
        rig.advance(Duration::from_secs(100));
        assert_eq!(rig.broker.lagging(0, 10).await.unwrap().len(), 0, "nobody reads");
        rig.broker.pop(PopRequest { batch: Some(1), ..of("g", from_lane("q", "other")) }).await.unwrap();
        assert_eq!(group(&rig.broker, "g").await.behind.unwrap().as_secs(), 100);
        let queue = queue(&rig.broker).await;
        rig.engine.trim(vec![Trim { lane: lane(&queue, "a"), to: 2 }]).await.unwrap();
        assert_eq!(rig.engine.expire(Expire::Lanes(rig.engine.now().latest), 10).await.unwrap(), 1);
        push(&rig.broker, "q", "a", &["3", "4"]).await;
        assert_eq!(group(&rig.broker, "g").await.behind.unwrap().as_secs(), 0);
    }

    async fn the_systems_own_queues_are_hidden(rig: Rig) {
        push(&rig.broker, "q", "a", &["1"]).await;
        let id = QueueId::random();
        let hidden = Queue { id, name: "__system_x".into(), namespace: "n".into(), ..(*queue(&rig.broker).await).clone() };
        rig.engine.put_queue(Queue { version: 1, ..hidden }).await.unwrap();
        rig.engine.ensure_lanes(vec![NewLane { queue: id, name: "a".into(), now: Timestamp(1) }]).await.unwrap();
        let broker = rig.sibling().await;
        let listed = broker.queue_stats(&QueueFilter::default()).await.unwrap();
        assert_eq!(listed.iter().map(|stats| &*stats.queue.name).collect::<Vec<_>>(), ["q"]);
        assert_eq!(broker.overview().await.unwrap().totals.partitions, 1);
        assert_eq!(broker.namespaces().await.unwrap().len(), 1);
        assert!(broker.queue_detail("__system_x", ALL).await.is_err());
        assert_eq!(broker.ranked_partitions(None, 10).await.unwrap().len(), 1);
    }
}

#[tokio::test]
async fn the_ranking_looks_at_no_more_queues_than_it_must() {
    let rig = Rig::new(true).await;
    for n in 0..100 {
        let ids: Vec<String> = (0..=n).map(|i| i.to_string()).collect();
        let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
        push(&rig.broker, &format!("q{n}"), "a", &ids).await;
    }
    let before = rig.broker.read().store.calls;
    let first = rig.broker.ranked_partitions(None, 3).await.unwrap();
    let pending: Vec<u64> = first.iter().map(|p| p.pending).collect();
    assert_eq!(pending, [100, 99, 98]);
    let few = rig.broker.read().store.calls - before;
    assert_eq!(rig.broker.ranked_partitions(None, 1000).await.unwrap().len(), 100);
    assert!(rig.broker.read().store.calls - before - few > few);
}
