//! Removing what is old: trimming lanes, finding aged ones, expiring what the catalog keeps.
//!
//! Expiry works on the whole store. These cases expire only what is older than 1990, and everything that must stay,
//! here and in the other cases, is younger.

use std::sync::Arc;

use uuid::Uuid;

use super::fixture::{ALL, Fixture, MANY, at, bases, cursor, one, segment, swap, up};
use crate::{
    Aged, AgedLane, AppendError, DeadLetter, Engine, Expire, LaneId, Swap, SwapError, Timestamp, Trace,
    TraceFilter, Trim,
};

/// 1990: what is before it may expire.
pub(super) const BEFORE: Timestamp = Timestamp(631_152_000_000_000);

/// `seconds` before 1990.
pub(super) fn ancient(seconds: i64) -> Timestamp {
    Timestamp(BEFORE.0 - seconds * 1_000_000)
}

fn trace(f: &Fixture, lane: LaneId, names: &[String], created_at: Timestamp) -> Trace {
    Trace {
        id: Uuid::now_v7(),
        queue: f.queue.id,
        lane,
        transaction_id: "tx".into(),
        event_type: "info".into(),
        data: "{}".into(),
        group: "g".into(),
        names: names.to_vec(),
        worker: None,
        created_at,
    }
}

/// Expire in small steps until nothing is left.
pub(super) async fn expire_all(engine: &dyn Engine, what: Expire) {
    loop {
        let removed = up(engine.expire(what, 2).await);
        assert!(removed <= 2, "at most the limit is removed");
        if removed == 0 {
            return;
        }
    }
}

/// The tail moves to where it is asked to, also into a segment, and the messages removed are counted.
pub async fn trim_moves_the_tail_and_counts(engine: Arc<dyn Engine>) {
    let f = Fixture::new(engine).await;
    let lane = f.lane("a").await;
    for ids in [["0", "1", "2"], ["3", "4", "5"], ["6", "7", "8"]] {
        f.push(lane, &ids).await;
    }
    for (to, removed, tail, kept) in [
        (0, 0, 0, vec![0, 3, 6]),
        (2, 2, 2, vec![0, 3, 6]),
        (3, 1, 3, vec![3, 6]),
        (7, 4, 7, vec![6]),
        (7, 0, 7, vec![6]),
        (9, 2, 9, vec![]),
    ] {
        assert_eq!(f.trim_one(lane, to).await, removed, "trim to {to}");
        assert_eq!(f.ends(lane).await, (9, tail), "trim to {to}");
        assert_eq!(bases(&f.read_all(lane).await), kept, "trim to {to}");
    }
}

/// The tail never moves back and never past the head; offsets go on where they were.
pub async fn trim_stays_between_tail_and_head(engine: Arc<dyn Engine>) {
    let f = Fixture::new(engine).await;
    let lane = f.lane("a").await;
    assert_eq!(f.trim_one(lane, 5).await, 0, "an empty lane");
    f.push(lane, &["0", "1", "2", "3"]).await;
    assert_eq!(f.trim_one(lane, 3).await, 3);
    assert_eq!(f.trim_one(lane, 1).await, 0);
    assert_eq!(f.ends(lane).await, (4, 3));
    assert_eq!(f.trim_one(lane, 100).await, 1);
    assert_eq!(f.ends(lane).await, (4, 4));
    assert_eq!(f.push(lane, &["4", "5"]).await.base, 4);
    assert_eq!(f.ends(lane).await, (6, 4));
    assert_eq!(bases(&f.read_all(lane).await), [4]);
}

/// A batch of trims answers in the order asked; an unknown lane counts 0.
pub async fn trim_batches_answer_in_order(engine: Arc<dyn Engine>) {
    let f = Fixture::new(engine).await;
    let lanes = f.sorted_lanes(3).await;
    for lane in &lanes {
        f.push(*lane, &["0", "1", "2"]).await;
    }
    let unknown = LaneId::derive(f.queue.id, "never created");
    let asked = [(lanes[2], 1), (unknown, 3), (lanes[0], 3), (lanes[1], 2)];
    let batch = asked.map(|(lane, to)| Trim { lane, to }).to_vec();
    assert_eq!(up(f.trim(batch).await), [1, 0, 3, 2]);
    for (lane, tail) in [(0, 3), (1, 2), (2, 1)] {
        assert_eq!(f.ends(lanes[lane]).await, (3, tail));
    }
}

