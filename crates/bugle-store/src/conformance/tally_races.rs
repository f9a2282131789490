//! Tallies under random changes, made to the reference store alike, and while many write and ask at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use uuid::Uuid;

use super::fixture::{Fixture, at, cursor, free, join, one, random, segment, swap, unique, up};
use super::retention::{BEFORE, ancient, expire_all};
use super::tally::{among_all, assert_tally, recount};
use crate::{
    Append, Catalog, Cursor, Engine, Expire, LaneId, Lease, Load, MemoryStore, NewLane, Offset, Store, Swap,
    Timestamp,
};

const GROUPS: [&str; 3] = ["a", "b", "c"];
const NAMES: u64 = 6;

fn below(end: u64) -> u64 {
    random() % end.max(1)
}

/// A cursor after epoch `expect`, anywhere in a lane with this head, perhaps under a lease.
fn anywhere(expect: u64, head: Offset) -> Cursor {
    let lease = Lease { id: Uuid::new_v4(), until: at(below(20) as i64), end: head };
    Cursor {
        lease: (below(2) == 0).then_some(lease),
        consumed: below(1000),
        served_at: at(below(100) as i64),
        ..cursor(expect, below(head + 1))
    }
}

/// An engine and the model, changed alike.
struct Twins {
    f: Fixture,
    model: MemoryStore,
}

impl Twins {
    async fn new(engine: Arc<dyn Engine>) -> Self {
        let f = Fixture::new(engine).await;
        let model = MemoryStore::new();
        up(model.put_queue(f.queue.clone()).await);
        Self { f, model }
    }

    /// Make a lane with a message in both. One from before 1990 may expire in the engine while it is empty, for the sake
    /// of another case: then it is in neither.
    async fn push(&self, name: &str, now: Timestamp) {
        let new = vec![NewLane { queue: self.f.queue.id, name: name.into(), now }];
        let lane = one(self.f.ensure_lanes(new.clone()).await).expect("the queue exists").id;
        let ids = ["x", "y", "z"];
        let append: Append = free(lane, segment(&ids[..=below(3) as usize]), now);
        if self.f.append_one(append.clone()).await.is_ok() {
            up(self.model.ensure_lanes(new).await);
            one(self.model.append(vec![append]).await).expect("the lane is there");
        }
    }

    async fn swap(&self, lane: LaneId, head: Offset) {
        let group = GROUPS[below(3) as usize];
        let held = one(self.model.load(vec![Load::Lane(lane, group.into())]).await).remove(0);
        let expect = held.cursor.map_or(0, |cursor| cursor.epoch);
        let dead = (0..below(3)).map(|n| self.f.letter(lane, group, "x", n as i64)).collect();
        let item = Swap { dead, ..swap(lane, group, expect, anywhere(expect, head)) };
        self.f.swap_one(item.clone()).await.expect("the epoch is right");
        one(self.model.swap(vec![item]).await).expect("the epoch is right");
    }

    async fn trim(&self, lane: LaneId, to: Offset) {
        let trim = vec![crate::Trim { lane, to }];
        assert_eq!(self.f.trim_one(lane, to).await, one(self.model.trim(trim).await));
    }

    async fn change(&self) {
        let queue = self.f.queue.id;
        let lanes = up(self.model.lanes(queue, None, 100).await);
        let young: Vec<_> = lanes.iter().filter(|lane| !lane.name.starts_with("old")).collect();
        let chosen = young.get(below(young.len() as u64) as usize);
        match (below(20), chosen) {
            (0..6, _) | (_, None) => self.push(&below(NAMES).to_string(), at(below(9) as i64)).await,
            (6, _) => self.push("old", ancient(9)).await,
            (7, _) => {
                // Emptied and gone at once: an old lane that is empty has no reason to stay.
                if let Some(old) = lanes.iter().find(|lane| lane.name.starts_with("old")) {
                    self.trim(old.id, old.head).await;
                    expire_all(&*self.f.engine, Expire::Lanes(BEFORE)).await;
                    up(self.model.expire(Expire::Lanes(BEFORE), 100).await);
                }
            }
            (8..14, Some(lane)) => self.swap(lane.id, lane.head).await,
            (14..18, Some(lane)) => self.trim(lane.id, below(lane.head + 1)).await,
            (18, _) => {
                let ids: Vec<Uuid> = self.f.letters().await.iter().map(|letter| letter.id).take(2).collect();
                assert_eq!(
                    up(self.f.delete_dead_letters(ids.clone()).await),
                    up(self.model.delete_dead_letters(ids).await)
                );
            }
            _ => {
                let group = GROUPS[below(3) as usize];
                let removed = up(self.model.delete_group(queue, group.into(), true).await);
                assert_eq!(up(self.f.delete_group(queue, group.into(), true).await), removed);
            }
        }
    }
}

