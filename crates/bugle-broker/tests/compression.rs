//! Compressed and plain segments in one lane: nobody who pops, acknowledges or pushes again notices which is which.
#![allow(clippy::unwrap_used)]

mod common;

use std::sync::Arc;

use bugle_broker::{AckItem, AckStatus, Broker, BrokerConfig, EncryptionKey, Operation, PopRequest, Reading};
use bugle_store::{
    Append, Codec, DeadLetterFilter, Engine, Guard, Load, MemoryStore, Offset, Page, QUEUE_MODE, Read,
    Segment, Timestamp,
};

use common::*;

const CODECS: [Option<Codec>; 3] = [None, Some(Codec::Lz4), Some(Codec::Zstd)];

/// A broker that remembers nothing, so that all it delivers was read back.
async fn forgetful(rig: &Rig, compression: Option<Codec>) -> Broker {
    let config = BrokerConfig { dedupe_memory: 0, segment_cache: 0, compression, ..BrokerConfig::default() };
    Broker::open(rig.engine.clone(), config).await.unwrap()
}

/// A payload that compresses.
fn payload(id: &str) -> String {
    format!("{{\"id\":{id:?},\"note\":\"{}\"}}", "the same again ".repeat(40))
}

/// Twenty messages in one segment.
async fn push_segment(broker: &Broker, name: &str) -> Vec<String> {
    let ids: Vec<String> = (0..20).map(|n| format!("{name}-{n}")).collect();
    let items = ids.iter().map(|id| item("q", "p", id, &payload(id))).collect();
    assert!(broker.push(items).await.unwrap().iter().all(|pushed| !pushed.duplicate));
    ids
}

/// Three segments in one lane: plain, lz4, zstd.
async fn mixed(rig: &Rig) -> Vec<String> {
    let mut ids = Vec::new();
    for (n, codec) in CODECS.into_iter().enumerate() {
        ids.extend(push_segment(&forgetful(rig, codec).await, &format!("s{n}")).await);
    }
    let kinds: Vec<bool> = stored(&rig.engine).await.iter().map(Segment::is_packed).collect();
    assert_eq!(kinds, [false, true, true]);
    ids
}

async fn lane(engine: &Arc<dyn Engine>) -> bugle_store::Lane {
    let queue = engine.snapshot(None).await.unwrap().unwrap().queues[0].id;
    engine.lanes(queue, None, 10).await.unwrap().remove(0)
}

/// The segments of the first lane.
async fn stored(engine: &Arc<dyn Engine>) -> Vec<Segment> {
    let lane = lane(engine).await.id;
    let read = Read { lane, from: 0, to: Offset::MAX >> 1, max_bytes: usize::MAX };
    engine.read(vec![read]).await.unwrap().remove(0)
}

fn counted(broker: &Broker) -> bugle_broker::PackingReading {
    let Reading { packing, .. } = broker.read();
    packing
}

