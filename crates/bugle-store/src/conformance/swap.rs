//! Exchanging cursors by compare-and-set, and what rides along with it.

use std::sync::Arc;

use uuid::Uuid;

use super::fixture::{Fixture, at, bases, cursor, opaque, swap, up};
use crate::{Cursor, Engine, LaneId, Lease, Span, Swap, SwapError, Swapped};

const NOTHING: Swapped = Swapped { segments: Vec::new() };

/// Epoch 0 creates the row, once.
pub async fn epoch_zero_creates(engine: Arc<dyn Engine>) {
    let f = Fixture::new(engine).await;
    let lane = f.lane("a").await;
    assert_eq!(f.cursor_of(lane, "g").await, None);
    assert_eq!(f.swap_one(swap(lane, "g", 0, cursor(0, 3))).await, Ok(NOTHING));
    let stored = Some(cursor(0, 3));
    assert_eq!(f.cursor_of(lane, "g").await, stored);
    assert_eq!(f.swap_one(swap(lane, "g", 0, cursor(0, 9))).await, Err(SwapError::Moved(stored.clone())));
    assert_eq!(f.cursor_of(lane, "g").await, stored);
    assert_eq!(f.cursor_of(lane, "h").await, None, "another group has a cursor of its own");
}

/// A first row begins at the epoch it is given, and goes on from there.
pub async fn a_first_row_begins_at_any_epoch(engine: Arc<dyn Engine>) {
    let f = Fixture::new(engine).await;
    let lane = f.lane("a").await;
    let first = Cursor { epoch: 1 << 52, ..Cursor::fresh(3) };
    assert_eq!(f.swap_one(swap(lane, "g", 0, first.clone())).await, Ok(NOTHING));
    assert_eq!(
        f.swap_one(swap(lane, "g", 1, cursor(1, 4))).await,
        Err(SwapError::Moved(Some(first.clone())))
    );
    let next = cursor(first.epoch, 4);
    assert_eq!(f.swap_one(swap(lane, "g", first.epoch, next.clone())).await, Ok(NOTHING));
    assert_eq!(f.cursor_of(lane, "g").await, Some(next));
}

/// Only the stored epoch is exchanged; another one is answered with the row as it is.
pub async fn only_the_stored_epoch_is_exchanged(engine: Arc<dyn Engine>) {
    let f = Fixture::new(engine).await;
    let lane = f.lane("a").await;
    assert_eq!(f.swap_one(swap(lane, "g", 5, cursor(5, 1))).await, Err(SwapError::Moved(None)));
    f.seed(lane, "g", 0).await;
    assert_eq!(f.swap_one(swap(lane, "g", 1, cursor(1, 4))).await, Ok(NOTHING));
    assert_eq!(f.swap_one(swap(lane, "g", 2, cursor(2, 2))).await, Ok(NOTHING), "a cursor may move back");
    for expect in [0, 1, 2, 4] {
        let refused = f.swap_one(swap(lane, "g", expect, cursor(expect, 9))).await;
        assert_eq!(refused, Err(SwapError::Moved(Some(cursor(2, 2)))), "epoch {expect}");
    }
    assert_eq!(f.cursor_of(lane, "g").await, Some(cursor(2, 2)));
}

/// Every field comes back, with a lease and without.
pub async fn every_field_round_trips(engine: Arc<dyn Engine>) {
    let f = Fixture::new(engine).await;
    let lane = f.lane("a").await;
    let lease = Lease { id: Uuid::new_v4(), until: at(60), end: 20 };
    let mut until = at(60);
    until.0 += 1;
    let rows = [
        Cursor {
            epoch: 1,
            committed: 10,
            lease: Some(lease),
            attempts: 2,
            deliveries: 3,
            not_before: at(4),
            served_at: at(5),
            consumed: 6,
        },
        Cursor { epoch: 2, committed: 11, ..Cursor::fresh(11) },
        Cursor { epoch: 3, lease: Some(Lease { until, ..lease }), ..Cursor::fresh(1 << 40) },
        Cursor {
            epoch: 4,
            attempts: i32::MAX as u32,
            deliveries: i32::MAX as u32,
            consumed: 1 << 50,
            ..Cursor::fresh(12)
        },
    ];
    for row in rows {
        assert_eq!(f.swap_one(swap(lane, "g", row.epoch - 1, row.clone())).await, Ok(NOTHING));
        assert_eq!(f.cursor_of(lane, "g").await, Some(row.clone()));
        let refused = f.swap_one(swap(lane, "g", 77, cursor(77, 0))).await;
        assert_eq!(refused, Err(SwapError::Moved(Some(row))));
    }
}

/// There is no cursor without a lane.
pub async fn a_lane_is_needed(engine: Arc<dyn Engine>) {
    let f = Fixture::new(engine).await;
    let unknown = LaneId::derive(f.queue.id, "never created");
    let mut item = swap(unknown, "g", 0, cursor(0, 0));
    item.dead.push(f.letter(unknown, "g", "x", 1));
    assert_eq!(f.swap_one(item).await, Err(SwapError::NoLane));
    assert_eq!(f.letters().await, []);
    let lane = f.lane("a").await;
    f.seed(lane, "g", 0).await;
    assert!(up(f.delete_queue(f.queue.id).await));
    assert_eq!(f.swap_one(swap(lane, "g", 1, cursor(1, 0))).await, Err(SwapError::NoLane));
    assert_eq!(f.swap_one(swap(lane, "h", 0, cursor(0, 0))).await, Err(SwapError::NoLane));
}

