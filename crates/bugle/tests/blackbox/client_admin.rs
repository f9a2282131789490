//! Our client as an administrator, and messages handled by hand.

use std::time::SystemTime;

use bugle_client::{
    Ack, Client, DeadLetterFilter, Enforced, Error, NewMessage, QueueOptions, Redrive, SeekTo, Verdict,
};
use serde_json::{Value, json};

use crate::client_pushes::{message, numbers, patient, url};
use crate::common::{On, Server};

async fn start(on: &On) -> (Server, Client) {
    let server = on.start().await;
    let client = patient(url(&server)).build().unwrap();
    (server, client)
}

on_every_engine! {
    async fn options_are_merged_and_echoed_and_a_queue_is_deleted(on: On) {
        let (_server, client) = start(&on).await;
        let admin = client.admin();
        let options = QueueOptions::default().lease_time(7).enforce(vec![Enforced::Ttl]).encryption_enabled(false);
        let made = admin.configure_in("q", "n", "t", &options).await.unwrap();
        assert_eq!((made.options.lease_time, made.options.enforce), (Some(7), Some(vec![Enforced::Ttl])));
        let again = admin.configure("q", &QueueOptions::default().retry_limit(9).min_pop_wait_time(90_000)).await.unwrap();
        assert_eq!((again.queue_id, again.options.lease_time), (made.queue_id, Some(7)), "what is not named stays");
        assert_eq!((again.options.retry_limit, again.options.min_pop_wait_time), (Some(9), Some(60_000)));
        client.push(message("q", "p", 1)).await.unwrap();
        assert_eq!(client.pop_where(Some("n"), Some("t")).send().await.unwrap().messages.len(), 1);
        assert!(admin.delete_queue("q").await.unwrap());
        assert!(!admin.delete_queue("q").await.unwrap());
        let health = client.health().await.unwrap();
        assert!(health.healthy && health.server == "bugle" && !health.version.is_empty());
    }

    async fn a_group_is_seen_sent_back_and_forgotten(on: On) {
        let (_server, client) = start(&on).await;
        let admin = client.admin();
        client.push_all(&[message("q q", "a/b", 0), message("q q", "a/b", 1)]).await.unwrap();
        let take = async || client.pop("q q").group("g g").batch(9).auto_ack().send().await.unwrap().messages.len();
        assert_eq!((take().await, take().await), (2, 0));
        let seen = admin.group("g g").await.unwrap();
        let lane = &seen["q q"].partitions[0];
        assert_eq!((lane.partition.as_str(), lane.total_consumed, lane.offset_lag), ("a/b", 2, 0));
        assert_eq!(admin.seek("g g", "q q", SeekTo::Beginning).await.unwrap(), 1);
        assert_eq!(take().await, 2);
        assert_eq!(admin.seek_partition("g g", "q q", "a/b", SeekTo::Time(SystemTime::UNIX_EPOCH)).await.unwrap(), Some(0));
        assert_eq!(admin.seek("g g", "q q", SeekTo::End).await.unwrap(), 1);
        assert_eq!(take().await, 0);
        assert_eq!(admin.delete_group("g g", Some("q q")).await.unwrap(), 1);
        assert_eq!(admin.delete_group("g g", None).await.unwrap(), 0);
        assert!(admin.group("g g").await.unwrap().is_empty());
        let nowhere = admin.seek_partition("g g", "q q", "nowhere", SeekTo::End).await.unwrap_err();
        assert!(matches!(nowhere, Error::Refused { status: 404, .. }), "{nowhere:?}");
    }

    async fn queues_and_groups_are_listed_with_what_they_hold(on: On) {
        let (_server, client) = start(&on).await;
        let admin = client.admin();
        client.push_all(&[message("n.t.q", "a", 0), message("n.t.q", "a", 1), message("n.t.q", "b", 2)]).await.unwrap();
        let taken = client.pop("n.t.q").group("g").partition("a").batch(1).send().await.unwrap();
        let queues = admin.queues().await.unwrap();
        let queue = queues.iter().find(|queue| queue.name == "n.t.q").unwrap();
        assert_eq!((queue.namespace.as_str(), queue.task.as_str(), queue.partitions), ("n", "t", 2));
        assert_eq!((queue.messages.total, queue.messages.pending, queue.messages.processing), (3, 2, 1));
        client.ack(&taken.messages[0]).await.unwrap();
        let detail = admin.queue("n.t.q").await.unwrap();
        assert_eq!((detail.totals.total, detail.totals.pending, detail.totals.completed), (3, 2, 1));
        let lanes: Vec<(&str, u64)> = detail.partitions.iter().map(|p| (p.name.as_str(), p.stats.pending)).collect();
        assert_eq!(lanes, [("a", 1), ("b", 1)]);
        let depth = admin.depth("n.t.q", Some("g")).await.unwrap();
        assert_eq!((depth.pending, depth.partitions_pending, depth.conflation), (2, 2, false));
        let groups = admin.groups().await.unwrap();
        let group = groups.iter().find(|group| group.name == "g" && group.queue_name == "n.t.q").unwrap();
        assert_eq!((group.total_lag, group.partitions_with_lag), (Some(2), 2));
        assert!(matches!(admin.queue("nowhere").await, Err(Error::Refused { status: 404, .. })));
    }

    async fn dead_letters_are_listed_replayed_and_redriven(on: On) {
        let (server, client) = start(&on).await;
        let admin = client.admin();
        client.push_all(&[message("q", "p", 0), message("q", "p", 1), message("q", "p", 2)]).await.unwrap();
        let batch = client.pop("q").group("g").batch(9).send().await.unwrap();
        for (message, why) in batch.messages.iter().zip(["odd", "even", "odd"]) {
            assert!(client.dead_letter(message, why).await.unwrap().dead_lettered);
        }
        let filter = DeadLetterFilter::queue("q").group("g").error_contains("odd").from(SystemTime::UNIX_EPOCH);
        let page = admin.dead_letters(&filter, 1, 1).await.unwrap();
        assert_eq!((page.total, page.messages.len()), (2, 1));
        let letter = &page.messages[0];
        assert_eq!((letter.payload(), letter.error_message.as_str(), letter.retry_count), (r#"{"n":0}"#, "odd", 0));
        assert!(letter.failed_at >= letter.created_at && letter.json::<Value>().unwrap() == json!({"n": 0}));
        let back = admin.replay(letter.id).await.unwrap();
        assert_eq!((back.queue.as_str(), back.partition.as_str()), ("q", "p"));
        assert!(matches!(admin.replay(letter.id).await, Err(Error::Refused { status: 404, .. })));
        let all = || Redrive::new(DeadLetterFilter::queue("q"));
        let counted = admin.redrive(&all().dry_run()).await.unwrap();
        assert_eq!((counted.matched, counted.redriven), (2, 0));
        let first = admin.redrive(&all().limit(1).into_queue("elsewhere")).await.unwrap();
        assert_eq!((first.redriven, first.remaining), (1, 1));
        let second = all().into_queue("elsewhere").from_cursor(first.cursor.unwrap());
        let second = admin.redrive(&second).await.unwrap();
        assert_eq!((second.redriven, second.cursor, second.error), (1, None, None));
        let mut moved = numbers(&server, "elsewhere", "check").await;
        moved.sort_unstable();
        assert_eq!(moved, [1, 2]);
    }

    async fn messages_are_handled_by_hand(on: On) {
        let (_server, client) = start(&on).await;
        client.push_all(&[message("q", "a", 0), message("q", "a", 1), message("q", "b", 2)]).await.unwrap();
        let pop = || client.pop("q").batch(9).partitions(9);
        let one = pop().send().await.unwrap();
        let two = pop().group("g").send().await.unwrap();
        assert_eq!((one.messages.len(), two.messages.len()), (3, 3));
        // Two groups in one call, whose outcomes stay in order.
        let acks: Vec<Ack> = [&one, &two].iter().flat_map(|b| b.messages.iter().map(Ack::completed)).collect();
        let mut mixed = vec![acks[3].clone()];
        mixed.extend_from_slice(&acks[..3]);
        mixed.extend_from_slice(&acks[4..]);
        assert!(client.settle(&mixed).await.unwrap().iter().all(|acked| acked.success && !acked.noop));
        assert!(client.ack(&one.messages[0]).await.unwrap().noop);
        let late = client.nack(&one.messages[0], "too late").await.unwrap_err();
        assert!(matches!(late, Error::Rejected { .. }), "{late:?}");
        client.push(message("q", "c", 3)).await.unwrap();
        let batch = pop().lease(std::time::Duration::from_secs(5)).send().await.unwrap();
        let lease = batch.lease.unwrap();
        let longer = client.renew(&lease, std::time::Duration::from_secs(100)).await.unwrap();
        assert!(longer > lease.expires_at);
        assert!(client.retry(&batch.messages[0]).await.unwrap().lease_released.unwrap());
        assert!(matches!(client.renew(&lease, lease.length).await, Err(Error::Rejected { .. })));
        let again = pop().send().await.unwrap();
        assert_eq!((again.messages[0].id, again.messages[0].delivery_attempt), (batch.messages[0].id, 2));
    }

    async fn a_transaction_happens_as_a_whole_or_not(on: On) {
        let (server, client) = start(&on).await;
        client.push(message("in", "p", 0)).await.unwrap();
        let batch = client.pop("in").group("g").send().await.unwrap();
        let taken = NewMessage::json("out", &json!({"n": 9})).unwrap().transaction_id("taken");
        client.push(taken.clone()).await.unwrap();
        let order = &batch.messages[0];
        let clash = client.transaction().ack(order).push(message("out", "Default", 1)).push(taken).send().await;
        let Err(Error::Rejected { reason: Some(reason), .. }) = clash else { panic!("{clash:?}") };
        assert_eq!(reason, "duplicate");
        let done = client.transaction().push(message("out", "Default", 2)).ack(order).send().await.unwrap();
        assert_eq!((done.results.len(), done.results[0].message_id.is_some()), (2, true));
        assert_eq!(done.results[1].transaction_id, order.transaction_id);
        let stale = client.transaction().settle(Ack::failed(order, "x")).send().await;
        assert!(matches!(stale, Err(Error::Rejected { .. })), "{stale:?}");
        assert!(client.transaction().send().await.unwrap().results.is_empty());
        assert_eq!(numbers(&server, "out", "check").await, [9, 2]);
    }

    async fn ids_are_enough_for_a_verdict_and_routes_without_words_can_be_read(on: On) {
        let (_server, client) = start(&on).await;
        client.push_all(&[message("q", "p", 0), message("q", "p", 1)]).await.unwrap();
        let batch = client.pop("q").group("g").batch(2).send().await.unwrap();
        let lease = batch.lease.unwrap().id;
        let ack = |at: usize, verdict| {
            let message = &batch.messages[at];
            Ack::by_id(&message.transaction_id, message.partition_id, verdict).group("g").lease(lease)
        };
        let done = client.settle(&[ack(0, Verdict::Completed), ack(1, Verdict::DeadLetter("odd".into()))]).await.unwrap();
        assert_eq!(done.iter().map(|acked| (acked.success, acked.dead_lettered)).collect::<Vec<_>>(), [(true, false), (true, true)]);
        let overview: Value = client.read_json(&["api", "v1", "resources", "overview"], &[]).await.unwrap();
        assert_eq!(overview["messages"]["deadLetter"], 1);
        let nothing: Option<Value> = client.read_json(&["api", "v1", "pop", "queue", "q"], &[("consumerGroup", "g")]).await.unwrap();
        assert!(nothing.is_none());
        assert!(client.metrics().await.unwrap().contains("bugle_messages_total{verb=\"push\"} 2\n"));
        let cleared = client.admin().clear_queue("q", Some("p")).await.unwrap();
        assert_eq!((cleared.partitions_cleared, cleared.messages_deleted), (1, 2));
    }
}
