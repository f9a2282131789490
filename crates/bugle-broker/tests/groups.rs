//! Consumer groups sent elsewhere and deleted: what they are given afterwards, who is woken, and whose word counts no more.
#![allow(clippy::unwrap_used)]

mod common;

use std::sync::atomic::Ordering;
use std::time::Duration;

use bugle_broker::{
    AckStatus, Broker, FloorConfig, GroupDeleted, PopRequest, PopTarget, Refused, SeekTo, Sought,
};
use bugle_store::{Group, QUEUE_MODE, Timestamp};
use common::waits::{Pair, answer, deaf_pair, parked};
use common::{Rig, ack_as, from_lane, from_queue, ids, push};

fn group() -> Group {
    "g".into()
}

fn of(request: PopRequest) -> PopRequest {
    PopRequest { group: group(), partitions: Some(100), ..request }
}

fn only_new(request: PopRequest) -> PopRequest {
    PopRequest { subscription_mode: Some("new".into()), ..of(request) }
}

/// What the group gets now, acknowledged at once, sorted.
async fn take(broker: &Broker, queue: &str) -> Vec<String> {
    let answer = broker.pop(PopRequest { auto_ack: true, ..of(from_queue(queue)) }).await.unwrap();
    let mut all = ids(&answer);
    all.sort_unstable();
    all
}

async fn seek(broker: &Broker, to: SeekTo) -> u64 {
    broker.seek("q", &group(), None, to).await.unwrap().partitions
}

