//! Sets of changes: all or nothing, in both directions.

use std::sync::Arc;

use super::fixture::{Fixture, at, cursor, free, guarded, segment, swap, transactions, up};
use crate::{AppendError, Appended, Commit, CommitError, Committed, Engine, Guard, LaneId, Swap, SwapError};

/// Appends, exchanges and dead letters of one set all happen.
pub async fn everything_happens(engine: Arc<dyn Engine>) {
    let f = Fixture::new(engine).await;
    let (a, b) = (f.lane("a").await, f.lane("b").await);
    f.push(b, &["0"]).await;
    f.seed(a, "g", 0).await;
    let letter = f.letter(a, "g", "dead", 1);
    let set = Commit {
        appends: vec![free(b, segment(&["1", "2"]), at(2)), guarded(a, Guard::Head, 0, segment(&["3"]))],
        swaps: vec![
            Swap { dead: vec![letter.clone()], ..swap(a, "g", 1, cursor(1, 5)) },
            swap(a, "h", 0, cursor(0, 6)),
            swap(b, "g", 0, cursor(0, 7)),
        ],
    };
    let appended = vec![Appended { base: 1, created_at: at(2) }, Appended { base: 0, created_at: at(1) }];
    assert_eq!(f.commit_one(set).await, Ok(Committed { appended }));
    assert_eq!(transactions(&f.read_all(a).await), ["3"]);
    assert_eq!(transactions(&f.read_all(b).await), ["0", "1", "2"]);
    assert_eq!(f.cursor_of(a, "g").await, Some(cursor(1, 5)));
    assert_eq!(f.cursor_of(a, "h").await, Some(cursor(0, 6)));
    assert_eq!(f.cursor_of(b, "g").await, Some(cursor(0, 7)));
    assert_eq!(f.letters().await, [letter]);
}

/// A set of appends only, of exchanges only, and an empty one.
pub async fn either_half_may_be_missing(engine: Arc<dyn Engine>) {
    let f = Fixture::new(engine).await;
    let lane = f.lane("a").await;
    let appends = Commit { appends: vec![free(lane, segment(&["1"]), at(1))], swaps: vec![] };
    let swaps = Commit { appends: vec![], swaps: vec![swap(lane, "g", 0, cursor(0, 1))] };
    let first = Committed { appended: vec![Appended { base: 0, created_at: at(1) }] };
    assert_eq!(f.commit_one(appends).await, Ok(first));
    assert_eq!(f.commit_one(swaps).await, Ok(Committed { appended: vec![] }));
    assert_eq!(f.commit_one(Commit::default()).await, Ok(Committed { appended: vec![] }));
    assert_eq!(f.ends(lane).await, (1, 0));
    assert_eq!(f.cursor_of(lane, "g").await, Some(cursor(0, 1)));
}

/// A refused append takes the exchanges, dead letters and other appends of its set with it.
pub async fn a_refused_append_undoes_the_set(engine: Arc<dyn Engine>) {
    let f = Fixture::new(engine).await;
    let lanes = f.sorted_lanes(3).await;
    f.push(lanes[1], &["there"]).await;
    f.seed(lanes[0], "g", 0).await;
    let moved = f.state(lanes[1]).await.expect("the lane exists");
    let unknown = LaneId::derive(f.queue.id, "never created");
    let set = |bad| Commit {
        appends: vec![free(lanes[2], segment(&["c"]), at(1)), bad, free(lanes[0], segment(&["a"]), at(1))],
        swaps: vec![
            Swap { dead: vec![f.letter(lanes[0], "g", "dead", 1)], ..swap(lanes[0], "g", 1, cursor(1, 5)) },
            swap(lanes[1], "g", 0, cursor(0, 5)),
        ],
    };
    let bad = [
        (guarded(lanes[1], Guard::Head, 0, segment(&["b"])), AppendError::Moved(moved.clone())),
        (guarded(lanes[1], Guard::Fingerprints, 0, segment(&["there"])), AppendError::Moved(moved.clone())),
        (guarded(lanes[1], Guard::Fingerprints, 2, segment(&["b"])), AppendError::Moved(moved)),
        (free(unknown, segment(&["b"]), at(1)), AppendError::NoLane),
    ];
    for (append, why) in bad {
        assert_eq!(f.commit_one(set(append)).await, Err(CommitError::Append(1, why)));
        assert_eq!(f.ends(lanes[0]).await, (0, 0));
        assert_eq!(transactions(&f.read_all(lanes[1]).await), ["there"]);
        assert_eq!(f.ends(lanes[2]).await, (0, 0));
        assert_eq!(f.read_all(lanes[2]).await, []);
        assert_eq!(f.cursor_of(lanes[0], "g").await, Some(cursor(0, 0)));
        assert_eq!(f.cursor_of(lanes[1], "g").await, None);
        assert_eq!(f.letters().await, []);
    }
}