/// Aged lanes come with the first offset that is not old and the slowest group's position.
pub async fn aged_tells_cut_and_slowest(engine: Arc<dyn Engine>) {
    let f = Fixture::new(engine).await;
    let other = f.neighbour().await;
    let lanes = f.sorted_lanes(5).await;
    let stored = [(0, 10), (0, 20), (0, 30), (1, 20), (1, 30), (2, 10), (2, 15), (4, 10)];
    for (lane, seconds) in stored {
        f.put(lanes[lane], segment(&["x", "y"]), at(seconds)).await;
    }
    let foreign = other.lane("a").await;
    other.put(foreign, segment(&["x"]), at(10)).await;
    f.seed(lanes[0], "fast", 6).await;
    f.seed(lanes[0], "slow", 1).await;
    f.trim_one(lanes[4], 2).await;
    let found =
        |aged: Vec<AgedLane>| -> Vec<_> { aged.iter().map(|a| (a.lane.id, a.cut, a.slowest)).collect() };
    let ask = |before, after, limit| Aged { queue: f.queue.id, before, after, limit };
    // Lane 0 is partly old, lane 1 not (20 is not before 20), lane 2 all, lane 3 is empty, lane 4 trimmed.
    let aged = one(f.aged(vec![ask(at(20), None, 10)]).await);
    assert_eq!(Some(&aged[0].lane), f.state(lanes[0]).await.as_ref());
    assert_eq!(found(aged), [(lanes[0], 2, Some(1)), (lanes[2], 4, None)]);
    assert_eq!(found(one(f.aged(vec![ask(at(10), None, 10)]).await)), []);
    let aged = one(f.aged(vec![ask(at(99), None, 10)]).await);
    let all = [(lanes[0], 6, Some(1)), (lanes[1], 4, None), (lanes[2], 4, None)];
    assert_eq!(found(aged), all);
    assert_eq!(found(one(f.aged(vec![ask(at(99), None, 2)]).await)), all[..2]);
    assert_eq!(found(one(f.aged(vec![ask(at(99), Some(lanes[1]), 2)]).await)), all[2..]);
    // Only what is kept counts as old.
    f.trim_one(lanes[0], 2).await;
    assert_eq!(found(one(f.aged(vec![ask(at(20), None, 10)]).await)), [(lanes[2], 4, None)]);
    f.trim_one(lanes[2], 1).await;
    assert_eq!(found(one(f.aged(vec![ask(at(20), None, 10)]).await)), [(lanes[2], 4, None)]);
}

/// A call asks for many queues, for one more than once, each with its own time, limit and place to go on from.
pub async fn aged_answers_many_queues_in_order(engine: Arc<dyn Engine>) {
    let f = Fixture::new(engine).await;
    let (g, young) = (f.neighbour().await, f.neighbour().await);
    let (mine, theirs) = (f.sorted_lanes(3).await, g.sorted_lanes(2).await);
    for (queue, lanes, seconds) in
        [(&f, &mine, 10), (&g, &theirs, 20), (&young, &vec![young.lane("a").await], 99)]
    {
        for lane in lanes {
            queue.put(*lane, segment(&["x"]), at(seconds)).await;
        }
    }
    let ask = |queue: &Fixture, before, after, limit| Aged { queue: queue.queue.id, before, after, limit };
    let batch = vec![
        ask(&young, at(50), None, 10),
        ask(&g, at(50), None, 1),
        ask(&f, at(50), Some(mine[0]), 10),
        Aged { queue: crate::QueueId::random(), ..ask(&f, at(50), None, 10) },
        ask(&f, at(50), None, 2),
        ask(&g, at(15), None, 10),
        ask(&g, at(50), None, 0),
    ];
    let aged = up(f.aged(batch).await);
    let ids: Vec<Vec<LaneId>> = aged.iter().map(|lanes| lanes.iter().map(|a| a.lane.id).collect()).collect();
    let expected = [vec![], vec![theirs[0]], mine[1..].to_vec(), vec![], mine[..2].to_vec(), vec![], vec![]];
    assert_eq!(ids, expected);
    assert_eq!(up(f.aged(Vec::new()).await), Vec::<Vec<AgedLane>>::new());
}