on_both! {
    async fn the_beginning_brings_everything_again(rig: Rig) {
        push(&rig.broker, "q", "a", &["1", "2"]).await;
        push(&rig.broker, "q", "b", &["3"]).await;
        assert_eq!(take(&rig.broker, "q").await, ["1", "2", "3"]);
        assert!(take(&rig.broker, "q").await.is_empty());
        push(&rig.broker, "q", "never met", &["4"]).await;
        assert_eq!(seek(&rig.broker, SeekTo::Beginning).await, 2);
        assert_eq!(take(&rig.broker, "q").await, ["1", "2", "3", "4"]);
        // Other groups are where they were.
        assert_eq!(rig.broker.pop(from_lane("q", "a")).await.unwrap().count(), 2);
    }

    async fn the_end_passes_over_what_is_there_and_nothing_else(rig: Rig) {
        push(&rig.broker, "q", "a", &["1", "2"]).await;
        push(&rig.broker, "q", "b", &["3"]).await;
        let one = rig.broker.pop(of(from_lane("q", "a"))).await.unwrap();
        assert_eq!(ids(&one), ["1", "2"]);
        assert_eq!(seek(&rig.broker, SeekTo::End).await, 1);
        assert!(take(&rig.broker, "q").await.is_empty());
        push(&rig.broker, "q", "a", &["4"]).await;
        push(&rig.broker, "q", "b", &["5"]).await;
        push(&rig.broker, "q", "new", &["6"]).await;
        assert_eq!(take(&rig.broker, "q").await, ["4", "5", "6"]);
    }

    async fn a_time_is_where_what_was_pushed_after_it_begins(rig: Rig) {
        for id in ["1", "2", "3"] {
            push(&rig.broker, "q", "a", &[id]).await;
            push(&rig.broker, "q", "b", &[&format!("b{id}")]).await;
            rig.advance(Duration::from_secs(10));
        }
        take(&rig.broker, "q").await;
        let between = Timestamp(common::START + 15_000_000);
        assert_eq!(seek(&rig.broker, SeekTo::Time(between)).await, 2);
        assert_eq!(take(&rig.broker, "q").await, ["3", "b3"]);
        assert_eq!(seek(&rig.broker, SeekTo::Time(Timestamp::ZERO)).await, 2);
        assert_eq!(take(&rig.broker, "q").await.len(), 6);
        assert_eq!(seek(&rig.broker, SeekTo::Time(Timestamp::MAX)).await, 2);
        assert!(take(&rig.broker, "q").await.is_empty());
    }

    async fn hazard_q_a_group_that_subscribed_to_new_can_go_back_before_that(rig: Rig) {
        push(&rig.broker, "q", "a", &["1"]).await;
        push(&rig.broker, "q", "b", &["2"]).await;
        assert_eq!(rig.broker.pop(only_new(from_queue("q"))).await.unwrap().count(), 0);
        push(&rig.broker, "q", "a", &["3"]).await;
        assert_eq!(take(&rig.broker, "q").await, ["3"]);
        seek(&rig.broker, SeekTo::Beginning).await;
        assert_eq!(take(&rig.broker, "q").await, ["1", "2", "3"]);
    }

    async fn a_group_nobody_has_met_begins_where_it_was_sent(rig: Rig) {
        push(&rig.broker, "q", "a", &["1"]).await;
        assert_eq!(seek(&rig.broker, SeekTo::End).await, 0);
        push(&rig.broker, "q", "a", &["2"]).await;
        assert_eq!(take(&rig.broker, "q").await, ["2"]);
    }

    async fn acknowledgements_of_before_a_seek_are_refused(rig: Rig) {
        push(&rig.broker, "q", "a", &["1", "2"]).await;
        let request = || of(from_queue("q"));
        let held = rig.broker.pop(request()).await.unwrap();
        seek(&rig.broker, SeekTo::Beginning).await;
        let late = ack_as(&rig.broker, &held, "g", &[("1", AckStatus::Completed)]).await;
        assert!(!late[0].success, "{late:?}");
        let again = rig.broker.pop(request()).await.unwrap();
        assert_eq!((ids(&again), again.lanes[0].delivery_attempt), (vec!["1".into(), "2".into()], 1));
        let late = ack_as(&rig.broker, &held, "g", &[("2", AckStatus::Failed)]).await;
        assert!(!late[0].success);
        let done = ack_as(&rig.broker, &again, "g", &[("2", AckStatus::Completed)]).await;
        assert!(done[0].success);
    }

    async fn whoever_waits_is_woken_by_a_seek(rig: Rig) {
        push(&rig.broker, "q", "a", &["1"]).await;
        let by_filter = PopTarget::Filter { namespace: Some("q".into()), task: None };
        for request in [from_queue("q"), from_lane("q", "a"), PopRequest { target: by_filter, ..from_queue("") }] {
            take(&rig.broker, "q").await;
            let pop = parked(&rig.broker, PopRequest { auto_ack: true, ..of(request) }).await;
            seek(&rig.broker, SeekTo::Beginning).await;
            assert_eq!(answer(pop).await, ["1"]);
        }
    }

    async fn a_seek_to_the_end_leaves_who_waits_waiting(rig: Rig) {
        push(&rig.broker, "q", "a", &["1"]).await;
        let held = rig.broker.pop(of(from_queue("q"))).await.unwrap();
        assert_eq!(held.count(), 1);
        let pop = parked(&rig.broker, of(from_queue("q"))).await;
        seek(&rig.broker, SeekTo::End).await;
        // The lease of the one before has ended with the seek.
        push(&rig.broker, "q", "a", &["2"]).await;
        assert_eq!(answer(pop).await, ["2"]);
    }

    async fn one_partition_is_moved_and_no_other(rig: Rig) {
        push(&rig.broker, "q", "a", &["1", "2"]).await;
        push(&rig.broker, "q", "b", &["3"]).await;
        take(&rig.broker, "q").await;
        let pop = parked(&rig.broker, PopRequest { auto_ack: true, ..of(from_lane("q", "a")) }).await;
        let to = |partition, to| { let broker = rig.broker.clone(); async move { broker.seek("q", &group(), Some(partition), to).await } };
        assert_eq!(to("a", SeekTo::Beginning).await.unwrap(), Sought { partitions: 1, position: Some(0) });
        assert_eq!(answer(pop).await, ["1", "2"]);
        assert_eq!(to("a", SeekTo::End).await.unwrap().position, Some(2));
        assert!(take(&rig.broker, "q").await.is_empty());
        push(&rig.broker, "q", "c", &["4"]).await;
        push(&rig.broker, "q", "d", &["5"]).await;
        assert_eq!(to("c", SeekTo::End).await.unwrap().position, Some(1));
        assert_eq!(take(&rig.broker, "q").await, ["5"]);
        assert!(matches!(to("x", SeekTo::End).await, Err(Refused::NotFound(text)) if text == "Partition not found"));
    }

    async fn an_unknown_queue_is_not_found_and_not_made(rig: Rig) {
        let seek = rig.broker.seek("q", &group(), None, SeekTo::End).await;
        assert!(matches!(seek, Err(Refused::NotFound(_))));
        let deleted = rig.broker.delete_group(&group(), Some("q"), true).await;
        assert!(matches!(deleted, Err(Refused::NotFound(_))));
        assert!(!rig.broker.delete_queue("q").await.unwrap());
    }

    async fn anonymous_consumers_can_be_sent_back_too(rig: Rig) {
        push(&rig.broker, "q", "a", &["1"]).await;
        let request = || PopRequest { auto_ack: true, ..from_queue("q") };
        assert_eq!(rig.broker.pop(request()).await.unwrap().count(), 1);
        let moved = rig.broker.seek("q", &QUEUE_MODE.into(), None, SeekTo::Beginning).await.unwrap();
        assert_eq!(moved.partitions, 1);
        assert_eq!(ids(&rig.broker.pop(request()).await.unwrap()), ["1"]);
        assert_eq!(rig.broker.delete_group(&QUEUE_MODE.into(), None, true).await.unwrap().partitions, 1);
        assert_eq!(ids(&rig.broker.pop(request()).await.unwrap()), ["1"]);
    }

    async fn a_deleted_group_starts_as_new(rig: Rig) {
        push(&rig.broker, "q", "a", &["1"]).await;
        push(&rig.broker, "q", "b", &["2"]).await;
        push(&rig.broker, "r", "a", &["3"]).await;
        for queue in ["q", "r"] {
            take(&rig.broker, queue).await;
        }
        let deleted = rig.broker.delete_group(&group(), Some("q"), true).await.unwrap();
        assert_eq!(deleted, GroupDeleted { partitions: 2, metadata: true });
        assert!(take(&rig.broker, "r").await.is_empty(), "the other queue is as it was");
        assert_eq!(take(&rig.broker, "q").await, ["1", "2"]);
        let deleted = rig.broker.delete_group(&group(), None, true).await.unwrap();
        assert_eq!(deleted, GroupDeleted { partitions: 3, metadata: true });
        assert_eq!(rig.broker.delete_group(&group(), None, true).await.unwrap(), GroupDeleted::default());
        assert!(rig.broker.group(&group()).await.unwrap().is_empty());
        assert_eq!(take(&rig.broker, "r").await, ["3"]);
    }

    async fn a_group_whose_record_stays_starts_where_it_had_subscribed(rig: Rig) {
        push(&rig.broker, "q", "a", &["1"]).await;
        rig.broker.pop(only_new(from_queue("q"))).await.unwrap();
        push(&rig.broker, "q", "a", &["2"]).await;
        assert_eq!(take(&rig.broker, "q").await, ["2"]);
        let deleted = rig.broker.delete_group(&group(), Some("q"), false).await.unwrap();
        assert_eq!(deleted, GroupDeleted { partitions: 1, metadata: false });
        assert_eq!(take(&rig.broker, "q").await, ["2"]);
        rig.broker.delete_group(&group(), Some("q"), true).await.unwrap();
        assert_eq!(take(&rig.broker, "q").await, ["1", "2"]);
    }

    async fn who_waits_for_a_deleted_group_registers_anew(rig: Rig) {
        push(&rig.broker, "q", "a", &["1"]).await;
        for metadata in [false, true] {
            for request in [from_queue("q"), from_lane("q", "a")] {
                take(&rig.broker, "q").await;
                let pop = parked(&rig.broker, PopRequest { auto_ack: true, ..of(request) }).await;
                rig.broker.delete_group(&group(), None, metadata).await.unwrap();
                assert_eq!(answer(pop).await, ["1"]);
            }
        }
    }

    async fn an_acknowledgement_of_before_a_deletion_settles_nothing(rig: Rig) {
        push(&rig.broker, "q", "a", &["1", "2"]).await;
        let other = if rig.engine.exclusive() { rig.broker.clone() } else { rig.sibling().await };
        let held = other.pop(of(from_queue("q"))).await.unwrap();
        rig.broker.delete_group(&group(), Some("q"), true).await.unwrap();
        // The row is a new one, at its first epoch like the one that the other server remembers.
        let again = rig.broker.pop(of(from_queue("q"))).await.unwrap();
        assert_eq!(ids(&again), ["1", "2"]);
        let late = ack_as(&other, &held, "g", &[("2", AckStatus::Completed)]).await;
        assert!(!late[0].success, "{late:?}");
        let done = ack_as(&rig.broker, &again, "g", &[("2", AckStatus::Completed)]).await;
        assert!(done[0].success, "{done:?}");
    }

    async fn a_changed_subscription_counts_where_the_group_has_not_been(rig: Rig) {
        push(&rig.broker, "q", "a", &["1"]).await;
        assert_eq!(take(&rig.broker, "q").await, ["1"]);
        push(&rig.broker, "q", "b", &["2"]).await;
        rig.advance(Duration::from_secs(10));
        let from = Timestamp(rig.clock.load(Ordering::Relaxed));
        assert_eq!(rig.broker.subscription(&group(), from).await.unwrap(), 1);
        push(&rig.broker, "q", "b", &["3"]).await;
        push(&rig.broker, "q", "a", &["4"]).await;
        assert_eq!(take(&rig.broker, "q").await, ["3", "4"]);
        assert_eq!(rig.broker.subscription(&"nobody".into(), from).await.unwrap(), 0);
    }

    async fn a_lease_outlives_a_changed_subscription(rig: Rig) {
        push(&rig.broker, "q", "a", &["1", "2"]).await;
        let held = rig.broker.pop(PopRequest { batch: Some(1), ..of(from_queue("q")) }).await.unwrap();
        rig.broker.subscription(&group(), Timestamp::ZERO).await.unwrap();
        let pop = parked(&rig.broker, of(from_queue("q"))).await;
        assert!(ack_as(&rig.broker, &held, "g", &[("1", AckStatus::Completed)]).await[0].success);
        assert_eq!(answer(pop).await, ["2"]);
    }

    async fn lag_is_exact(rig: Rig) {
        push(&rig.broker, "q", "a", &["1", "2", "3"]).await;
        push(&rig.broker, "q", "b", &["4"]).await;
        rig.advance(Duration::from_secs(100));
        push(&rig.broker, "q", "c", &["5"]).await;
        let held = rig.broker.pop(of(from_lane("q", "a"))).await.unwrap();
        ack_as(&rig.broker, &held, "g", &[("1", AckStatus::Completed)]).await;
        rig.broker.pop(PopRequest { auto_ack: true, ..of(from_lane("q", "b")) }).await.unwrap();
        let queues = rig.broker.group(&group()).await.unwrap();
        assert_eq!((queues.len(), &*queues[0].queue, queues[0].truncated), (1, "q", false));
        let partitions = &queues[0].partitions;
        let seen: Vec<_> = partitions.iter().map(|p| (&*p.partition, p.consumed, p.lag, p.behind.as_secs())).collect();
        assert_eq!(seen, [("a", 1, 2, 100), ("b", 1, 0, 0), ("c", 0, 1, 0)]);
        assert_eq!(partitions[0].lease, held.lease_id, "what was not acknowledged is still held");
        assert_eq!(partitions[1].lease, None);
        assert_eq!(partitions.iter().map(|p| p.served_at.is_some()).collect::<Vec<_>>(), [true, true, false]);
        rig.advance(Duration::from_secs(3600));
        assert_eq!(rig.broker.group(&group()).await.unwrap()[0].partitions[0].lease, None, "the lease has ended");
    }

    async fn lag_of_a_group_that_wants_what_is_new_counts_only_that(rig: Rig) {
        push(&rig.broker, "q", "a", &["1", "2"]).await;
        rig.broker.pop(only_new(from_queue("q"))).await.unwrap();
        push(&rig.broker, "q", "a", &["3"]).await;
        assert_eq!(rig.broker.group(&group()).await.unwrap()[0].partitions[0].lag, 1);
        assert_eq!(take(&rig.broker, "q").await, ["3"]);
    }

    async fn seeks_while_consumers_work_lose_nothing_after_the_last_one(rig: Rig) {
        let all: Vec<String> = (0..50).map(|n| format!("{n:02}")).collect();
        for (n, id) in all.iter().enumerate() {
            push(&rig.broker, "q", &format!("p{}", n % 5), &[id]).await;
        }
        let broker = rig.broker.clone();
        let consumer = tokio::spawn(async move {
            for _ in 0..200 {
                let request = PopRequest { batch: Some(3), partitions: Some(2), ..of(from_queue("q")) };
                let popped = broker.pop(request).await.unwrap();
                let done = ids(&popped);
                let done: Vec<_> = done.iter().map(|id| (id.as_str(), AckStatus::Completed)).collect();
                ack_as(&broker, &popped, "g", &done).await;
            }
        });
        for to in [SeekTo::End, SeekTo::Beginning].repeat(10) {
            seek(&rig.broker, to).await;
            tokio::task::yield_now().await;
        }
        consumer.await.unwrap();
        seek(&rig.broker, SeekTo::Beginning).await;
        assert_eq!(take(&rig.broker, "q").await, all);
    }
}

