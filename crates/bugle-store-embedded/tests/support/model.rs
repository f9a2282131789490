//! What a store must contain: a picture of it, and random changes made to the picture and to the store alike.

use std::collections::BTreeSet;
use std::sync::Arc;

use bugle_store::conformance::tally::{assert_tally, recount};
use bugle_store::{
    Append, Commit, Cursor, DeadLetter, Engine, Find, GroupRecord, Guard, LaneId, Lease, NewLane, NewSegment,
    PutSwitches, Queue, QueueId, QueueOptions, Start, Swap, Timestamp, Trace, Trim, Unavailable,
};
use bytes::Bytes;
use fastrand::Rng;
use uuid::Uuid;

use super::change::Change;
use super::picture::{Picture, try_look};

const GROUPS: [&str; 2] = ["a", "b"];

/// A lane in play, there or not.
type Place = (QueueId, LaneId, String);

/// A store and what must be in it.
pub(crate) struct Pair {
    pub(crate) picture: Picture,
    /// What is in it if the change that got no answer happened.
    pub(crate) maybe: Option<Picture>,
    places: Vec<Place>,
    pub(crate) clock: i64,
}

impl Pair {
    pub(crate) fn new() -> Self {
        Self { picture: Picture::default(), maybe: None, places: Vec::new(), clock: 1_700_000_000_000_000 }
    }

    /// The same places, with another picture: a store that has parted from this one.
    #[allow(dead_code, reason = "not every test binary copies stores")]
    pub(crate) fn as_of(&self, picture: Picture) -> Self {
        Self { picture, maybe: None, places: self.places.clone(), clock: self.clock }
    }

    fn now(&mut self) -> Timestamp {
        self.clock += 1000;
        Timestamp(self.clock)
    }

    /// Make one random change to the store; `Err` = no answer, and the picture has a `maybe`.
    pub(crate) async fn change(&mut self, store: &dyn Engine, rng: &mut Rng) -> Result<(), Unavailable> {
        let change = self.begin(rng);
        let outcome = change.make(store).await;
        if outcome.is_ok() {
            self.answered();
        }
        outcome
    }

    /// Choose a change. Until it is answered the picture has a `maybe`.
    pub(crate) fn begin(&mut self, rng: &mut Rng) -> Change {
        let mut next = self.picture.clone();
        let change = self.choose(rng, &mut next);
        self.maybe = Some(next);
        change
    }

    /// The change was answered.
    pub(crate) fn answered(&mut self) {
        self.picture = self.maybe.take().expect("only what was begun is answered");
    }

    fn choose(&mut self, rng: &mut Rng, next: &mut Picture) -> Change {
        let alive: Vec<_> = self.places.iter().filter(|p| next.lanes.contains_key(&p.1)).cloned().collect();
        if alive.is_empty() || rng.f64() < 0.05 {
            return self.make_lane(rng, next);
        }
        let (queue, lane, name) = alive[rng.usize(..alive.len())].clone();
        match rng.u32(..100) {
            0..45 => self.append(rng, next, &alive),
            45..60 => {
                let (appends, swaps) = (vec![self.one(rng, next, lane)], vec![swap(rng, next, lane)]);
                Change::Commit(Commit { appends, swaps })
            }
            60..75 => {
                let mut item = swap(rng, next, lane);
                if rng.bool() {
                    let dead = self.dead(rng, queue, lane, &name);
                    next.dead.insert((dead.id, dead.message.clone()));
                    item.dead.push(dead);
                }
                Change::Swap(item)
            }
            75..86 => {
                let picture = next.lanes.get_mut(&lane).unwrap();
                let to = rng.u64(picture.tail..=picture.head);
                let removed = to - picture.tail;
                picture.trim(to);
                Change::Trim(vec![Trim { lane, to }], vec![removed])
            }
            86..88 => self.clear(next, queue),
            88..91 => {
                let trace = self.trace(rng, queue, lane);
                next.traces.insert((trace.id, trace.data.clone()));
                Change::Trace(trace)
            }
            91..94 => {
                let ids: Vec<Uuid> = next.dead.iter().map(|d| d.0).take(2).collect();
                next.dead.retain(|(id, _)| !ids.contains(id));
                Change::Bury(ids)
            }
            94 => {
                next.lanes.retain(|_, l| l.head > l.tail);
                Change::CollectLanes
            }
            _ => self.choose_catalog(rng, next, queue),
        }
    }

