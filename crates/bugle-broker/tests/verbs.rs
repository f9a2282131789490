//! Push, pop, ack and transactions, one behaviour per test, on a broker that owns its store and on one that shares it.
#![allow(clippy::unwrap_used)]

mod common;

use std::time::Duration;

use bugle_broker::{AckItem, AckStatus, LeaseToken, Operation, PopRequest, PopTarget, Refused};
use bugle_store::{DeadLetterFilter, Page, QUEUE_MODE};

use common::*;

on_both! {
    async fn what_is_pushed_is_popped_in_order_and_gone_when_acked(rig: Rig) {
        let b = &rig.broker;
        push(b, "q", "p", &["a", "b", "c"]).await;
        let first = b.pop(from_queue("q")).await.unwrap();
        assert_eq!(ids(&first), ["a", "b", "c"]);
        assert_eq!(first.lanes[0].messages[1].message.payload, "\"b\"");
        assert!(b.pop(from_queue("q")).await.unwrap().lanes.is_empty(), "the lane is leased");
        let acked = ack_all(b, &first).await;
        assert!(acked.iter().all(|a| a.success && a.error.is_none()), "{acked:?}");
        assert!(acked[2].lease_released);
        assert!(b.pop(from_queue("q")).await.unwrap().lanes.is_empty());
        push(b, "q", "p", &["d"]).await;
        assert_eq!(ids(&b.pop(from_queue("q")).await.unwrap()), ["d"]);
    }

    async fn a_repeated_id_is_a_duplicate_inside_the_window_only(rig: Rig) {
        let b = &rig.broker;
        let first = push(b, "q", "p", &["a", "a", "b"]).await;
        assert_eq!(first.iter().map(|p| p.duplicate).collect::<Vec<_>>(), [false, true, false]);
        assert_eq!(first[0].message_id, first[1].message_id);
        let again = push(b, "q", "p", &["b", "c"]).await;
        assert!(again[0].duplicate && !again[1].duplicate);
        assert_eq!(again[0].message_id, first[2].message_id);
        assert!(!push(b, "q", "other", &["a"]).await[0].duplicate, "ids are per partition");
        rig.advance(Duration::from_secs(3601));
        assert!(!push(b, "q", "p", &["a"]).await[0].duplicate);
    }

    async fn duplicates_are_known_to_a_broker_that_has_just_started(rig: Rig) {
        let first = push(&rig.broker, "q", "p", &["a", "b"]).await;
        let other = rig.sibling().await;
        let again = push(&other, "q", "p", &["b", "c"]).await;
        assert!(again[0].duplicate && !again[1].duplicate);
        assert_eq!(again[0].message_id, first[1].message_id);
    }

    async fn groups_read_independently(rig: Rig) {
        let b = &rig.broker;
        push(b, "q", "p", &["a"]).await;
        for group in ["g1", "g2", QUEUE_MODE] {
            let answer = b.pop(PopRequest { group: group.into(), ..from_queue("q") }).await.unwrap();
            assert_eq!(ids(&answer), ["a"], "{group}");
        }
    }

    async fn a_pop_can_claim_several_partitions_under_one_lease(rig: Rig) {
        let b = &rig.broker;
        for p in ["p1", "p2", "p3"] {
            push(b, "q", p, &[&format!("{p}-a"), &format!("{p}-b")]).await;
        }
        let two = b.pop(PopRequest { partitions: Some(2), ..from_queue("q") }).await.unwrap();
        assert_eq!(two.lanes.len(), 2);
        assert_eq!(two.count(), 4);
        let rest = b.pop(PopRequest { partitions: Some(9), batch: Some(1), ..from_queue("q") }).await.unwrap();
        assert_eq!((rest.lanes.len(), rest.count()), (1, 1), "batch is the global cap");
        let renewed = b.renew(LeaseToken::Id(two.lease_id.unwrap()), 600).await.unwrap();
        assert_eq!((renewed.renewed, renewed.error), (2, None));
        assert!(ack_all(b, &two).await.iter().all(|a| a.success));
    }

    async fn lanes_are_served_least_recently_served_first(rig: Rig) {
        let b = &rig.broker;
        for round in 0..2 {
            for p in ["p1", "p2", "p3"] {
                push(b, "q", p, &[&format!("{p}-{round}")]).await;
            }
        }
        let mut order = Vec::new();
        for _ in 0..6 {
            let answer = b.pop(PopRequest { batch: Some(1), auto_ack: true, ..from_queue("q") }).await.unwrap();
            order.push(answer.lanes[0].partition.to_string());
        }
        let (first, second) = order.split_at(3);
        assert_eq!(first, second, "every lane is served once before one is served again");
        assert_eq!(first.iter().collect::<std::collections::BTreeSet<_>>().len(), 3);
    }

    async fn a_filter_pop_takes_from_every_matching_queue(rig: Rig) {
        let b = &rig.broker;
        push(b, "shop.email", "p", &["a"]).await;
        push(b, "shop.sms", "p", &["b"]).await;
        push(b, "bank.email", "p", &["c"]).await;
        let filter = |namespace: Option<&str>, task: Option<&str>| PopRequest {
            target: PopTarget::Filter { namespace: namespace.map(Into::into), task: task.map(Into::into) },
            auto_ack: true,
            ..from_queue("")
        };
        assert_eq!(ids(&b.pop(filter(Some("shop"), Some("sms"))).await.unwrap()), ["b"]);
        let email: Vec<String> = [
            ids(&b.pop(filter(None, Some("email"))).await.unwrap()),
            ids(&b.pop(filter(None, Some("email"))).await.unwrap()),
        ]
        .concat();
        assert_eq!(email.len(), 2, "{email:?}");
        assert!(b.pop(filter(Some("shop"), None)).await.unwrap().lanes.is_empty());
    }

    async fn a_failed_message_comes_again_until_its_retries_are_used_up(rig: Rig) {
        let b = &rig.broker;
        configure(b, "q", serde_json::json!({"retryLimit": 1})).await;
        push(b, "q", "p", &["a", "b"]).await;
        for attempt in 1..=2 {
            let answer = b.pop(from_queue("q")).await.unwrap();
            assert_eq!(ids(&answer), ["a", "b"]);
            assert_eq!(answer.lanes[0].delivery_attempt, attempt);
            let acked = ack_as(b, &answer, QUEUE_MODE, &[("a", AckStatus::Failed)]).await;
            assert_eq!(acked[0].dlq, attempt == 2, "{acked:?}");
        }
        let filter = DeadLetterFilter::default();
        let (dead, total) = rig.engine.dead_letters(filter, Page { offset: 0, limit: 10 }).await.unwrap();
        assert_eq!((total, dead[0].transaction_id.as_str()), (1, "a"));
        assert_eq!(dead[0].error, "Retries exhausted");
    }

    async fn an_expired_lease_is_redelivered_and_its_acks_are_refused(rig: Rig) {
        let b = &rig.broker;
        push(b, "q", "p", &["a"]).await;
        let first = b.pop(PopRequest { lease_seconds: Some(5), ..from_lane("q", "p") }).await.unwrap();
        rig.advance(Duration::from_secs(6));
        let second = b.pop(from_lane("q", "p")).await.unwrap();
        assert_eq!(ids(&second), ["a"]);
        assert_eq!(second.lanes[0].delivery_attempt, 2);
        let late = ack_all(b, &first).await;
        assert_eq!((late[0].success, late[0].error.as_deref()), (false, Some("invalid or expired lease")));
        assert!(ack_all(b, &second).await[0].success);
        let renewed = b.renew(LeaseToken::Id(first.lease_id.unwrap()), 60).await.unwrap();
        assert_eq!(renewed.error, Some("Lease not found"));
    }

    async fn a_delivery_is_counted_also_if_it_commits(rig: Rig) {
        let b = &rig.broker;
        push(b, "q", "p", &["a", "b"]).await;
        let first = b.pop(from_lane("q", "p")).await.unwrap();
        ack_as(b, &first, QUEUE_MODE, &[("a", AckStatus::Failed)]).await;
        let one = PopRequest { auto_ack: true, batch: Some(1), ..from_lane("q", "p") };
        let told = |answer: bugle_broker::PopAnswer| (ids(&answer), answer.lanes[0].delivery_attempt);
        assert_eq!(told(b.pop(one.clone()).await.unwrap()), (vec!["a".to_owned()], 2));
        assert_eq!(told(b.pop(one).await.unwrap()), (vec!["b".to_owned()], 1));
    }

    async fn what_another_server_has_settled_is_not_answered_from_memory(rig: Rig) {
        let other = if rig.engine.exclusive() { rig.broker.clone() } else { rig.sibling().await };
        push(&rig.broker, "q", "p", &["a"]).await;
        let popped = rig.broker.pop(from_lane("q", "p")).await.unwrap();
        assert!(ack_as(&other, &popped, QUEUE_MODE, &[("a", AckStatus::Failed)]).await[0].success);
        let unleased = bugle_broker::PopAnswer { lease_id: None, ..popped };
        assert!(ack_as(&rig.broker, &unleased, QUEUE_MODE, &[("a", AckStatus::Dlq)]).await[0].dlq);
        let late = ack_as(&other, &unleased, QUEUE_MODE, &[("a", AckStatus::Retry)]).await;
        assert!(late[0].error.as_deref().is_some_and(|e| e.starts_with("already committed")), "{late:?}");
    }

    async fn a_conflating_group_is_given_the_newest_visible_message_whatever_the_batch(rig: Rig) {
        let b = &rig.broker;
        configure(b, "q", serde_json::json!({ "delayedProcessing": 5 })).await;
        push(b, "q", "p", &["a", "b"]).await;
        rig.advance(Duration::from_secs(3));
        push(b, "q", "p", &["c"]).await;
        rig.advance(Duration::from_secs(3));
        let one = PopRequest { group: "g".into(), conflation: true, batch: Some(1), ..from_lane("q", "p") };
        let newest = b.pop(one.clone()).await.unwrap();
        assert_eq!(ids(&newest), ["b"]);
        assert!(ack_as(b, &newest, "g", &[("b", AckStatus::Completed)]).await[0].lease_released);
        rig.advance(Duration::from_secs(6));
        assert_eq!(ids(&b.pop(one).await.unwrap()), ["c"]);
    }

    async fn conflation_is_echoed_where_there_is_no_queue_yet(rig: Rig) {
        let target = PopTarget::Filter { namespace: Some("nowhere".into()), task: None };
        let request = PopRequest { target, group: "g".into(), conflation: true, ..from_queue("q") };
        let answer = rig.broker.pop(request).await.unwrap();
        assert!(answer.lanes.is_empty() && answer.conflation && !answer.conflation_conflict);
    }

    async fn a_waiting_pop_is_woken_by_a_push(rig: Rig) {
        let b = rig.broker.clone();
        let pop = tokio::spawn(async move { b.pop(waiting(from_queue("q"), Duration::from_secs(30))).await });
        until(&rig, 1).await;
        push(&rig.broker, "q", "p", &["a"]).await;
        assert_eq!(ids(&pop.await.unwrap().unwrap()), ["a"]);
    }

    async fn a_waiting_pop_on_a_partition_is_woken_when_it_is_freed(rig: Rig) {
        let b = rig.broker.clone();
        push(&b, "q", "p", &["a", "b"]).await;
        let held = b.pop(PopRequest { batch: Some(1), ..from_lane("q", "p") }).await.unwrap();
        let pop = tokio::spawn(async move { b.pop(waiting(from_lane("q", "p"), Duration::from_secs(30))).await });
        until(&rig, 1).await;
        ack_all(&rig.broker, &held).await;
        assert_eq!(ids(&pop.await.unwrap().unwrap()), ["b"]);
    }

    async fn a_waiting_filter_pop_is_woken_by_a_queue_that_did_not_exist(rig: Rig) {
        let b = rig.broker.clone();
        let request = PopRequest {
            target: PopTarget::Filter { namespace: Some("shop".into()), task: None },
            group: "g".into(),
            subscription_mode: Some("new".into()),
            ..from_queue("")
        };
        let pop = tokio::spawn(async move { b.pop(waiting(request, Duration::from_secs(30))).await });
        until(&rig, 1).await;
        push(&rig.broker, "shop.new", "p", &["a"]).await;
        assert_eq!(ids(&pop.await.unwrap().unwrap()), ["a"]);
    }

    async fn a_group_that_subscribes_to_new_starts_when_it_began_to_wait(rig: Rig) {
        let b = rig.broker.clone();
        push(&b, "q", "p", &["old"]).await;
        let request = PopRequest { group: "g".into(), subscription_mode: Some("new".into()), ..from_queue("q") };
        let pop = tokio::spawn({
            let b = b.clone();
            let request = request.clone();
            async move { b.pop(waiting(request, Duration::from_secs(30))).await }
        });
        until(&rig, 1).await;
        push(&b, "q", "p", &["new"]).await;
        push(&b, "q", "p2", &["new2"]).await;
        assert_eq!(ids(&pop.await.unwrap().unwrap()), ["new"]);
        assert_eq!(ids(&b.pop(request).await.unwrap()), ["new2"]);
    }

    async fn a_pop_whose_caller_went_away_frees_its_lane(rig: Rig) {
        let b = rig.broker.clone();
        let pop = tokio::spawn(async move { b.pop(waiting(from_queue("q"), Duration::from_secs(30))).await });
        until(&rig, 1).await;
        pop.abort();
        until(&rig, 0).await;
        push(&rig.broker, "q", "p", &["a"]).await;
        let answer = rig.broker.pop(waiting(from_queue("q"), Duration::from_secs(5))).await.unwrap();
        assert_eq!((ids(&answer), answer.lanes[0].delivery_attempt), (vec!["a".to_owned()], 1));
    }

    async fn auto_ack_delivers_once(rig: Rig) {
        let b = &rig.broker;
        push(b, "q", "p", &["a", "b", "c"]).await;
        let request = PopRequest { auto_ack: true, batch: Some(2), ..from_queue("q") };
        let first = b.pop(request.clone()).await.unwrap();
        assert_eq!((ids(&first), first.lease_id), (vec!["a".to_owned(), "b".to_owned()], None));
        assert_eq!(ids(&b.pop(request.clone()).await.unwrap()), ["c"]);
        assert!(b.pop(request).await.unwrap().lanes.is_empty());
    }

    async fn delayed_messages_appear_after_their_delay(rig: Rig) {
        let b = &rig.broker;
        configure(b, "q", serde_json::json!({"delayedProcessing": 10})).await;
        push(b, "q", "p", &["a"]).await;
        assert!(b.pop(from_queue("q")).await.unwrap().lanes.is_empty());
        rig.advance(Duration::from_secs(5));
        push(b, "q", "p", &["b"]).await;
        rig.advance(Duration::from_secs(6));
        let answer = b.pop(from_lane("q", "p")).await.unwrap();
        assert_eq!(ids(&answer), ["a"]);
    }

    async fn a_transaction_is_all_or_nothing(rig: Rig) {
        let b = &rig.broker;
        push(b, "in", "p", &["a"]).await;
        let answer = b.pop(from_queue("in")).await.unwrap();
        let ack = |id: &str, lease| {
            Operation::Ack(AckItem {
                transaction_id: id.into(),
                lane: Some(answer.lanes[0].lane),
                status: AckStatus::Completed,
                group: QUEUE_MODE.into(),
                lease,
                error: None,
            })
        };
        let lease = answer.lease_id.map(LeaseToken::Id);
        let bad = vec![Operation::Push(item("out", "p", "x", "1")), ack("nope", lease)];
        let refused = b.transact(bad, Vec::new()).await.unwrap();
        assert_eq!(refused.error.as_deref(), Some("ACK operation failed: Message not found"));
        assert!(b.pop(from_queue("out")).await.unwrap().lanes.is_empty());
        let good = vec![Operation::Push(item("out", "p", "x", "1")), ack("a", lease)];
        let done = b.transact(good.clone(), Vec::new()).await.unwrap();
        assert!(done.success, "{done:?}");
        assert_eq!(ids(&b.pop(from_queue("out")).await.unwrap()), ["x"]);
        assert!(b.pop(from_queue("in")).await.unwrap().lanes.is_empty());
        let again = b.transact(vec![Operation::Push(item("out", "p", "x", "1"))], Vec::new()).await.unwrap();
        assert_eq!((again.success, again.reason), (false, Some("duplicate")));
    }

    async fn a_transaction_under_a_lease_that_is_over_adds_nothing_to_what_another_has_done(rig: Rig) {
        let b = &rig.broker;
        push(b, "in", "p", &["a"]).await;
        let slow = b.pop(from_lane("in", "p")).await.unwrap();
        rig.advance(Duration::from_secs(3600));
        let quick = b.pop(from_lane("in", "p")).await.unwrap();
        assert_eq!(ids(&quick), ["a"]);
        assert!(ack_all(b, &quick).await[0].success);
        let ack = Operation::Ack(AckItem {
            transaction_id: "a".into(),
            lane: Some(slow.lanes[0].lane),
            status: AckStatus::Completed,
            group: QUEUE_MODE.into(),
            lease: slow.lease_id.map(LeaseToken::Id),
            error: None,
        });
        let push = Operation::Push(item("out", "p", "x", "1"));
        let refused = b.transact(vec![push, ack.clone()], Vec::new()).await.unwrap();
        assert_eq!(refused.error.as_deref(), Some("ACK operation failed: Invalid or expired lease"));
        assert!(b.pop(from_queue("out")).await.unwrap().lanes.is_empty());
        // Alone it may be a repetition whose first answer was lost, and changes nothing.
        assert!(b.transact(vec![ack], Vec::new()).await.unwrap().success);
    }

    async fn a_deleted_queue_starts_over(rig: Rig) {
        let b = &rig.broker;
        push(b, "q", "p", &["a"]).await;
        assert!(b.delete_queue("q").await.unwrap());
        assert!(!b.delete_queue("q").await.unwrap());
        assert!(b.pop(from_queue("q")).await.unwrap().lanes.is_empty());
        assert!(!push(b, "q", "p", &["a"]).await[0].duplicate);
        assert_eq!(ids(&b.pop(from_queue("q")).await.unwrap()), ["a"]);
    }

    async fn an_enforced_max_size_refuses_what_does_not_fit(rig: Rig) {
        let b = &rig.broker;
        configure(b, "q", serde_json::json!({"maxSize": 2, "enforce": ["maxSize"]})).await;
        push(b, "q", "p", &["a", "b"]).await;
        let refused = b.push(vec![item("q", "p", "c", "1")]).await;
        assert!(matches!(refused, Err(Refused::Busy { .. })), "{refused:?}");
    }

    async fn an_enforced_ttl_buries_what_is_too_old(rig: Rig) {
        let b = &rig.broker;
        configure(b, "q", serde_json::json!({"ttl": 10, "enforce": ["ttl"]})).await;
        push(b, "q", "p", &["old"]).await;
        rig.advance(Duration::from_secs(11));
        push(b, "q", "p", &["fresh"]).await;
        assert_eq!(ids(&b.pop(from_queue("q")).await.unwrap()), ["fresh"]);
        let (dead, _) = rig.engine.dead_letters(DeadLetterFilter::default(), Page { offset: 0, limit: 10 }).await.unwrap();
        assert_eq!(dead.iter().map(|d| d.transaction_id.as_str()).collect::<Vec<_>>(), ["old"]);
    }
}

/// Wait until this many pops wait.
async fn until(rig: &Rig, waiting: usize) {
    while rig.broker.health().await.waiting != waiting {
        tokio::task::yield_now().await;
    }
    // A parked pop has run dry: let the dispatcher finish what it does for it.
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
}