/// A server that remembers the old record, and hears nothing of the new one, begins where the seek says nevertheless.
#[tokio::test]
async fn a_seek_binds_servers_that_have_not_heard_of_it() {
    let rig = Rig::new(false).await;
    let deaf = rig.sibling().await;
    push(&rig.broker, "q", "a", &["1"]).await;
    assert_eq!(deaf.pop(only_new(from_queue("q"))).await.unwrap().count(), 0);
    seek(&rig.broker, SeekTo::Beginning).await;
    assert_eq!(take(&deaf, "q").await, ["1"]);
}

/// The floor tells them: with the check for pending work, so that nobody asks for himself.
fn telling_floor() -> FloorConfig {
    FloorConfig { pending_check: true, pending_check_from: Duration::ZERO, ..FloorConfig::default() }
}

fn everywhere() -> [PopRequest; 3] {
    let target = PopTarget::Filter { namespace: Some("q".into()), task: None };
    let by_filter = PopRequest { target, ..from_queue("") };
    [from_queue("q"), from_lane("q", "a"), by_filter]
        .map(|request| PopRequest { auto_ack: true, ..of(request) })
}

async fn a_seek_elsewhere_wakes(a: Broker, b: Broker) {
    push(&a, "q", "a", &["1"]).await;
    for partition in [None, Some("a")] {
        for request in everywhere() {
            take(&b, "q").await;
            let pop = parked(&b, request).await;
            a.seek("q", &group(), partition, SeekTo::Beginning).await.unwrap();
            assert_eq!(answer(pop).await, ["1"]);
        }
    }
}

