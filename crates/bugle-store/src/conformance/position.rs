//! Which offset was current at a time.

use std::sync::Arc;

use super::fixture::{Fixture, at, one, segment, up};
use crate::{Engine, LaneId, Offset, Position, Timestamp};

async fn position(f: &Fixture, lane: LaneId, at: Timestamp) -> Offset {
    one(f.position(vec![Position { lane, at }]).await)
}

/// The first offset stamped after the time; a segment stamped exactly then is not after it.
pub async fn the_first_offset_after_a_time(engine: Arc<dyn Engine>) {
    let f = Fixture::new(engine).await;
    let lane = f.lane("a").await;
    for (ids, seconds) in [(["0", "1"], 10), (["2", "3"], 20), (["4", "5"], 20), (["6", "7"], 30)] {
        f.put(lane, segment(&ids), at(seconds)).await;
    }
    for (when, expected) in [
        (Timestamp::ZERO, 0),
        (at(9), 0),
        (at(10), 2),
        (at(15), 2),
        (Timestamp(at(20).0 - 1), 2),
        (at(20), 6),
        (at(29), 6),
        (at(30), 8),
        (at(99), 8),
    ] {
        assert_eq!(position(&f, lane, when).await, expected, "{when:?}");
    }
}

/// Trimmed messages are no position: the tail is the least.
pub async fn never_below_the_tail(engine: Arc<dyn Engine>) {
    let f = Fixture::new(engine).await;
    let lane = f.lane("a").await;
    f.put(lane, segment(&["0", "1", "2"]), at(10)).await;
    f.put(lane, segment(&["3", "4", "5"]), at(20)).await;
    for (trim, early, between, late) in [(1, 1, 3, 6), (3, 3, 3, 6), (4, 4, 4, 6), (6, 6, 6, 6)] {
        f.trim_one(lane, trim).await;
        assert_eq!(position(&f, lane, at(0)).await, early, "trimmed to {trim}");
        assert_eq!(position(&f, lane, at(10)).await, between, "trimmed to {trim}");
        assert_eq!(position(&f, lane, at(20)).await, late, "trimmed to {trim}");
    }
}

/// A batch answers in the order asked; a lane that is empty or unknown is at 0.
pub async fn batches_answer_in_order(engine: Arc<dyn Engine>) {
    let f = Fixture::new(engine).await;
    let lanes = f.sorted_lanes(3).await;
    f.put(lanes[0], segment(&["0", "1"]), at(10)).await;
    f.put(lanes[2], segment(&["0"]), at(20)).await;
    let unknown = LaneId::derive(f.queue.id, "never created");
    let asked = [(lanes[2], 20), (unknown, 0), (lanes[0], 5), (lanes[1], 0), (lanes[0], 10), (lanes[2], 15)];
    let batch = asked.map(|(lane, seconds)| Position { lane, at: at(seconds) }).to_vec();
    assert_eq!(up(f.position(batch).await), [1, 0, 0, 0, 2, 0]);
}