    fn choose_catalog(&mut self, rng: &mut Rng, next: &mut Picture, queue: QueueId) -> Change {
        let name = GROUPS[rng.usize(..2)];
        match rng.u32(..5) {
            0 => self.delete_queue(next, queue),
            1 => {
                let change = PutSwitches {
                    push_maintenance: rng.bool().then(|| rng.bool()),
                    pop_maintenance: rng.bool().then(|| rng.bool()),
                };
                next.switches = change.apply(next.switches);
                Change::Switches(change, next.switches)
            }
            2 => {
                let row = next.queues.get_mut(&queue).unwrap();
                row.version += 1;
                row.options.lease_time = rng.u64(1..1000);
                Change::Queue(row.clone())
            }
            3 => {
                let created_at = self.now();
                let (group, start) = (name.into(), Start::From(Timestamp(rng.i64(..1000))));
                let group = GroupRecord { queue, group, start, conflation: rng.bool(), created_at };
                next.groups.entry((queue, name.to_owned())).or_insert_with(|| group.clone());
                Change::Group(group)
            }
            _ => {
                for place in self.places.iter().filter(|p| p.0 == queue) {
                    next.lanes.get_mut(&place.1).map(|l| l.cursors.remove(name));
                }
                next.groups.remove(&(queue, name.to_owned()));
                Change::DeleteGroup(queue, name)
            }
        }
    }

    /// Everything in a queue is trimmed at once.
    fn clear(&self, next: &mut Picture, queue: QueueId) -> Change {
        let (mut trims, mut removed) = (Vec::new(), Vec::new());
        for place in self.places.iter().filter(|p| p.0 == queue) {
            let Some(picture) = next.lanes.get_mut(&place.1) else { continue };
            trims.push(Trim { lane: place.1, to: picture.head });
            removed.push(picture.head - picture.tail);
            picture.trim(picture.head);
        }
        Change::Trim(trims, removed)
    }

    fn delete_queue(&self, next: &mut Picture, queue: QueueId) -> Change {
        next.queues.remove(&queue);
        next.groups.retain(|(of, _), _| *of != queue);
        let gone: Vec<LaneId> = self.places.iter().filter(|p| p.0 == queue).map(|p| p.1).collect();
        next.lanes.retain(|id, _| !gone.contains(id));
        // Only dead letters and traces of this queue go with it; ids say which.
        next.dead.retain(|(id, _)| id.as_u64_pair().0 != tag(queue));
        next.traces.retain(|(id, _)| id.as_u64_pair().0 != tag(queue));
        Change::DeleteQueue(queue)
    }

    fn make_lane(&mut self, rng: &mut Rng, next: &mut Picture) -> Change {
        let now = self.now();
        let name =
            ["first", "second", "third"].into_iter().find(|n| next.queues.values().all(|q| &*q.name != *n));
        let queue = match (next.queues.keys().next(), name) {
            (None, Some(name)) => return self.make_queue(rng, next, name),
            (Some(_), Some(name)) if rng.f64() < 0.2 => return self.make_queue(rng, next, name),
            _ => *next.queues.keys().nth(rng.usize(..next.queues.len())).unwrap(),
        };
        let name = format!("p{}", rng.u32(..6));
        let lane = LaneId::derive(queue, &name);
        next.lanes.entry(lane).or_default();
        if !self.places.iter().any(|place| place.1 == lane) {
            self.places.push((queue, lane, name.clone()));
        }
        Change::Lane(NewLane { queue, name: name.as_str().into(), now })
    }

    /// A name that was used before is another queue.
    fn make_queue(&mut self, rng: &mut Rng, next: &mut Picture, name: &str) -> Change {
        let id = QueueId(Uuid::from_u64_pair(rng.u64(..), rng.u64(..)));
        let name: Arc<str> = name.into();
        let (namespace, task, options) = (name.clone(), name.clone(), QueueOptions::default());
        let queue = Queue { id, name, namespace, task, created_at: self.now(), version: 1, options };
        next.queues.insert(id, queue.clone());
        Change::Queue(queue)
    }

    /// An append, also made to the picture.
    fn one(&mut self, rng: &mut Rng, next: &mut Picture, lane: LaneId) -> Append {
        let picture = next.lanes.get_mut(&lane).unwrap();
        let count = rng.usize(1..5);
        let prints: Vec<u64> = (0..count).map(|_| rng.u64(..)).collect();
        let len = if rng.f64() < 0.05 { rng.usize(20_000..40_000) } else { rng.usize(1..6000) };
        let body = noise(rng, len);
        let id = rng.u64(..);
        let known_head = picture.head;
        picture.segments.push((known_head, id, prints.clone(), body.clone()));
        picture.head += count as u64;
        let guard = [Guard::Free, Guard::Head, Guard::Fingerprints][rng.usize(..3)];
        let segment = NewSegment { id, fingerprints: prints.into(), greatest: None, body };
        Append { lane, known_head, guard, segment, now: self.now() }
    }

