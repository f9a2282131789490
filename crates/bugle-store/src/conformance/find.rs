//! Looking for fingerprints.

use std::sync::Arc;

use super::fixture::{Fixture, at, segment, up};
use crate::{Engine, Find, Found, LaneId, Offset, Timestamp, fingerprint};

/// Index and offset of what must be found.
type Hits = &'static [(usize, Offset)];

fn ask(lane: LaneId, ids: &[&str], from: Offset, to: Offset, since: Timestamp) -> Find {
    let fingerprints = ids.iter().map(|id| fingerprint(id.as_bytes())).collect();
    Find { lane, fingerprints, from, to, since }
}

fn hits(found: &[Found]) -> Vec<(usize, Offset)> {
    found.iter().map(|hit| (hit.index, hit.offset)).collect()
}

/// A lane with ids `a b c` at time 10, `d a` at 20 and `b a a` at 30.
async fn sample(f: &Fixture) -> LaneId {
    let lane = f.lane("a").await;
    f.put(lane, segment(&["a", "b", "c"]), at(10)).await;
    f.put(lane, segment(&["d", "a"]), at(20)).await;
    f.put(lane, segment(&["b", "a", "a"]), at(30)).await;
    lane
}

/// All occurrences, ascending by index and then offset; what is absent has none.
pub async fn all_occurrences_are_found_in_order(engine: Arc<dyn Engine>) {
    let f = Fixture::new(engine).await;
    let lane = sample(&f).await;
    let found = f.find_one(ask(lane, &["d", "absent", "a", "b"], 0, 8, Timestamp::ZERO)).await;
    assert_eq!(hits(&found), [(0, 3), (2, 0), (2, 4), (2, 6), (2, 7), (3, 1), (3, 5)]);
    assert_eq!(f.find_one(ask(lane, &["absent"], 0, 8, Timestamp::ZERO)).await, []);
    assert_eq!(f.find_one(ask(lane, &[], 0, 8, Timestamp::ZERO)).await, []);
}

/// A fingerprint asked for twice is found for both indexes.
pub async fn repeated_questions_are_both_answered(engine: Arc<dyn Engine>) {
    let f = Fixture::new(engine).await;
    let lane = sample(&f).await;
    let found = f.find_one(ask(lane, &["b", "c", "b"], 0, 8, Timestamp::ZERO)).await;
    assert_eq!(hits(&found), [(0, 1), (0, 5), (1, 2), (2, 1), (2, 5)]);
}

/// Both ends of the range may lie inside a segment.
pub async fn the_range_is_exact(engine: Arc<dyn Engine>) {
    let f = Fixture::new(engine).await;
    let lane = sample(&f).await;
    let cases: [((u64, u64), Hits); 9] = [
        ((0, 100), &[(0, 0), (0, 4), (0, 6), (0, 7)]),
        ((1, 7), &[(0, 4), (0, 6)]),
        ((0, 1), &[(0, 0)]),
        ((1, 4), &[]),
        ((4, 5), &[(0, 4)]),
        ((7, 8), &[(0, 7)]),
        ((8, 100), &[]),
        ((4, 4), &[]),
        ((6, 2), &[]),
    ];
    for ((from, to), expected) in cases {
        let found = f.find_one(ask(lane, &["a"], from, to, Timestamp::ZERO)).await;
        assert_eq!(hits(&found), expected, "{from}..{to}");
    }
}

/// Segments created before `since` are ignored; one created exactly then is not.
pub async fn older_segments_are_ignored(engine: Arc<dyn Engine>) {
    let f = Fixture::new(engine).await;
    let lane = sample(&f).await;
    let just_after = |seconds| Timestamp(at(seconds).0 + 1);
    let cases: [(Timestamp, Hits); 5] = [
        (at(10), &[(0, 0), (0, 4), (0, 6), (0, 7)]),
        (just_after(10), &[(0, 4), (0, 6), (0, 7)]),
        (at(20), &[(0, 4), (0, 6), (0, 7)]),
        (just_after(20), &[(0, 6), (0, 7)]),
        (just_after(30), &[]),
    ];
    for (since, expected) in cases {
        let found = f.find_one(ask(lane, &["a"], 0, 8, since)).await;
        assert_eq!(hits(&found), expected, "since {since:?}");
    }
}

/// Trimmed messages are not found, also in a segment that was cut in the middle.
pub async fn trimmed_messages_are_not_found(engine: Arc<dyn Engine>) {
    let f = Fixture::new(engine).await;
    let lane = sample(&f).await;
    f.trim_one(lane, 1).await;
    let found = f.find_one(ask(lane, &["a", "b"], 0, 8, Timestamp::ZERO)).await;
    assert_eq!(hits(&found), [(0, 4), (0, 6), (0, 7), (1, 1), (1, 5)]);
    f.trim_one(lane, 6).await;
    let found = f.find_one(ask(lane, &["a", "b"], 0, 8, Timestamp::ZERO)).await;
    assert_eq!(hits(&found), [(0, 6), (0, 7)]);
}

/// Every 64-bit value is a fingerprint.
pub async fn extreme_fingerprints_are_found(engine: Arc<dyn Engine>) {
    let f = Fixture::new(engine).await;
    let lane = f.lane("a").await;
    let extremes = [0, 1, i64::MAX as u64, 1 << 63, u64::MAX];
    let mut new = segment(&["a", "b", "c", "d", "e"]);
    new.fingerprints = extremes.into();
    f.put(lane, new, at(1)).await;
    let query = Find { lane, fingerprints: extremes.to_vec(), from: 0, to: 5, since: Timestamp::ZERO };
    assert_eq!(hits(&f.find_one(query).await), [(0, 0), (1, 1), (2, 2), (3, 3), (4, 4)]);
}

/// A batch answers each question in the order asked; an unknown lane has nothing.
pub async fn batches_answer_in_order(engine: Arc<dyn Engine>) {
    let f = Fixture::new(engine).await;
    let lane = sample(&f).await;
    let other = f.lane("b").await;
    f.push(other, &["a"]).await;
    let unknown = LaneId::derive(f.queue.id, "never created");
    let batch = vec![
        ask(other, &["a", "b"], 0, 8, Timestamp::ZERO),
        ask(unknown, &["a"], 0, 8, Timestamp::ZERO),
        ask(lane, &["c"], 0, 8, Timestamp::ZERO),
        ask(other, &["b"], 0, 8, Timestamp::ZERO),
        ask(lane, &["d"], 0, 8, Timestamp::ZERO),
    ];
    let found: Vec<_> = up(f.find(batch).await).iter().map(|found| hits(found)).collect();
    assert_eq!(found, [vec![(0, 0)], vec![], vec![(0, 2)], vec![], vec![(0, 3)]]);
}
