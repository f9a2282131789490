//! Many at once: what the promises are worth when everybody writes.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::task::yield_now;

use super::fixture::{Fixture, at, cursor, free, guarded, join, random, segment, swap, transactions, up};
use crate::{
    AppendError, Commit, CommitError, Engine, Find, Guard, Offset, Segment, SwapError, Timestamp, fingerprint,
};

const TASKS: u64 = 16;

/// Give way a random number of times, so that tasks meet in many orders.
async fn dawdle() {
    for _ in 0..random() % 4 {
        yield_now().await;
    }
}

/// Panics unless the segments follow each other from `from` on without gap, overlap or falling stamps.
fn assert_contiguous(segments: &[Segment], from: Offset) {
    let (mut next, mut stamp) = (from, Timestamp(i64::MIN));
    for segment in segments {
        assert_eq!(segment.base, next, "a gap or an overlap");
        assert!(segment.created_at >= stamp, "a stamp decreased");
        (next, stamp) = (segment.end(), segment.created_at);
    }
}

/// Free appends of many tasks to one lane: all are there, gapless, each where it was said to be.
pub async fn free_appends_are_all_stored(engine: Arc<dyn Engine>) {
    let f = Arc::new(Fixture::new(engine).await);
    let lane = f.lane("a").await;
    let writer = |task: u64| {
        let f = f.clone();
        tokio::spawn(async move {
            let mut own = Vec::new();
            for n in 0..20 {
                let ids: Vec<String> = (0..=n % 3).map(|i| format!("{task}-{n}-{i}")).collect();
                let new = segment(&ids.iter().map(String::as_str).collect::<Vec<_>>());
                let appended = f.put(lane, new.clone(), at((random() % 100) as i64)).await;
                own.push((appended.base, appended.created_at, new.id, new.body));
                dawdle().await;
            }
            assert!(own.is_sorted_by_key(|(base, ..)| *base), "one after the other, in order");
            own
        })
    };
    let mut expected: Vec<_> = join((0..TASKS).map(writer).collect()).await.into_iter().flatten().collect();
    expected.sort_by_key(|(base, ..)| *base);
    let segments = f.read_all(lane).await;
    assert_contiguous(&segments, 0);
    let found: Vec<_> = segments.iter().map(|s| (s.base, s.created_at, s.id, s.body.clone())).collect();
    assert!(found == expected, "what is stored is not what was confirmed");
    assert_eq!(f.ends(lane).await.0, segments.last().map_or(0, Segment::end));
}

/// Appends guarded by the head: exactly one wins each head.
pub async fn one_append_wins_each_head(engine: Arc<dyn Engine>) {
    let f = Arc::new(Fixture::new(engine).await);
    let lane = f.lane("a").await;
    let writer = |_| {
        let f = f.clone();
        tokio::spawn(async move {
            let (mut head, mut won) = (0, Vec::new());
            while head < 40 {
                match f.append_one(guarded(lane, Guard::Head, head, segment(&["x"]))).await {
                    Ok(appended) => {
                        assert_eq!(appended.base, head);
                        won.push(head);
                        head += 1;
                    }
                    Err(AppendError::Moved(now)) => {
                        assert!(now.head > head, "refused at the head it has");
                        head = now.head;
                    }
                    Err(AppendError::NoLane) => panic!("the lane exists"),
                }
                dawdle().await;
            }
            won
        })
    };
    let mut won: Vec<Offset> = join((0..TASKS).map(writer).collect()).await.into_iter().flatten().collect();
    won.sort_unstable();
    assert_eq!(won, (0..40).collect::<Vec<_>>());
    assert_contiguous(&f.read_all(lane).await, 0);
    assert_eq!(f.ends(lane).await.0, 40);
}