/// A successful exchange reads its span with the rules of a read; a refused one reads nothing.
pub async fn a_span_is_read_along(engine: Arc<dyn Engine>) {
    let f = Fixture::new(engine).await;
    let lane = f.lane("a").await;
    for _ in 0..4 {
        f.put(lane, opaque(2, vec![1; 100]), at(1)).await;
    }
    let cases = [
        ((0, 8, usize::MAX), vec![0, 2, 4, 6]),
        ((3, 5, usize::MAX), vec![2, 4]),
        ((0, 8, 0), vec![0]),
        ((1, 8, 100), vec![0]),
        ((0, 8, 101), vec![0, 2]),
        ((0, 8, 300), vec![0, 2, 4]),
        ((8, 20, 100), vec![]),
        ((5, 5, 100), vec![]),
    ];
    for (epoch, ((from, to, max_bytes), expected)) in cases.into_iter().enumerate() {
        let read = Some(Span { from, to, max_bytes });
        let item = Swap { read, ..swap(lane, "g", epoch as u64, cursor(epoch as u64, from)) };
        let swapped = f.swap_one(item.clone()).await.expect("the epoch is right");
        assert_eq!(bases(&swapped.segments), expected, "{read:?}");
        assert_eq!(swapped.segments, f.read_one(lane, from, to, max_bytes).await);
        assert!(f.swap_one(item).await.is_err(), "the same exchange twice");
    }
}

/// Dead letters are stored if and only if their exchange happened.
pub async fn dead_letters_follow_their_exchange(engine: Arc<dyn Engine>) {
    let f = Fixture::new(engine).await;
    let lane = f.lane("a").await;
    let (won, lost) = (f.letter(lane, "g", "won", 2), f.letter(lane, "g", "lost", 1));
    let also = f.letter(lane, "g", "also", 1);
    let dead = vec![won.clone(), also.clone()];
    assert_eq!(f.swap_one(Swap { dead, ..swap(lane, "g", 0, cursor(0, 2)) }).await, Ok(NOTHING));
    let refused = f.swap_one(Swap { dead: vec![lost], ..swap(lane, "g", 0, cursor(0, 3)) }).await;
    assert_eq!(refused, Err(SwapError::Moved(Some(cursor(0, 2)))));
    assert_eq!(f.letters().await, [won, also]);
}

/// One bad item of a batch does not affect the others, and outcomes come in the order of the items.
pub async fn outcomes_are_per_item(engine: Arc<dyn Engine>) {
    let f = Fixture::new(engine).await;
    let lanes = f.sorted_lanes(3).await;
    let unknown = LaneId::derive(f.queue.id, "never created");
    f.put(lanes[0], opaque(3, "abc"), at(1)).await;
    f.put(lanes[2], opaque(1, "x"), at(1)).await;
    f.seed(lanes[1], "g", 8).await;
    let kept = f.letter(lanes[2], "g", "kept", 1);
    let dropped = f.letter(lanes[1], "g", "dropped", 1);
    let read = Some(Span { from: 0, to: 10, max_bytes: 10 });
    let batch = vec![
        Swap { read, dead: vec![kept.clone()], ..swap(lanes[2], "g", 0, cursor(0, 1)) },
        Swap { read, dead: vec![dropped], ..swap(lanes[1], "g", 0, cursor(0, 1)) },
        swap(unknown, "g", 0, cursor(0, 1)),
        Swap { read, ..swap(lanes[0], "g", 0, cursor(0, 1)) },
        swap(lanes[0], "h", 0, cursor(0, 2)),
        swap(lanes[1], "h", 3, cursor(3, 2)),
    ];
    let outcomes = up(f.swap(batch).await);
    assert_eq!(outcomes.len(), 6);
    assert_eq!(outcomes[0].as_ref().map(|s| bases(&s.segments)), Ok(vec![0]));
    assert_eq!(outcomes[0].as_ref().map(|s| s.segments[0].count), Ok(1));
    assert_eq!(outcomes[1], Err(SwapError::Moved(Some(cursor(0, 8)))));
    assert_eq!(outcomes[2], Err(SwapError::NoLane));
    assert_eq!(outcomes[3].as_ref().map(|s| s.segments[0].count), Ok(3));
    assert_eq!(outcomes[4], Ok(NOTHING));
    assert_eq!(outcomes[5], Err(SwapError::Moved(None)));
    assert_eq!(f.letters().await, [kept]);
    assert_eq!(f.cursor_of(lanes[0], "g").await, Some(cursor(0, 1)));
    assert_eq!(f.cursor_of(lanes[0], "h").await, Some(cursor(0, 2)));
    assert_eq!(f.cursor_of(lanes[1], "h").await, None);
}

/// A batch over hundreds of cursors is one call.
pub async fn large_batches_work(engine: Arc<dyn Engine>) {
    let f = Fixture::new(engine).await;
    let mut lanes = f.sorted_lanes(200).await;
    lanes.reverse();
    for epoch in 0..2 {
        let batch = lanes.iter().map(|lane| swap(*lane, "g", epoch, cursor(epoch, epoch))).collect();
        assert!(up(f.swap(batch).await).iter().all(Result::is_ok));
    }
    for lane in lanes {
        assert_eq!(f.cursor_of(lane, "g").await, Some(cursor(1, 1)));
    }
}