    fn append(&mut self, rng: &mut Rng, next: &mut Picture, alive: &[Place]) -> Change {
        let wanted = rng.usize(1..=3);
        let lanes: BTreeSet<LaneId> = (0..wanted).map(|_| alive[rng.usize(..alive.len())].1).collect();
        Change::Append(lanes.into_iter().map(|lane| self.one(rng, next, lane)).collect())
    }

    fn dead(&mut self, rng: &mut Rng, queue: QueueId, lane: LaneId, name: &str) -> DeadLetter {
        let len = rng.usize(1..3000);
        DeadLetter {
            id: Uuid::from_u64_pair(tag(queue), rng.u64(..)),
            queue,
            lane,
            partition: name.into(),
            group: "a".into(),
            offset: rng.u64(..100),
            message: noise(rng, len),
            transaction_id: "t".to_owned(),
            error: "e".to_owned(),
            attempts: 3,
            created_at: self.now(),
            failed_at: self.now(),
        }
    }

    fn trace(&mut self, rng: &mut Rng, queue: QueueId, lane: LaneId) -> Trace {
        Trace {
            id: Uuid::from_u64_pair(tag(queue), rng.u64(..)),
            queue,
            lane,
            transaction_id: "t".to_owned(),
            event_type: "x".to_owned(),
            data: rng.u64(..).to_string(),
            group: "a".into(),
            names: vec!["all".to_owned()],
            worker: None,
            created_at: self.now(),
        }
    }

    /// Lanes that may be there.
    pub(crate) fn lanes(&self) -> BTreeSet<LaneId> {
        self.places.iter().map(|p| p.1).collect()
    }

    /// One that goes on from here by itself.
    pub(crate) fn fork(&self) -> Pair {
        let (picture, maybe) = (self.picture.clone(), self.maybe.clone());
        Pair { picture, maybe, places: self.places.clone(), clock: self.clock }
    }

    /// Look at everything in the store; it must be the picture, or the picture with the unanswered change.
    pub(crate) async fn verify(&mut self, store: &dyn Engine, rng: &mut Rng) {
        let seen = try_look(store, &self.lanes()).await.unwrap();
        match self.maybe.take() {
            Some(maybe) if seen == maybe.blank() => self.picture = maybe,
            _ => assert!(seen == self.picture.blank(), "{}", seen.difference(&self.picture)),
        }
        // Half of the leases have ended at this time.
        let now = Timestamp(500);
        let tallies = store.tallies(None, now).await.unwrap();
        assert_eq!(tallies.len(), self.picture.queues.len());
        for tally in tallies {
            assert_tally(&tally, &recount(store, tally.queue, now).await);
        }
        self.verify_fingerprints(store, rng).await;
    }

    /// Fingerprints are not in the answer of a read, so some are looked for.
    async fn verify_fingerprints(&self, store: &dyn Engine, rng: &mut Rng) {
        for (lane, picture) in &self.picture.lanes {
            let some = rng.usize(..picture.segments.len().max(1));
            let Some((base, _, prints, _)) = picture.segments.get(some) else { continue };
            let (fingerprints, since) = (prints.clone(), Timestamp::ZERO);
            let query = Find { lane: *lane, fingerprints, from: 0, to: u64::MAX, since };
            let found = store.find(vec![query]).await.unwrap().remove(0);
            let offsets: Vec<u64> = found.iter().map(|f| f.offset).collect();
            let end = base + prints.len() as u64;
            let expected: Vec<u64> = ((*base).max(picture.tail)..end).collect();
            assert_eq!(offsets, expected, "fingerprints of lane {lane} at {base}");
        }
    }
}

fn noise(rng: &mut Rng, len: usize) -> Bytes {
    let mut bytes = vec![0; len];
    rng.fill(&mut bytes);
    bytes.into()
}

fn tag(queue: QueueId) -> u64 {
    queue.0.as_u64_pair().0
}

fn swap(rng: &mut Rng, next: &mut Picture, lane: LaneId) -> Swap {
    let group = GROUPS[rng.usize(..2)];
    let picture = next.lanes.get_mut(&lane).unwrap();
    let expect = picture.cursors.get(group).map_or(0, |c| c.epoch);
    let lease =
        Lease { id: Uuid::from_u128(rng.u128(..)), until: Timestamp(rng.i64(0..1000)), end: picture.head };
    let cursor = Cursor {
        epoch: expect + 1,
        consumed: rng.u64(..),
        lease: rng.bool().then_some(lease),
        ..Cursor::fresh(rng.u64(..=picture.head))
    };
    picture.cursors.insert(group.to_owned(), cursor.clone());
    Swap { lane, group: group.into(), expect, next: cursor, read: None, dead: Vec::new() }
}
