//! Looking at messages without consuming them.
#![allow(clippy::unwrap_used)]

mod common;

use std::sync::atomic::Ordering;
use std::time::Duration;

use bugle_broker::{AckStatus, MessageList, MessageQuery, MessageStatus, NewTrace, Refused};
use bugle_store::{Page, Timestamp, Trim};

use common::*;

fn all() -> MessageQuery {
    MessageQuery { limit: 1000, ..MessageQuery::default() }
}

fn shown(list: &MessageList) -> Vec<String> {
    list.messages.iter().map(|view| view.message.transaction().to_owned()).collect()
}

on_both! {
    async fn the_newest_messages_come_first_over_all_lanes(rig: Rig) {
        let mut expected = Vec::new();
        for round in 0..7 {
            for lane in ["a", "b", "c"] {
                let id = format!("{lane}{round}");
                push(&rig.broker, "q", lane, &[&id]).await;
                expected.insert(0, id);
            }
        }
        let list = rig.broker.messages(&all()).await.unwrap();
        assert_eq!((shown(&list), list.total, list.truncated), (expected.clone(), 21, false));
        for (offset, limit) in [(0, 1), (4, 5), (20, 5), (21, 5)] {
            let page = MessageQuery { offset, limit, ..all() };
            let list = rig.broker.messages(&page).await.unwrap();
            let wanted: Vec<String> = expected.iter().skip(offset).take(limit).cloned().collect();
            assert_eq!((shown(&list), list.total), (wanted, 21), "{offset} {limit}");
        }
    }

    async fn long_lanes_are_read_from_their_end_in_steps(rig: Rig) {
        let many: Vec<String> = (0..1000).map(|i| format!("{i:04}")).collect();
        for some in many.chunks(70) {
            push(&rig.broker, "q", "long", &some.iter().map(String::as_str).collect::<Vec<_>>()).await;
        }
        push(&rig.broker, "q", "short", &["last"]).await;
        let list = rig.broker.messages(&MessageQuery { offset: 500, limit: 300, ..all() }).await.unwrap();
        let wanted: Vec<String> = many.iter().rev().skip(499).take(300).cloned().collect();
        assert_eq!((shown(&list), list.total), (wanted, 1001));
        let pending = MessageQuery { status: Some(MessageStatus::Pending), offset: 1000, ..all() };
        let list = rig.broker.messages(&pending).await.unwrap();
        assert_eq!((shown(&list), list.total), (vec!["0000".to_owned()], 1001));
    }

    async fn a_list_is_cut_by_time_queue_partition_and_namespace(rig: Rig) {
        push(&rig.broker, "x.t", "a", &["old"]).await;
        rig.advance(Duration::from_secs(3700));
        let from = Timestamp(rig.clock.load(Ordering::Relaxed));
        push(&rig.broker, "x.t", "a", &["1"]).await;
        push(&rig.broker, "x.u", "b", &["2"]).await;
        let to = Timestamp(rig.clock.load(Ordering::Relaxed));
        push(&rig.broker, "y.t", "a", &["3"]).await;
        for (query, expected) in [
            (all(), &["3", "2", "1"][..]),
            (MessageQuery { from: Some(Timestamp::ZERO), ..all() }, &["3", "2", "1", "old"]),
            (MessageQuery { from: Some(Timestamp::ZERO), to: Some(from), ..all() }, &["old"]),
            (MessageQuery { from: Some(from), to: Some(to), ..all() }, &["2", "1"]),
            (MessageQuery { queue: Some("x.t".into()), ..all() }, &["1"]),
            (MessageQuery { partition: Some("a".into()), ..all() }, &["3", "1"]),
            (MessageQuery { namespace: Some("x".into()), ..all() }, &["2", "1"]),
            (MessageQuery { task: Some("t".into()), ..all() }, &["3", "1"]),
            (MessageQuery { queue: Some("nowhere".into()), ..all() }, &[]),
        ] {
            let list = rig.broker.messages(&query).await.unwrap();
            assert_eq!((shown(&list), list.total), (expected.iter().map(|id| (*id).to_owned()).collect(), expected.len() as u64), "{query:?}");
        }
    }

    async fn a_message_is_pending_then_processing_then_completed_or_dead(rig: Rig) {
        let lane = push(&rig.broker, "q", "p", &["a", "b", "c", "d"]).await[0].lane;
        let status = async |id: &str| rig.broker.message(lane, id).await.unwrap().status;
        assert_eq!(status("a").await, MessageStatus::Pending);
        let mut three = from_lane("q", "p");
        three.batch = Some(3);
        let popped = rig.broker.pop(three).await.unwrap();
        assert_eq!((status("a").await, status("d").await), (MessageStatus::Processing, MessageStatus::Pending));
        let acks = [("a", AckStatus::Completed), ("b", AckStatus::Dlq)];
        ack_as(&rig.broker, &popped, bugle_store::QUEUE_MODE, &acks).await;
        let statuses = [
            MessageStatus::Completed, MessageStatus::DeadLetter, MessageStatus::Processing, MessageStatus::Pending,
        ];
        for (id, expected) in ["a", "b", "c", "d"].into_iter().zip(statuses) {
            assert_eq!(status(id).await, expected, "{id}");
            let list = rig.broker.messages(&MessageQuery { status: Some(expected), ..all() }).await.unwrap();
            assert_eq!((shown(&list), list.total), (vec![id.to_owned()], 1), "{expected:?}");
        }
        let view = rig.broker.message(lane, "b").await.unwrap();
        assert_eq!(view.failure, Some(("Dead-lettered by consumer".into(), 0)));
        assert!(rig.broker.message(lane, "c").await.unwrap().lease_expires_at().is_some());
    }

    async fn a_trimmed_message_is_shown_from_its_dead_letter_and_otherwise_gone(rig: Rig) {
        let lane = push(&rig.broker, "q", "p", &["a", "b", "c"]).await[0].lane;
        let popped = rig.broker.pop(from_lane("q", "p")).await.unwrap();
        let acks = [("a", AckStatus::Dlq), ("b", AckStatus::Completed)];
        ack_as(&rig.broker, &popped, bugle_store::QUEUE_MODE, &acks).await;
        rig.engine.trim(vec![Trim { lane, to: 2 }]).await.unwrap();
        let view = rig.broker.message(lane, "a").await.unwrap();
        assert_eq!((view.status, &view.message.payload[..]), (MessageStatus::DeadLetter, &b"\"a\""[..]));
        for id in ["b", "never"] {
            assert!(matches!(rig.broker.message(lane, id).await, Err(Refused::NotFound(_))), "{id}");
        }
        let trace = |id: &str| NewTrace {
            lane,
            transaction_id: id.into(),
            event_type: "info".into(),
            data: "{}".into(),
            group: "g".into(),
            names: vec!["n".into()],
        };
        assert!(rig.broker.record_trace(trace("a")).await.unwrap().is_some(), "dead but kept");
        assert!(rig.broker.record_trace(trace("b")).await.unwrap().is_none());
        assert!(rig.broker.record_trace(trace("c")).await.unwrap().is_some());
        let (traces, total) = rig.broker.traces_named("n".into(), Page { offset: 0, limit: 10 }).await.unwrap();
        assert_eq!((traces.len(), total), (2, 2));
        assert_eq!(traces[0].payload.as_deref(), Some(&b"\"c\""[..]));
        assert_eq!((&*traces[0].queue, traces[0].partition.as_deref()), ("q", Some("p")));
    }
}
