//! The three ways to pop, and what their parameters do.

use std::collections::BTreeSet;

use serde_json::json;

use crate::common::ids;

on_every_engine! {
    async fn a_queue_pop_claims_several_partitions_under_one_lease(on: On) {
        let server = on.start().await;
        for lane in ["a", "b", "c"] {
            server.push_ids("q", lane, &[&format!("{lane}1"), &format!("{lane}2")]).await;
        }
        let popped = server.pop_some("/queue/q?batch=100&partitions=3").await;
        assert_eq!(popped["partitionsClaimed"], 3);
        let messages = popped["messages"].as_array().unwrap();
        assert_eq!(messages.len(), 6);
        assert!(messages.iter().all(|m| m["leaseId"] == popped["leaseId"]));
        assert_eq!(popped["partition"], messages[0]["partition"]);
        for pair in messages.chunks(2) {
            assert_eq!(pair[0]["partition"], pair[1]["partition"], "lanes are not mixed");
            assert!(pair[0]["offset"].as_u64() < pair[1]["offset"].as_u64(), "log order");
        }
        assert!(server.ack_all(&popped, "completed").await.as_array().unwrap().iter().all(|r| r["success"] == true));
        assert_eq!(server.pop("/queue/q?batch=100&partitions=3").await, None);
    }

    async fn one_partition_is_claimed_by_default_and_all_without_a_cap(on: On) {
        let server = on.start().await;
        for lane in ["a", "b", "c"] {
            server.push_ids("q", lane, &[lane]).await;
        }
        assert_eq!(server.pop_some("/queue/q?batch=100&consumerGroup=one").await["partitionsClaimed"], 1);
        assert_eq!(server.pop_some("/queue/q?batch=100&consumerGroup=all&partitions=0").await["partitionsClaimed"], 3);
    }

    async fn batch_caps_the_whole_answer(on: On) {
        let server = on.start().await;
        for lane in ["a", "b", "c"] {
            server.push_ids("q", lane, &[&format!("{lane}1"), &format!("{lane}2")]).await;
        }
        let popped = server.pop_some("/queue/q?batch=3&partitions=3&consumerGroup=g").await;
        assert_eq!(ids(&popped).len(), 3);
        assert_eq!(ids(&server.pop_some("/queue/q?consumerGroup=h").await).len(), 1, "the default");
        assert_eq!(ids(&server.pop_some("/queue/q?batch=-4&consumerGroup=i").await).len(), 1, "at least one");
    }

    async fn a_partition_pop_takes_from_its_partition_only(on: On) {
        let server = on.start().await;
        server.push_ids("q", "a", &["a1"]).await;
        server.push_ids("q", "b", &["b1"]).await;
        let popped = server.pop_some("/queue/q/partition/b?batch=10").await;
        assert_eq!((ids(&popped), &popped["partition"]), (vec!["b1"], &json!("b")));
        assert_eq!(server.pop("/queue/q/partition/b?batch=10").await, None);
        assert_eq!(server.pop("/queue/q/partition/none?batch=10").await, None);
    }

    async fn names_in_paths_are_decoded(on: On) {
        let server = on.start().await;
        server.push_ids("a b/ü", "x%y", &["t"]).await;
        assert_eq!(ids(&server.pop_some("/queue/a%20b%2F%C3%BC/partition/x%25y").await), ["t"]);
    }

    async fn a_filter_pop_finds_queues_by_namespace_and_task(on: On) {
        let server = on.start().await;
        for (queue, namespace, task) in [("q1", "shop", "mail"), ("q2", "shop", "bill"), ("q3", "other", "mail")] {
            server.configure(json!({"queue": queue, "namespace": namespace, "task": task})).await;
            server.push_ids(queue, "p", &[queue]).await;
        }
        let both = server.pop_some("?namespace=shop&task=mail&batch=10&partitions=10&consumerGroup=a").await;
        assert_eq!((ids(&both), &both["queue"]), (vec!["q1"], &json!("")));
        assert_eq!(both["messages"][0]["queue"], "q1");
        let seen = |rest: &'static str| async {
            let popped = server.pop_some(rest).await;
            ids(&popped).into_iter().map(str::to_owned).collect::<BTreeSet<_>>()
        };
        let namespace = seen("?namespace=shop&batch=10&partitions=10&consumerGroup=b").await;
        assert_eq!(namespace, BTreeSet::from(["q1".to_owned(), "q2".to_owned()]));
        let task = seen("?task=mail&batch=10&partitions=10&consumerGroup=c").await;
        assert_eq!(task, BTreeSet::from(["q1".to_owned(), "q3".to_owned()]));
        assert_eq!(server.pop("?namespace=other&task=bill").await, None);
    }

    async fn auto_ack_delivers_once_without_a_lease(on: On) {
        let server = on.start().await;
        server.push_ids("q", "p", &["t1", "t2"]).await;
        let popped = server.pop_some("/queue/q?autoAck=true&batch=1").await;
        assert_eq!((ids(&popped), &popped["leaseId"]), (vec!["t1"], &json!("")));
        assert_eq!(popped["messages"][0]["leaseId"], "");
        assert_eq!(ids(&server.pop_some("/queue/q?autoAck=true&batch=5").await), ["t2"]);
        assert_eq!(server.pop("/queue/q?autoAck=true&batch=5").await, None);
    }

    async fn groups_do_not_see_each_other(on: On) {
        let server = on.start().await;
        server.push_ids("q", "p", &["t"]).await;
        for group in ["a", "b"] {
            let popped = server.pop_some(&format!("/queue/q?consumerGroup={group}")).await;
            assert_eq!((ids(&popped), &popped["consumerGroup"]), (vec!["t"], &json!(group)));
        }
        assert_eq!(server.pop("/queue/q?consumerGroup=a").await, None);
    }

    async fn a_large_answer_arrives_whole(on: On) {
        let server = on.start().await;
        let text = "x".repeat(3000);
        let items: Vec<_> = (0..1000).map(|n| json!({"queue": "q", "payload": {"n": n, "text": text}})).collect();
        server.push(items.into()).await;
        let popped = server.pop_some("/queue/q?batch=1000").await;
        let messages = popped["messages"].as_array().unwrap();
        assert_eq!(messages.len(), 1000);
        assert!(messages.iter().enumerate().all(|(n, m)| m["data"] == json!({"n": n, "text": text})));
    }

    async fn conflation_is_echoed_also_by_an_empty_pop(on: On) {
        let server = on.start().await;
        server.push_ids("q", "p", &["old", "new"]).await;
        let popped = server.pop_some("/queue/q?conflation=true&consumerGroup=last&batch=10").await;
        assert_eq!((ids(&popped), &popped["conflation"]), (vec!["new"], &json!(true)));
        server.ack_all(&popped, "completed").await;
        let empty = server.pop_some("/queue/q?conflation=true&consumerGroup=last").await;
        assert_eq!((&empty["messages"], &empty["conflation"]), (&json!([]), &json!(true)));
    }
}