/// A refused exchange takes the appends, dead letters and other exchanges of its set with it.
pub async fn a_refused_swap_undoes_the_set(engine: Arc<dyn Engine>) {
    let f = Fixture::new(engine).await;
    let lanes = f.sorted_lanes(3).await;
    f.seed(lanes[1], "g", 4).await;
    let unknown = LaneId::derive(f.queue.id, "never created");
    let dead = || vec![f.letter(lanes[0], "g", "dead", 1)];
    let set = |bad: Swap| Commit {
        appends: vec![
            free(lanes[2], segment(&["c"]), at(1)),
            guarded(lanes[0], Guard::Head, 0, segment(&["a"])),
        ],
        swaps: vec![
            Swap { dead: dead(), ..swap(lanes[2], "g", 0, cursor(0, 5)) },
            Swap { dead: dead(), ..bad },
            swap(lanes[0], "g", 0, cursor(0, 5)),
        ],
    };
    let bad = [
        (swap(lanes[1], "g", 0, cursor(0, 9)), SwapError::Moved(Some(cursor(0, 4)))),
        (swap(lanes[1], "g", 7, cursor(7, 9)), SwapError::Moved(Some(cursor(0, 4)))),
        (swap(lanes[1], "h", 1, cursor(1, 9)), SwapError::Moved(None)),
        (swap(unknown, "g", 0, cursor(0, 9)), SwapError::NoLane),
    ];
    for (item, why) in bad {
        assert_eq!(f.commit_one(set(item)).await, Err(CommitError::Swap(1, why)));
        for lane in [lanes[0], lanes[2]] {
            assert_eq!(f.ends(lane).await, (0, 0));
            assert_eq!(f.read_all(lane).await, []);
            assert_eq!(f.cursor_of(lane, "g").await, None);
        }
        assert_eq!(f.cursor_of(lanes[1], "g").await, Some(cursor(0, 4)));
        assert_eq!(f.letters().await, []);
    }
    // What was refused left no trace that would refuse it now.
    assert!(f.commit_one(set(swap(lanes[1], "g", 1, cursor(1, 9)))).await.is_ok());
    assert_eq!(f.ends(lanes[0]).await, (1, 0));
}

/// A refused set of a batch does not affect the other sets.
pub async fn outcomes_are_per_set(engine: Arc<dyn Engine>) {
    let f = Fixture::new(engine).await;
    let lanes = f.sorted_lanes(3).await;
    let set = |lane: usize, expect| Commit {
        appends: vec![free(lanes[lane], segment(&["x"]), at(1))],
        swaps: vec![swap(lanes[lane], "g", expect, cursor(expect, 1))],
    };
    let outcomes = up(f.commit(vec![set(2, 0), set(0, 3), set(1, 0)]).await);
    let stored = Ok(Committed { appended: vec![Appended { base: 0, created_at: at(1) }] });
    assert_eq!(outcomes, [stored.clone(), Err(CommitError::Swap(0, SwapError::Moved(None))), stored]);
    for (lane, head) in [(0, 0), (1, 1), (2, 1)] {
        assert_eq!(f.ends(lanes[lane]).await, (head, 0));
    }
}

/// Sets of one call may name the same lanes and cursors: each sees what those before it did.
pub async fn sets_of_one_call_happen_in_order(engine: Arc<dyn Engine>) {
    let f = Fixture::new(engine).await;
    let lane = f.lane("a").await;
    let set = |id: &str, known, expect| Commit {
        appends: vec![guarded(lane, Guard::Head, known, segment(&[id]))],
        swaps: vec![swap(lane, "g", expect, cursor(expect, known))],
    };
    let outcomes =
        up(f.commit(vec![set("0", 0, 0), set("lost", 1, 0), set("1", 1, 1), set("2", 2, 2)]).await);
    let bases: Vec<_> =
        outcomes.into_iter().map(|outcome| outcome.map(|done| done.appended[0].base)).collect();
    let lost = Err(CommitError::Swap(0, SwapError::Moved(Some(cursor(0, 0)))));
    assert_eq!(bases, [Ok(0), lost, Ok(1), Ok(2)]);
    assert_eq!(transactions(&f.read_all(lane).await), ["0", "1", "2"]);
    assert_eq!(f.cursor_of(lane, "g").await, Some(cursor(2, 2)));
}

/// Many lanes in any order: outcomes are in the order of the appends, and opposite orders do not deadlock.
pub async fn lanes_may_come_in_any_order(engine: Arc<dyn Engine>) {
    let f = Arc::new(Fixture::new(engine).await);
    let lanes = f.sorted_lanes(40).await;
    for (i, lane) in lanes.iter().enumerate() {
        for _ in 0..i % 3 {
            f.push(*lane, &["before"]).await;
        }
    }
    let mut shuffled: Vec<usize> = (0..40).map(|i| (i * 17 + 5) % 40).collect();
    let set = |order: &[usize]| Commit {
        appends: order.iter().map(|i| free(lanes[*i], segment(&["x"]), at(1))).collect(),
        swaps: vec![],
    };
    let committed = f.commit_one(set(&shuffled)).await.expect("nothing is guarded");
    let expected: Vec<u64> = shuffled.iter().map(|i| (i % 3) as u64).collect();
    assert_eq!(committed.appended.iter().map(|a| a.base).collect::<Vec<_>>(), expected);

    let mut tasks = Vec::new();
    for _ in 0..8 {
        shuffled.rotate_left(3);
        shuffled.reverse();
        let (f, set) = (f.clone(), set(&shuffled));
        tasks.push(tokio::spawn(async move { f.commit_one(set).await.expect("nothing is guarded") }));
    }
    for task in tasks {
        task.await.expect("a commit");
    }
    for (i, lane) in lanes.iter().enumerate() {
        assert_eq!(f.ends(*lane).await.0, (i % 3) as u64 + 9);
    }
}