/// Whatever happens, the tally is that of the model, which counts everything each time.
pub async fn random_changes_come_to_the_same(engine: Arc<dyn Engine>) {
    let twins = Twins::new(engine).await;
    let queues = Some(vec![twins.f.queue.id]);
    for step in 0..250 {
        twins.change().await;
        // Not after every change: several of them are then counted together.
        if below(3) == 0 || step == 249 {
            let now = at(below(20) as i64);
            let tally = one(twins.f.tallies(queues.clone(), now).await);
            assert_tally(&tally, &one(twins.model.tallies(queues.clone(), now).await));
            assert_eq!(among_all(&twins.f, now).await, Some(tally));
        }
    }
}

/// One of several who change the same few lanes of two queues, for a while.
async fn write(f: Arc<Fixture>, doomed: Arc<Fixture>, task: u64) {
    let group = GROUPS[task as usize % 3];
    for n in 0..25 {
        let old = f.lane_at(&format!("old {}", below(3)), ancient(5)).await.id;
        // Refused once it has expired, or its queue was deleted.
        let _ = f.append_one(free(old, segment(&["x"]), ancient(4))).await;
        let lane = f.lane(&below(4).to_string()).await;
        f.put(lane, segment(&["x", "y"]), at(1)).await;
        let (head, tail) = f.ends(lane).await;
        let expect = f.cursor_of(lane, group).await.map_or(0, |cursor| cursor.epoch);
        let dead = vec![f.letter(lane, group, "x", 1)];
        // Refused if another was first.
        let _ = f.swap_one(Swap { dead, ..swap(lane, group, expect, anywhere(expect, head)) }).await;
        match (task + n) % 5 {
            0 => drop(f.trim_one(lane, tail + below(head - tail + 1)).await),
            1 => drop(up(f.delete_group(f.queue.id, group.into(), false).await)),
            2 => {
                let ids = f.letters().await.iter().map(|letter| letter.id).take(3).collect();
                up(f.delete_dead_letters(ids).await);
            }
            3 => {
                let last = f.state(old).await.map_or(0, |lane| lane.head);
                f.trim_one(old, last).await;
                up(f.expire(Expire::Lanes(BEFORE), 10).await);
            }
            _ => {
                let new = NewLane { queue: doomed.queue.id, name: unique("lane"), now: at(1) };
                if let Ok(lane) = one(doomed.ensure_lanes(vec![new]).await) {
                    let _ = doomed.append_one(free(lane.id, segment(&["x"]), at(1))).await;
                    let _ = doomed.swap_one(swap(lane.id, group, 0, cursor(0, 1))).await;
                }
            }
        }
    }
}

/// Writers of all kinds and askers at once: none waits for another for ever, and in the end the tally is right.
pub async fn askers_do_not_disturb_writers(engine: Arc<dyn Engine>) {
    let f = Arc::new(Fixture::new(engine).await);
    let doomed = Arc::new(f.neighbour().await);
    let stop = Arc::new(AtomicBool::new(false));
    let ask = || {
        let (f, stop) = (f.clone(), stop.clone());
        tokio::spawn(async move {
            while !stop.load(Ordering::SeqCst) {
                let tally = match random() % 2 {
                    0 => one(f.tallies(Some(vec![f.queue.id]), at(5)).await),
                    _ => among_all(&f, at(5)).await.expect("it is there"),
                };
                assert!(tally.kept <= tally.appended && tally.filled <= tally.lanes, "{tally:?}");
                tokio::task::yield_now().await;
            }
        })
    };
    let askers = vec![ask(), ask(), ask()];
    let writers = (0..6).map(|task| tokio::spawn(write(f.clone(), doomed.clone(), task))).collect();
    let deletion = {
        let doomed = doomed.clone();
        tokio::spawn(async move { up(doomed.delete_queue(doomed.queue.id).await) })
    };
    join(writers).await;
    assert!(join(vec![deletion]).await[0]);
    stop.store(true, Ordering::SeqCst);
    join(askers).await;
    // What is old and empty may go while it is counted.
    expire_all(&*f.engine, Expire::Lanes(BEFORE)).await;
    let tally = one(f.tallies(Some(vec![f.queue.id]), at(5)).await);
    assert_tally(&tally, &recount(&*f.engine, f.queue.id, at(5)).await);
    assert!(tally.kept > 0 && tally.dead > 0, "{tally:?}");
    assert_eq!(among_all(&f, at(5)).await, Some(tally));
    assert_eq!(up(f.tallies(Some(vec![doomed.queue.id]), at(5)).await), []);
}