/// Push `ids` into the lane unless they are there, as a deduplicating caller does.
async fn push_once(f: &Fixture, lane: crate::LaneId, mut ids: Vec<String>) {
    let mut known = 0;
    let mut searched = 0;
    while !ids.is_empty() {
        let query = Find {
            lane,
            fingerprints: ids.iter().map(|id| fingerprint(id.as_bytes())).collect(),
            from: searched,
            to: known,
            since: Timestamp::ZERO,
        };
        let there: BTreeSet<usize> = f.find_one(query).await.iter().map(|hit| hit.index).collect();
        let mut index = 0..;
        ids.retain(|_| !there.contains(&index.next().unwrap_or_default()));
        searched = known;
        if ids.is_empty() {
            return;
        }
        let new = segment(&ids.iter().map(String::as_str).collect::<Vec<_>>());
        match f.append_one(guarded(lane, Guard::Fingerprints, known, new)).await {
            Ok(_) => return,
            Err(AppendError::Moved(now)) => {
                assert!(now.head > known, "refused although nothing was written");
                known = now.head;
            }
            Err(AppendError::NoLane) => panic!("the lane exists"),
        }
    }
}

/// Many tasks push the same ids under `Guard::Fingerprints`: each id is stored exactly once.
pub async fn guarded_ids_are_stored_once(engine: Arc<dyn Engine>) {
    let f = Arc::new(Fixture::new(engine).await);
    let lane = f.lane("a").await;
    let writer = |task: usize| {
        let f = f.clone();
        tokio::spawn(async move {
            let mut ids: Vec<String> = (0..50).map(|i| format!("id-{i}")).collect();
            ids.rotate_left(task * 7 % 50);
            for chunk in ids.chunks(1 + task % 5) {
                push_once(&f, lane, chunk.to_vec()).await;
                dawdle().await;
            }
        })
    };
    join((0..TASKS as usize).map(writer).collect()).await;
    let segments = f.read_all(lane).await;
    assert_contiguous(&segments, 0);
    let mut stored = transactions(&segments);
    stored.sort_unstable();
    let mut expected: Vec<String> = (0..50).map(|i| format!("id-{i}")).collect();
    expected.sort_unstable();
    assert_eq!(stored, expected);
}

/// Many tasks race to exchange one cursor: exactly one wins each epoch, and the losers see a later one.
pub async fn one_swap_wins_each_epoch(engine: Arc<dyn Engine>) {
    let f = Arc::new(Fixture::new(engine).await);
    let lane = f.lane("a").await;
    let racer = |task: u64| {
        let f = f.clone();
        tokio::spawn(async move {
            let (mut epoch, mut won) = (0, Vec::new());
            while epoch < 40 {
                match f.swap_one(swap(lane, "g", epoch, cursor(epoch, task))).await {
                    Ok(_) => {
                        won.push(epoch);
                        epoch += 1;
                    }
                    Err(SwapError::Moved(Some(now))) => {
                        assert!(now.epoch > epoch, "refused at the epoch it has");
                        epoch = now.epoch;
                    }
                    Err(other) => panic!("the cursor never goes away: {other}"),
                }
                dawdle().await;
            }
            won
        })
    };
    let mut won: Vec<u64> = join((0..TASKS).map(racer).collect()).await.into_iter().flatten().collect();
    won.sort_unstable();
    assert_eq!(won, (0..40).collect::<Vec<_>>());
    assert_eq!(f.cursor_of(lane, "g").await.map(|c| c.epoch), Some(40));
}

/// Sets of an append and an exchange race: as many messages are stored as exchanges happened.
pub async fn commits_stay_whole(engine: Arc<dyn Engine>) {
    let f = Arc::new(Fixture::new(engine).await);
    let (from, to) = (f.lane("from").await, f.lane("to").await);
    let mover = |_| {
        let f = f.clone();
        tokio::spawn(async move {
            let mut epoch = 0;
            while epoch < 25 {
                let id = epoch.to_string();
                let appends = vec![free(to, segment(&[&id]), at(1))];
                let set = Commit { appends, swaps: vec![swap(from, "g", epoch, cursor(epoch, epoch + 1))] };
                match f.commit_one(set).await {
                    Ok(committed) => {
                        assert_eq!(committed.appended[0].base, epoch, "one message per epoch");
                        epoch += 1;
                    }
                    Err(CommitError::Swap(0, SwapError::Moved(Some(now)))) => {
                        assert!(now.epoch > epoch, "refused at the epoch it has");
                        epoch = now.epoch;
                    }
                    Err(other) => panic!("only the exchange can be refused: {other}"),
                }
                dawdle().await;
            }
        })
    };
    join((0..TASKS).map(mover).collect()).await;
    let expected: Vec<String> = (0..25).map(|epoch: u64| epoch.to_string()).collect();
    assert_eq!(transactions(&f.read_all(to).await), expected);
}