on_both! {
    async fn whatever_is_taken_of_them_comes_in_order(rig: Rig) {
        let all = mixed(&rig).await;
        for (n, batch) in [1, 7, 100].into_iter().enumerate() {
            let b = forgetful(&rig, CODECS[n]).await;
            let mut got = Vec::new();
            while got.len() < all.len() {
                let group: &str = &format!("g{batch}");
                let request = PopRequest { batch: Some(batch), group: group.into(), ..from_queue("q") };
                let answer = b.pop(request).await.unwrap();
                for popped in answer.lanes.iter().flat_map(|lane| &lane.messages) {
                    assert_eq!(popped.message.payload, payload(popped.message.transaction()));
                }
                let some = ids(&answer);
                assert!(!some.is_empty());
                let done: Vec<_> = some.iter().map(|id| (id.as_str(), AckStatus::Completed)).collect();
                let acked = ack_as(&b, &answer, group, &done).await;
                assert!(acked.iter().all(|acked| acked.success), "{acked:?}");
                got.extend(some);
            }
            assert_eq!(got, all, "batches of {batch}");
        }
    }

    async fn they_are_acknowledged_by_id_outside_a_lease(rig: Rig) {
        let all = mixed(&rig).await;
        let b = forgetful(&rig, None).await;
        let lane = lane(&rig.engine).await.id;
        let popped = b.pop(PopRequest { batch: Some(1), ..from_queue("q") }).await.unwrap();
        ack_all(&b, &popped).await;
        // Everything up to the last but one, which lies in the segment by zstd.
        let ack = AckItem {
            transaction_id: all[58].clone(),
            lane: Some(lane),
            status: AckStatus::Completed,
            group: QUEUE_MODE.into(),
            lease: None,
            error: None,
        };
        let acked = b.ack(vec![ack]).await.unwrap();
        assert!(acked[0].success, "{acked:?}");
        let found = rig.engine.load(vec![Load::Lane(lane, QUEUE_MODE.into())]).await.unwrap();
        assert_eq!(found[0][0].cursor.as_ref().unwrap().committed, 59);
    }

    async fn their_ids_are_found_again(rig: Rig) {
        let all = mixed(&rig).await;
        let originals: Vec<_> =
            stored(&rig.engine).await.iter().flat_map(|s| s.messages().unwrap()).map(|m| m.id).collect();
        for codec in CODECS {
            let b = forgetful(&rig, codec).await;
            let items = all.iter().map(|id| item("q", "p", id, "1")).collect();
            for (again, original) in b.push(items).await.unwrap().iter().zip(&originals) {
                assert!(again.duplicate && again.message_id == *original, "{again:?}");
            }
        }
        assert_eq!(lane(&rig.engine).await.head, 60);
    }

    async fn a_message_that_is_given_up_keeps_its_own_copy(rig: Rig) {
        let all = mixed(&rig).await;
        let b = forgetful(&rig, None).await;
        configure(&b, "q", serde_json::json!({"retryLimit": 0, "dlqAfterMaxRetries": true})).await;
        let popped = b.pop(from_queue("q")).await.unwrap();
        assert_eq!(ids(&popped), all);
        let given_up = [(all[25].as_str(), AckStatus::Dlq), (all[45].as_str(), AckStatus::Dlq)];
        assert!(ack_as(&b, &popped, QUEUE_MODE, &given_up).await.iter().all(|acked| acked.success));
        let page = Page { limit: 10, offset: 0 };
        let (letters, _) = rig.engine.dead_letters(DeadLetterFilter::default(), page).await.unwrap();
        assert_eq!(letters.len(), 2);
        for letter in letters {
            let message = bugle_store::Message::decode(&mut letter.message.clone()).unwrap();
            assert_eq!(message.payload, payload(&letter.transaction_id));
        }
    }

    async fn messages_of_a_transaction_are_compressed_like_any(rig: Rig) {
        let b = forgetful(&rig, Some(Codec::Lz4)).await;
        let pushes = (0..20).map(|n| Operation::Push(item("q", "p", &n.to_string(), &payload("t"))));
        b.transact(pushes.collect(), Vec::new()).await.unwrap();
        assert!(stored(&rig.engine).await[0].is_packed());
        assert_eq!(b.pop(from_queue("q")).await.unwrap().count(), 20);
    }

    async fn a_damaged_one_is_not_delivered_and_stops_nothing_else(rig: Rig) {
        let all = mixed(&rig).await;
        let last = stored(&rig.engine).await.remove(2);
        let mut body = last.body.to_vec();
        body[40] ^= 1;
        let segment = bugle_store::NewSegment {
            id: 7,
            fingerprints: (0..20).collect(),
            greatest: None,
            body: body.into(),
        };
        let lane = lane(&rig.engine).await.id;
        let append = Append { lane, known_head: 60, guard: Guard::Free, segment, now: Timestamp(START) };
        assert!(rig.engine.append(vec![append]).await.unwrap()[0].is_ok());
        let b = forgetful(&rig, None).await;
        let auto = PopRequest { auto_ack: true, group: "auto".into(), ..from_queue("q") };
        assert_eq!(ids(&b.pop(auto.clone()).await.unwrap()), all);
        assert!(b.pop(auto).await.unwrap().lanes.is_empty());
        let found = rig.engine.load(vec![Load::Lane(lane, "auto".into())]).await.unwrap();
        assert_eq!(found[0][0].cursor.as_ref().unwrap().committed, 60, "nothing is committed that was not delivered");
        let popped = b.pop(from_queue("q")).await.unwrap();
        assert_eq!(ids(&popped), all);
        assert!(ack_all(&b, &popped).await.iter().all(|acked| acked.success));
        assert!(b.pop(from_queue("q")).await.unwrap().lanes.is_empty());
        b.push(vec![item("q", "other", "x", "1")]).await.unwrap();
        assert_eq!(ids(&b.pop(from_queue("q")).await.unwrap()), ["x"]);
    }
}

#[tokio::test]
async fn fresh_messages_are_delivered_from_memory_as_before() {
    let store: Arc<dyn Engine> = Arc::new(MemoryStore::new());
    let config = BrokerConfig { compression: Some(Codec::Zstd), ..BrokerConfig::default() };
    let b = Broker::open(store.clone(), config).await.unwrap();
    let all = push_segment(&b, "s").await;
    let stored = stored(&store).await.remove(0);
    assert!(stored.is_packed());
    let popped = b.pop(from_queue("q")).await.unwrap();
    assert_eq!(ids(&popped), all);
    assert_eq!(b.read().claims.cached, 1);
    let counts = counted(&b);
    assert_eq!((counts.after, counts.unpaid), (stored.body.len() as u64, 0));
    assert_eq!(counts.before, stored.plain_len() as u64);
}

