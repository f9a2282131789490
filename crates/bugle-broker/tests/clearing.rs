//! Clearing a queue.
#![allow(clippy::unwrap_used)]

mod common;

use bugle_broker::{Cleared, Refused};

use common::*;

on_both! {
    async fn messages_go_and_queue_groups_and_order_stay(rig: Rig) {
        let broker = &rig.broker;
        for lane in 0..700 {
            push(broker, "q", &format!("{lane}"), &["a", "b"]).await;
        }
        push(broker, "other", "p", &["x"]).await;
        let popped = broker.pop(from_lane("q", "3")).await.unwrap();
        ack_all(broker, &popped).await;
        let held = broker.pop(from_lane("q", "4")).await.unwrap();
        let cleared = broker.clear_queue("q", None).await.unwrap();
        assert_eq!(cleared, Cleared { partitions: 700, messages: 1400 });
        assert!(broker.pop(from_queue("q")).await.unwrap().lanes.is_empty());
        assert_eq!(ids(&broker.pop(from_queue("other")).await.unwrap()), ["x"]);
        push(broker, "q", "3", &["c"]).await;
        let after = broker.pop(from_queue("q")).await.unwrap();
        assert_eq!((ids(&after), after.lanes[0].messages[0].offset), (vec!["c".to_owned()], 2), "offsets go on");
        // Whoever worked on something goes on; there is nothing to settle any more.
        let late = ack_all(broker, &held).await;
        assert_eq!(late.len(), 2);
        push(broker, "q", "4", &["d"]).await;
        assert_eq!(broker.clear_queue("q", None).await.unwrap().messages, 2);
    }

    async fn one_partition_may_be_cleared_alone(rig: Rig) {
        let broker = &rig.broker;
        push(broker, "q", "a", &["1", "2"]).await;
        push(broker, "q", "b", &["3"]).await;
        assert_eq!(broker.clear_queue("q", Some("a")).await.unwrap(), Cleared { partitions: 1, messages: 2 });
        assert_eq!(broker.clear_queue("q", Some("a")).await.unwrap(), Cleared::default());
        assert_eq!(ids(&broker.pop(from_queue("q")).await.unwrap()), ["3"]);
        assert!(broker.pop(from_queue("q")).await.unwrap().lanes.is_empty());
    }

    async fn what_is_not_there_is_not_found(rig: Rig) {
        push(&rig.broker, "q", "a", &["1"]).await;
        for (queue, partition) in [("none", None), ("q", Some("none"))] {
            let refused = rig.broker.clear_queue(queue, partition).await;
            assert!(matches!(refused, Err(Refused::NotFound(_))), "{refused:?}");
        }
    }
}

#[tokio::test]
async fn another_server_finds_nothing_where_it_remembers_messages() {
    let rig = Rig::new(false).await;
    let sibling = rig.sibling().await;
    push(&rig.broker, "q", "a", &["1", "2"]).await;
    sibling.clear_queue("q", None).await.unwrap();
    assert!(rig.broker.pop(from_queue("q")).await.unwrap().lanes.is_empty());
    push(&rig.broker, "q", "a", &["3"]).await;
    assert_eq!(ids(&rig.broker.pop(from_queue("q")).await.unwrap()), ["3"]);
}
