//! Appending: offsets, stamps and guards.

use std::sync::Arc;

use uuid::Uuid;

use super::fixture::{Fixture, at, free, guarded, message, opaque, segment, transactions, up};
use crate::{AppendError, Appended, Engine, Guard, LaneId, Message, NewSegment, TraceContext};

/// Each segment starts where the one before it ended, and lanes count for themselves.
pub async fn offsets_are_gapless(engine: Arc<dyn Engine>) {
    let f = Fixture::new(engine).await;
    let (a, b) = (f.lane("a").await, f.lane("b").await);
    assert_eq!(f.push(a, &["1", "2", "3"]).await.base, 0);
    assert_eq!(f.push(a, &["4"]).await.base, 3);
    assert_eq!(f.push(b, &["1"]).await.base, 0);
    assert_eq!(f.push(a, &["5", "6"]).await.base, 4);
    assert_eq!(f.ends(a).await, (6, 0));
    assert_eq!(f.ends(b).await, (1, 0));
    assert_eq!(transactions(&f.read_all(a).await), ["1", "2", "3", "4", "5", "6"]);
}

/// What comes back is what was given, in every field.
pub async fn segments_round_trip(engine: Arc<dyn Engine>) {
    let f = Fixture::new(engine).await;
    let lane = f.lane("a").await;
    let full = Message {
        trace_id: Some(Uuid::new_v4()),
        producer_sub: Some("svc-é".into()),
        context: TraceContext::parse(b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
            .map(Arc::new),
        encrypted: true,
        ..message("tx-\u{1F3BA}")
    };
    let plain = message("");
    let mut new = NewSegment::build(u64::MAX, &[full.clone(), plain.clone()]);
    new.fingerprints = Arc::from([u64::MAX, 0]);
    f.put(lane, new.clone(), at(5)).await;
    let read = f.read_all(lane).await;
    assert_eq!(read.len(), 1);
    assert_eq!((read[0].base, read[0].count, read[0].created_at, read[0].id), (0, 2, at(5), u64::MAX));
    assert_eq!(read[0].body, new.body);
    assert_eq!(read[0].messages(), Ok(vec![full, plain]));
}

/// Bodies are opaque: every byte value survives, at any length up to several megabytes.
pub async fn bodies_are_opaque_bytes(engine: Arc<dyn Engine>) {
    let f = Fixture::new(engine).await;
    let lane = f.lane("a").await;
    let every_byte: Vec<u8> = (0..=255).collect();
    let large: Vec<u8> = (0..5_000_000_u32).map(|i| (i ^ (i >> 8) ^ (i >> 16)) as u8).collect();
    for body in [every_byte, vec![0], vec![0; 4096], large] {
        let new = opaque(1, body.clone());
        let base = f.put(lane, new, at(1)).await.base;
        let read = f.read_one(lane, base, base + 1, usize::MAX).await;
        assert_eq!(read.len(), 1);
        assert!(read[0].body == body, "a body of {} bytes came back different", body.len());
    }
}

/// A segment may hold thousands of messages.
pub async fn many_messages_fit_one_segment(engine: Arc<dyn Engine>) {
    let f = Fixture::new(engine).await;
    let lane = f.lane("a").await;
    let messages: Vec<Message> = (0..5000).map(|i| message(&i.to_string())).collect();
    let appended = f.put(lane, NewSegment::build(1, &messages), at(1)).await;
    assert_eq!(appended.base, 0);
    assert_eq!(f.ends(lane).await, (5000, 0));
    let read = f.read_all(lane).await;
    assert_eq!(read[0].count, 5000);
    assert_eq!(read[0].messages(), Ok(messages));
}

/// `Guard::Head` lets through exactly the head, and answers the lane as it is otherwise.
pub async fn head_guard_wants_the_exact_head(engine: Arc<dyn Engine>) {
    let f = Fixture::new(engine).await;
    let lane = f.lane("a").await;
    assert!(f.append_one(guarded(lane, Guard::Head, 0, segment(&["1", "2"]))).await.is_ok());
    let now = f.state(lane).await.expect("the lane exists");
    assert_eq!(now.head, 2);
    for known in [0, 1, 3] {
        let refused = f.append_one(guarded(lane, Guard::Head, known, segment(&["3"]))).await;
        assert_eq!(refused, Err(AppendError::Moved(now.clone())), "known head {known}");
    }
    assert_eq!(f.state(lane).await, Some(now), "a refused append changes nothing");
    let stored = f.append_one(guarded(lane, Guard::Head, 2, segment(&["3"]))).await;
    assert_eq!(stored, Ok(Appended { base: 2, created_at: at(1) }));
}

/// `Guard::Fingerprints` refuses what occurs at or above the known head, and only that.
pub async fn fingerprint_guard_looks_above_the_known_head(engine: Arc<dyn Engine>) {
    let f = Fixture::new(engine).await;
    let lane = f.lane("a").await;
    f.push(lane, &["1", "2"]).await;
    f.push(lane, &["3", "4"]).await;
    let now = f.state(lane).await.expect("the lane exists");
    for (known, ids) in [(0, ["new", "1"]), (1, ["2", "new"]), (2, ["new", "4"]), (3, ["4", "new"])] {
        let refused = f.append_one(guarded(lane, Guard::Fingerprints, known, segment(&ids))).await;
        assert_eq!(refused, Err(AppendError::Moved(now.clone())), "{ids:?} above {known}");
    }
    assert_eq!(f.state(lane).await, Some(now), "a refused append changes nothing");
    // A moved head alone is fine, and what occurs only below the known head was looked up by the caller.
    for (known, ids, base) in [(0, "new", 4), (2, "2", 5), (3, "3", 6), (7, "4", 7)] {
        let stored = f.append_one(guarded(lane, Guard::Fingerprints, known, segment(&[ids]))).await;
        assert_eq!(stored.map(|a| a.base), Ok(base), "{ids} above {known}");
    }
}

/// A known head above the real one means the caller knows a lane that is gone: refused unless the guard is free.
pub async fn a_head_below_the_known_one_is_moved(engine: Arc<dyn Engine>) {
    let f = Fixture::new(engine).await;
    let lane = f.lane("a").await;
    f.push(lane, &["1"]).await;
    let now = f.state(lane).await.expect("the lane exists");
    for guard in [Guard::Head, Guard::Fingerprints] {
        let refused = f.append_one(guarded(lane, guard, 2, segment(&["new"]))).await;
        assert_eq!(refused, Err(AppendError::Moved(now.clone())), "{guard:?}");
    }
    let stored = f.append_one(guarded(lane, Guard::Free, 2, segment(&["new"]))).await;
    assert_eq!(stored.map(|a| a.base), Ok(1));
}

/// `Guard::Free` stores even what is there already.
pub async fn free_guard_takes_anything(engine: Arc<dyn Engine>) {
    let f = Fixture::new(engine).await;
    let lane = f.lane("a").await;
    for base in 0..3 {
        assert_eq!(f.push(lane, &["same"]).await.base, base);
    }
    assert_eq!(transactions(&f.read_all(lane).await), ["same"; 3]);
}

/// Stamps never decrease along a lane, whatever the caller's clock does.
pub async fn stamps_never_decrease(engine: Arc<dyn Engine>) {
    let f = Fixture::new(engine).await;
    let lane = f.lane("a").await;
    for (now, stamp) in [(10, 10), (5, 10), (10, 10), (11, 11), (-100, 11)] {
        let appended = f.put(lane, segment(&["x"]), at(now)).await;
        assert_eq!(appended.created_at, at(stamp), "appended at {now}");
        assert_eq!(f.state(lane).await.map(|l| l.written_at), Some(at(stamp)));
    }
    let stamps: Vec<_> = f.read_all(lane).await.iter().map(|s| s.created_at).collect();
    assert_eq!(stamps, [10, 10, 10, 11, 11].map(at));
}

/// Stamps keep their microseconds.
pub async fn stamps_are_exact(engine: Arc<dyn Engine>) {
    let f = Fixture::new(engine).await;
    let lane = f.lane("a").await;
    let mut odd = at(1);
    odd.0 += 123_457;
    assert_eq!(f.put(lane, segment(&["x"]), odd).await.created_at, odd);
    assert_eq!(f.read_all(lane).await[0].created_at, odd);
    assert_eq!(f.state(lane).await.map(|l| l.written_at), Some(odd));
}

/// A lane's `greatest` is the maximum ever, also when smaller ones or none follow.
pub async fn greatest_is_kept(engine: Arc<dyn Engine>) {
    let f = Fixture::new(engine).await;
    let lane = f.lane("a").await;
    let (low, high) = (Uuid::from_u128(7 << 76 | 1), Uuid::from_u128(7 << 76 | 0xff << 120));
    let steps = [
        (None, None),
        (Some(low), Some(low)),
        (None, Some(low)),
        (Some(high), Some(high)),
        (Some(low), Some(high)),
    ];
    for (given, kept) in steps {
        f.put(lane, NewSegment { greatest: given, ..segment(&["x"]) }, at(1)).await;
        assert_eq!(f.state(lane).await.and_then(|l| l.greatest), kept);
    }
}

/// One bad item of a batch does not affect the others, and outcomes come in the order of the items.
pub async fn outcomes_are_per_item(engine: Arc<dyn Engine>) {
    let f = Fixture::new(engine).await;
    let lanes = f.sorted_lanes(4).await;
    let unknown = LaneId::derive(f.queue.id, "never created");
    f.push(lanes[1], &["there"]).await;
    let moved = f.state(lanes[1]).await.expect("the lane exists");
    let batch = vec![
        guarded(lanes[3], Guard::Head, 0, segment(&["d"])),
        guarded(lanes[1], Guard::Head, 0, segment(&["b"])),
        free(unknown, segment(&["e"]), at(1)),
        guarded(lanes[0], Guard::Fingerprints, 0, segment(&["a"])),
        free(lanes[2], segment(&["c1", "c2"]), at(1)),
    ];
    let stored = Ok(Appended { base: 0, created_at: at(1) });
    let expected = vec![
        stored.clone(),
        Err(AppendError::Moved(moved)),
        Err(AppendError::NoLane),
        stored.clone(),
        stored,
    ];
    assert_eq!(up(f.append(batch).await), expected);
    for (lane, ids) in [(0, vec!["a"]), (1, vec!["there"]), (2, vec!["c1", "c2"]), (3, vec!["d"])] {
        assert_eq!(transactions(&f.read_all(lanes[lane]).await), ids);
    }
    assert_eq!(f.read_all(unknown).await, []);
}

/// A batch over hundreds of lanes in no particular order is one call.
pub async fn large_batches_work(engine: Arc<dyn Engine>) {
    let f = Fixture::new(engine).await;
    let mut lanes = f.sorted_lanes(300).await;
    lanes.reverse();
    lanes.swap(7, 200);
    let batch = lanes.iter().map(|lane| free(*lane, segment(&[&lane.to_string()]), at(1))).collect();
    assert!(up(f.append(batch).await).iter().all(|outcome| outcome.as_ref().is_ok_and(|a| a.base == 0)));
    for lane in lanes {
        assert_eq!(transactions(&f.read_all(lane).await), [lane.to_string()]);
    }
}

/// An empty batch has no outcomes.
pub async fn an_empty_batch_is_fine(engine: Arc<dyn Engine>) {
    assert_eq!(up(engine.append(Vec::new()).await), []);
    assert_eq!(up(engine.swap(Vec::new()).await), []);
    assert_eq!(up(engine.commit(Vec::new()).await), []);
    assert_eq!(up(engine.read(Vec::new()).await), Vec::<crate::Segments>::new());
    assert_eq!(up(engine.find(Vec::new()).await), Vec::<Vec<crate::Found>>::new());
    assert!(up(engine.probe(Vec::new()).await).is_empty());
    assert_eq!(up(engine.load(Vec::new()).await), Vec::<Vec<crate::LaneCursor>>::new());
    assert_eq!(up(engine.position(Vec::new()).await), Vec::<u64>::new());
    assert_eq!(up(engine.trim(Vec::new()).await), Vec::<u64>::new());
    assert_eq!(up(engine.ensure_lanes(Vec::new()).await), []);
}

/// After its queue was deleted a lane takes nothing, whatever the guard.
pub async fn no_lane_after_its_queue_was_deleted(engine: Arc<dyn Engine>) {
    let f = Fixture::new(engine).await;
    let lane = f.lane("a").await;
    f.push(lane, &["1"]).await;
    assert!(up(f.delete_queue(f.queue.id).await));
    for guard in [Guard::Free, Guard::Head, Guard::Fingerprints] {
        for known in [0, 1] {
            let refused = f.append_one(guarded(lane, guard, known, segment(&["2"]))).await;
            assert_eq!(refused, Err(AppendError::NoLane), "{guard:?} at {known}");
        }
    }
}