async fn a_deletion_elsewhere_lets_register_anew(a: Broker, b: Broker) {
    push(&a, "q", "a", &["1"]).await;
    for metadata in [true, false] {
        for request in everywhere() {
            take(&b, "q").await;
            let pop = parked(&b, request).await;
            a.delete_group(&group(), Some("q"), metadata).await.unwrap();
            assert_eq!(answer(pop).await, ["1"]);
        }
    }
}

#[tokio::test]
async fn a_seek_elsewhere_wakes_who_waits_here() {
    let Pair { a, b, .. } = Pair::hearing().await;
    a_seek_elsewhere_wakes(a, b).await;
}

#[tokio::test]
async fn a_group_deleted_elsewhere_registers_anew_here() {
    let Pair { a, b, .. } = Pair::hearing().await;
    a_deletion_elsewhere_lets_register_anew(a, b).await;
}

#[tokio::test]
async fn a_seek_that_nobody_told_is_found_by_the_floor() {
    let (a, b) = deaf_pair(telling_floor()).await;
    a_seek_elsewhere_wakes(a, b).await;
}

#[tokio::test]
async fn a_deletion_that_nobody_told_is_found_by_the_floor() {
    let (a, b) = deaf_pair(telling_floor()).await;
    a_deletion_elsewhere_lets_register_anew(a, b).await;
}