#[tokio::test]
async fn what_is_remembered_is_plain_and_counts_as_such() {
    for (segment_cache, remembered) in [(12_000, 0), (1 << 20, 1)] {
        let store: Arc<dyn Engine> = Arc::new(MemoryStore::new());
        let config =
            BrokerConfig { compression: Some(Codec::Zstd), segment_cache, ..BrokerConfig::default() };
        let b = Broker::open(store.clone(), config).await.unwrap();
        push_segment(&b, "s").await;
        // A segment may take a quarter of the bound: this one does not compressed, and does as it is.
        let stored = stored(&store).await.remove(0);
        assert!(stored.body.len() < 2000 && stored.plain_len() > 3500);
        assert_eq!(b.pop(from_queue("q")).await.unwrap().count(), 20);
        assert_eq!(b.read().claims.cached, remembered, "of {segment_cache} bytes");
    }
}

#[tokio::test]
async fn short_and_encrypted_messages_are_left_alone() {
    let store: Arc<dyn Engine> = Arc::new(MemoryStore::new());
    let key = EncryptionKey { id: "k".into(), key: [7; 32] };
    let config = BrokerConfig {
        compression: Some(Codec::Lz4),
        encryption_keys: vec![key],
        segment_cache: 0,
        ..BrokerConfig::default()
    };
    let b = Broker::open(store.clone(), config).await.unwrap();
    b.push(vec![item("q", "p", "short", &payload("short"))]).await.unwrap();
    configure(&b, "q", serde_json::json!({"encryptionEnabled": true})).await;
    let sealed = push_segment(&b, "sealed").await;
    assert_eq!(counted(&b), Default::default(), "nothing was tried");
    configure(&b, "q", serde_json::json!({"encryptionEnabled": false})).await;
    let open = push_segment(&b, "open").await;
    let kinds: Vec<bool> = stored(&store).await.iter().map(Segment::is_packed).collect();
    assert_eq!(kinds, [false, false, true]);
    let got = ids(&b.pop(from_queue("q")).await.unwrap());
    assert_eq!(got, [vec!["short".to_owned()], sealed, open].concat());
}

#[tokio::test]
async fn a_queue_where_it_does_not_pay_is_tried_ever_more_rarely() {
    let store: Arc<dyn Engine> = Arc::new(MemoryStore::new());
    let config = BrokerConfig { compression: Some(Codec::Lz4), ..BrokerConfig::default() };
    let b = Broker::open(store.clone(), config).await.unwrap();
    for n in 0..40 {
        let chance: String = std::iter::repeat_with(fastrand::alphanumeric).take(2000).collect();
        b.push(vec![item("q", &format!("p{n}"), "", &format!("{chance:?}"))]).await.unwrap();
    }
    // Tried were the 1st, the 6th, the 15th and the 32nd, whatever partitions they were for.
    let counts = counted(&b);
    assert_eq!((counts.before, counts.after, counts.unpaid), (0, 0, 4));
    // Another queue knows nothing of it.
    let items = (0..20).map(|n| item("other", "p", "", &payload(&n.to_string()))).collect();
    b.push(items).await.unwrap();
    assert!(counted(&b).before > counted(&b).after * 4);
}

#[tokio::test]
async fn an_answer_keeps_its_bound_however_well_messages_compress() {
    let rig = Rig::new(true).await;
    let all = mixed(&rig).await;
    for auto_ack in [false, true] {
        let config = BrokerConfig { segment_cache: 0, pop_max_bytes: 9000, ..BrokerConfig::default() };
        let b = Broker::open(rig.engine.clone(), config).await.unwrap();
        let group: &str = if auto_ack { "auto" } else { "leased" };
        let mut got = Vec::new();
        while got.len() < all.len() {
            let answer = b
                .pop(PopRequest { batch: Some(20), auto_ack, group: group.into(), ..from_queue("q") })
                .await
                .unwrap();
            let bytes: usize =
                answer.lanes.iter().flat_map(|l| &l.messages).map(|m| m.message.payload.len()).sum();
            assert!(bytes > 0 && bytes <= 9000, "{bytes} bytes");
            let some = ids(&answer);
            if !auto_ack {
                let done: Vec<_> = some.iter().map(|id| (id.as_str(), AckStatus::Completed)).collect();
                ack_as(&b, &answer, group, &done).await;
            }
            got.extend(some);
        }
        assert_eq!(got, all);
    }
}
