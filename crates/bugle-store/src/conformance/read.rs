//! Reading ranges.

use std::sync::Arc;

use super::fixture::{Fixture, at, bases, opaque, segment, transactions, up};
use crate::{Engine, LaneId, Read};

/// Every segment that overlaps the range comes back whole, in order; nothing else does.
pub async fn ranges_yield_the_segments_they_touch(engine: Arc<dyn Engine>) {
    let f = Fixture::new(engine).await;
    let lane = f.lane("a").await;
    for ids in [["0", "1", "2"], ["3", "4", "5"], ["6", "7", "8"]] {
        f.push(lane, &ids).await;
    }
    let cases: [((u64, u64), &[u64]); 12] = [
        ((0, 9), &[0, 3, 6]),
        ((0, 3), &[0]),
        ((0, 4), &[0, 3]),
        ((1, 2), &[0]),
        ((2, 4), &[0, 3]),
        ((3, 6), &[3]),
        ((5, 100), &[3, 6]),
        ((8, 9), &[6]),
        ((9, 100), &[]),
        ((50, 100), &[]),
        ((4, 4), &[]),
        ((5, 2), &[]),
    ];
    for ((from, to), expected) in cases {
        let read = f.read_one(lane, from, to, usize::MAX).await;
        assert_eq!(bases(&read), expected, "{from}..{to}");
        assert!(read.iter().all(|s| s.count == 3 && s.messages().is_ok_and(|m| m.len() == 3)));
    }
}

/// Reading stops after the segment that reaches the bytes wanted, and yields at least one segment.
pub async fn max_bytes_stops_after_reaching(engine: Arc<dyn Engine>) {
    let f = Fixture::new(engine).await;
    let lane = f.lane("a").await;
    for _ in 0..5 {
        f.put(lane, opaque(2, vec![9; 100]), at(1)).await;
    }
    let cases = [(0, 1), (1, 1), (99, 1), (100, 1), (101, 2), (200, 2), (201, 3), (500, 5), (usize::MAX, 5)];
    for (max_bytes, segments) in cases {
        assert_eq!(f.read_one(lane, 0, 10, max_bytes).await.len(), segments, "{max_bytes} bytes");
    }
    assert_eq!(bases(&f.read_one(lane, 3, 10, 150).await), [2, 4], "counted from the first segment returned");
    assert_eq!(bases(&f.read_one(lane, 3, 4, 150).await), [2], "never past the range");
    f.put(lane, opaque(1, vec![9; 100_000]), at(1)).await;
    assert_eq!(bases(&f.read_one(lane, 10, 11, 10).await), [10], "one segment, however large");
}

/// A trimmed front leaves a gap at the front of what is read.
pub async fn a_trimmed_front_is_gone(engine: Arc<dyn Engine>) {
    let f = Fixture::new(engine).await;
    let lane = f.lane("a").await;
    for ids in [["0", "1"], ["2", "3"], ["4", "5"]] {
        f.push(lane, &ids).await;
    }
    f.trim_one(lane, 2).await;
    assert_eq!(bases(&f.read_one(lane, 0, 6, usize::MAX).await), [2, 4]);
    assert_eq!(bases(&f.read_one(lane, 0, 6, 0).await), [2]);
    assert!(bases(&f.read_one(lane, 0, 2, usize::MAX).await).is_empty());
    // The segment that was cut in the middle is still one record.
    f.trim_one(lane, 3).await;
    assert_eq!(bases(&f.read_one(lane, 0, 6, usize::MAX).await), [2, 4]);
    assert_eq!(transactions(&f.read_one(lane, 3, 4, usize::MAX).await), ["2", "3"]);
    f.trim_one(lane, 6).await;
    assert_eq!(f.read_all(lane).await, []);
}

/// A lane that does not exist yields nothing.
pub async fn an_unknown_lane_is_empty(engine: Arc<dyn Engine>) {
    let f = Fixture::new(engine).await;
    assert_eq!(f.read_all(LaneId::derive(f.queue.id, "never created")).await, []);
    let empty = f.lane("empty").await;
    assert_eq!(f.read_all(empty).await, []);
    f.push(empty, &["x"]).await;
    assert!(up(f.delete_queue(f.queue.id).await));
    assert_eq!(f.read_all(empty).await, []);
}

/// A batch answers each range in the order asked; the same lane may be asked for more than once.
pub async fn batches_answer_in_order(engine: Arc<dyn Engine>) {
    let f = Fixture::new(engine).await;
    let lanes = f.sorted_lanes(3).await;
    let unknown = LaneId::derive(f.queue.id, "never created");
    for (i, lane) in lanes.iter().enumerate() {
        f.push(*lane, &[&format!("{i}-0")]).await;
        f.put(*lane, segment(&[&format!("{i}-1")]), at(2)).await;
    }
    let ask = |lane, from, to| Read { lane, from, to, max_bytes: usize::MAX };
    let batch = vec![
        ask(lanes[2], 0, 9),
        ask(unknown, 0, 9),
        ask(lanes[0], 1, 2),
        ask(lanes[2], 0, 1),
        ask(lanes[1], 5, 9),
        ask(lanes[0], 0, 1),
    ];
    let read = up(f.read(batch).await);
    let ids: Vec<Vec<String>> = read.iter().map(|segments| transactions(segments)).collect();
    let expected: [&[&str]; 6] = [&["2-0", "2-1"], &[], &["0-1"], &["2-0"], &[], &["0-0"]];
    assert_eq!(ids, expected);
}