/// A reader sees prefixes only: below a head it saw there is never a gap, and heads never fall.
pub async fn readers_see_prefixes(engine: Arc<dyn Engine>) {
    let f = Arc::new(Fixture::new(engine).await);
    let lane = f.lane("a").await;
    let done = Arc::new(AtomicBool::new(false));
    let reader = |_| {
        let (f, done) = (f.clone(), done.clone());
        tokio::spawn(async move {
            let (mut seen, mut rounds) = (0, 0);
            loop {
                let last_round = done.load(Ordering::SeqCst);
                let (head, _) = f.ends(lane).await;
                assert!(head >= seen, "the head fell");
                let segments = f.read_one(lane, 0, head, usize::MAX).await;
                assert_contiguous(&segments, 0);
                assert_eq!(
                    segments.last().map_or(0, Segment::end),
                    head,
                    "below the head something is missing"
                );
                seen = head;
                rounds += 1;
                if last_round {
                    return (seen, rounds);
                }
                yield_now().await;
            }
        })
    };
    let writer = |_| {
        let f = f.clone();
        tokio::spawn(async move {
            for _ in 0..20 {
                f.put(lane, segment(&["x", "y"]), at(1)).await;
                dawdle().await;
            }
        })
    };
    let readers = (0..4).map(reader).collect();
    join((0..8).map(writer).collect()).await;
    done.store(true, Ordering::SeqCst);
    for (seen, rounds) in join(readers).await {
        assert_eq!(seen, 320);
        assert!(rounds > 0);
    }
}

/// Trimming while others append and read loses nothing above the tail.
pub async fn trims_do_not_disturb(engine: Arc<dyn Engine>) {
    let f = Arc::new(Fixture::new(engine).await);
    let lane = f.lane("a").await;
    let writer = |_| {
        let f = f.clone();
        tokio::spawn(async move {
            for _ in 0..20 {
                f.put(lane, segment(&["x", "y"]), at(1)).await;
                dawdle().await;
            }
            0
        })
    };
    let trimmer = |step: u64| {
        let f = f.clone();
        tokio::spawn(async move {
            let mut removed = 0;
            for i in 0..20 {
                removed += f.trim_one(lane, i * step).await;
                dawdle().await;
            }
            removed
        })
    };
    let mut tasks: Vec<_> = (0..8).map(writer).collect();
    tasks.extend([3, 5].map(trimmer));
    let removed: u64 = join(tasks).await.iter().sum();
    let (head, tail) = f.ends(lane).await;
    assert_eq!((head, tail), (320, removed));
    let segments = f.read_all(lane).await;
    assert_contiguous(&segments, tail - tail % 2);
    assert_eq!(segments.last().map_or(0, Segment::end), head);
}

/// Batches over the same lanes in opposite orders, by many: no deadlock, nothing lost.
pub async fn crossing_batches_do_not_block(engine: Arc<dyn Engine>) {
    let f = Arc::new(Fixture::new(engine).await);
    let lanes = f.sorted_lanes(12).await;
    let writer = |task: usize| {
        let (f, mut lanes) = (f.clone(), lanes.clone());
        tokio::spawn(async move {
            for n in 0..6 {
                lanes.rotate_left(task % 12);
                if task.is_multiple_of(2) {
                    lanes.reverse();
                }
                let appends = lanes.iter().map(|lane| free(*lane, segment(&["x"]), at(1)));
                if n % 2 == 0 {
                    assert!(up(f.append(appends.collect()).await).iter().all(Result::is_ok));
                } else {
                    let set = Commit { appends: appends.collect(), swaps: Vec::new() };
                    f.commit_one(set).await.expect("nothing is guarded");
                }
                dawdle().await;
            }
        })
    };
    join((0..TASKS as usize).map(writer).collect()).await;
    for lane in lanes {
        assert_eq!(f.ends(lane).await.0, TASKS * 6);
        assert_contiguous(&f.read_all(lane).await, 0);
    }
}