/// Lanes that are empty and old go, with their cursors; whoever comes later starts anew.
pub async fn expired_lanes_take_their_cursors(engine: Arc<dyn Engine>) {
    let f = Fixture::new(engine).await;
    let never_written = f.lane_at("never written", ancient(10)).await.id;
    for i in 0..4 {
        f.lane_at(&format!("never written {i}"), ancient(10)).await;
    }
    let emptied = f.lane_at("emptied", ancient(20)).await.id;
    let full = f.lane_at("full", ancient(20)).await.id;
    let young = f.lane_at("young", at(0)).await.id;
    let rewritten = f.lane_at("rewritten", ancient(20)).await.id;
    for lane in [emptied, full] {
        f.put(lane, segment(&["x"]), ancient(10)).await;
        f.seed(lane, "g", 1).await;
    }
    f.put(rewritten, segment(&["x"]), at(0)).await;
    for lane in [emptied, rewritten] {
        f.trim_one(lane, 1).await;
    }
    f.seed(young, "g", 0).await;
    let letter = DeadLetter { partition: "emptied".into(), ..f.letter(emptied, "g", "dead", 1) };
    let dead = vec![letter.clone()];
    f.swap_one(Swap { dead, ..swap(emptied, "g", 1, cursor(1, 1)) }).await.expect("the epoch is right");

    expire_all(&*f.engine, Expire::Lanes(BEFORE)).await;
    let mut left: Vec<LaneId> =
        up(f.lanes(f.queue.id, None, MANY).await).iter().map(|lane| lane.id).collect();
    left.sort_unstable();
    let mut expected = vec![full, young, rewritten];
    expected.sort_unstable();
    assert_eq!(left, expected);
    assert_eq!(f.state(never_written).await, None);
    let refused = f.append_one(super::fixture::free(emptied, segment(&["y"]), at(1))).await;
    assert_eq!(refused, Err(AppendError::NoLane));
    let refused = f.swap_one(swap(emptied, "g", 2, cursor(2, 1))).await;
    assert_eq!(refused, Err(SwapError::NoLane));
    assert!(f.cursor_of(full, "g").await.is_some());
    assert!(f.cursor_of(young, "g").await.is_some());
    assert_eq!(f.letters().await, [letter], "dead letters outlive their lane");

    let again = f.lane_at("emptied", at(5)).await;
    assert_eq!((again.id, again.head, again.tail, again.created_at), (emptied, 0, 0, at(5)));
    assert_eq!(f.cursor_of(emptied, "g").await, None);
    assert_eq!(f.push(emptied, &["z"]).await.base, 0);
    assert_eq!(super::fixture::transactions(&f.read_all(emptied).await), ["z"]);
    f.seed(emptied, "g", 0).await;
}

/// Dead letters that failed before the time go, the others stay.
pub async fn old_dead_letters_expire(engine: Arc<dyn Engine>) {
    let f = Fixture::new(engine).await;
    let lane = f.lane("a").await;
    let old = |seconds| DeadLetter { failed_at: ancient(seconds), ..f.letter(lane, "g", "old", 0) };
    let on_time = DeadLetter { failed_at: BEFORE, ..f.letter(lane, "g", "on time", 0) };
    let young = f.letter(lane, "g", "young", 0);
    let dead = vec![old(1), young.clone(), old(2), on_time.clone(), old(3)];
    f.swap_one(Swap { dead, ..swap(lane, "g", 0, cursor(0, 0)) }).await.expect("the first cursor");
    expire_all(&*f.engine, Expire::DeadLetters(BEFORE)).await;
    assert_eq!(f.letters().await, [young, on_time]);
}

/// Traces recorded before the time go, with their names; the others stay.
pub async fn old_traces_expire(engine: Arc<dyn Engine>) {
    let f = Fixture::new(engine).await;
    let lane = f.lane("a").await;
    let name = super::fixture::unique("trace").to_string();
    let names = [name.clone(), format!("{name}-2")];
    let trace = |created_at| trace(&f, lane, &names, created_at);
    let kept = [trace(BEFORE), trace(at(0))];
    for old in [trace(ancient(3)), kept[0].clone(), trace(ancient(2)), kept[1].clone(), trace(ancient(1))] {
        up(f.put_trace(old).await);
    }
    expire_all(&*f.engine, Expire::Traces(BEFORE)).await;
    let (by_message, total) = up(f.traces(TraceFilter::Message(lane, "tx".into()), ALL).await);
    assert_eq!((by_message, total), (kept.to_vec(), 2));
    assert_eq!(up(f.traces(TraceFilter::Name(name), ALL).await).1, 2);
}

/// A limit of zero removes nothing, though there is something to remove.
pub async fn expire_respects_a_limit_of_zero(engine: Arc<dyn Engine>) {
    let f = Fixture::new(engine).await;
    let lane = f.lane_at("a", ancient(1)).await.id;
    f.push(lane, &["x"]).await;
    let old = DeadLetter { failed_at: ancient(1), ..f.letter(lane, "g", "old", 0) };
    f.swap_one(Swap { dead: vec![old], ..swap(lane, "g", 0, cursor(0, 0)) }).await.expect("the first cursor");
    up(f.put_trace(trace(&f, lane, &[], ancient(1))).await);
    f.lane_at("b", ancient(1)).await;
    for what in [Expire::Lanes(BEFORE), Expire::DeadLetters(BEFORE), Expire::Traces(BEFORE)] {
        assert_eq!(up(f.expire(what, 0).await), 0, "{what:?}");
    }
}

/// Trimming what another trims at the same time removes each message once.
pub async fn concurrent_trims_count_once(engine: Arc<dyn Engine>) {
    let f = Arc::new(Fixture::new(engine).await);
    let lane = f.lane("a").await;
    for _ in 0..50 {
        f.push(lane, &["x", "y"]).await;
    }
    let tasks: Vec<_> = (0..8)
        .map(|i| {
            let f = f.clone();
            tokio::spawn(async move { one(f.trim(vec![Trim { lane, to: 30 + 10 * i }]).await) })
        })
        .collect();
    let mut removed = 0;
    for task in tasks {
        removed += task.await.expect("a trim");
    }
    assert_eq!(removed, 100);
    assert_eq!(f.ends(lane).await, (100, 100));
}
