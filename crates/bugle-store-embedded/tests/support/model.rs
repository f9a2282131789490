//! What a store must contain: a picture of everything in it, and random changes made to a store and a picture alike.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bugle_store::conformance::tally::{assert_tally, recount};
use bugle_store::{
    Append, Commit, Cursor, DeadLetter, DeadLetterFilter, Engine, Expire, Find, Guard, LaneId, Lease, Load,
    NewLane, NewSegment, Page, PutSwitches, Queue, QueueId, QueueOptions, Read, Swap, Switches, Timestamp,
    Trace, TraceFilter, Trim, Unavailable,
};
use fastrand::Rng;
use uuid::Uuid;

const ALL: Page = Page { offset: 0, limit: 100_000 };
const GROUPS: [&str; 2] = ["a", "b"];

/// (base, id, fingerprints, body)
type Row = (u64, u64, Vec<u64>, Vec<u8>);

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct LanePicture {
    pub(crate) head: u64,
    pub(crate) tail: u64,
    pub(crate) segments: Vec<Row>,
    pub(crate) cursors: BTreeMap<String, Cursor>,
}

/// Everything in a store, comparable.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Picture {
    pub(crate) queues: BTreeMap<QueueId, u64>,
    pub(crate) switches: Switches,
    pub(crate) lanes: BTreeMap<LaneId, LanePicture>,
    pub(crate) dead: BTreeSet<(Uuid, Vec<u8>)>,
    pub(crate) traces: BTreeSet<(Uuid, String)>,
}

impl LanePicture {
    fn trim(&mut self, to: u64) {
        self.tail = to.clamp(self.tail, self.head);
        let tail = self.tail;
        self.segments.retain(|(base, _, prints, _)| base + prints.len() as u64 > tail);
    }
}

/// A store and what must be in it.
pub(crate) struct Pair {
    pub(crate) picture: Picture,
    /// What is in it if the change that got no answer happened.
    pub(crate) maybe: Option<Picture>,
    /// (queue, lane) in play.
    places: Vec<(QueueId, LaneId, String)>,
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
        let mut next = self.picture.clone();
        let outcome = self.random_change(store, rng, &mut next).await;
        match outcome {
            Ok(()) => self.picture = next,
            Err(_) => self.maybe = Some(next),
        }
        outcome
    }

    async fn random_change(
        &mut self,
        store: &dyn Engine,
        rng: &mut Rng,
        next: &mut Picture,
    ) -> Result<(), Unavailable> {
        let alive: Vec<_> = self.places.iter().filter(|p| next.lanes.contains_key(&p.1)).cloned().collect();
        if alive.is_empty() || rng.f64() < 0.05 {
            return self.make_lane(store, rng, next).await;
        }
        let (queue, lane, name) = alive[rng.usize(..alive.len())].clone();
        match rng.u32(..100) {
            0..45 => self.append(store, rng, next, &alive).await,
            45..60 => {
                let set =
                    Commit { appends: vec![self.one(rng, next, lane)], swaps: vec![swap(rng, next, lane)] };
                store.commit(vec![set]).await.map(|done| assert!(done[0].is_ok()))
            }
            60..75 => {
                let mut item = swap(rng, next, lane);
                if rng.bool() {
                    let dead = self.dead(rng, queue, lane, &name);
                    next.dead.insert((dead.id, dead.message.to_vec()));
                    item.dead.push(dead);
                }
                store.swap(vec![item]).await.map(|done| assert!(done[0].is_ok()))
            }
            75..88 => {
                let picture = next.lanes.get_mut(&lane).unwrap();
                let to = rng.u64(picture.tail..=picture.head);
                let removed = to - picture.tail;
                picture.trim(to);
                store.trim(vec![Trim { lane, to }]).await.map(|done| assert_eq!(done, [removed]))
            }
            88..92 => {
                let trace = self.trace(rng, queue, lane);
                next.traces.insert((trace.id, trace.data.clone()));
                store.put_trace(trace).await
            }
            92..95 => {
                let ids: Vec<Uuid> = next.dead.iter().map(|d| d.0).take(2).collect();
                next.dead.retain(|(id, _)| !ids.contains(id));
                let count = ids.len() as u64;
                store.delete_dead_letters(ids).await.map(|done| assert_eq!(done, count))
            }
            95..97 => {
                next.lanes.retain(|_, l| l.head > l.tail);
                store.expire(Expire::Lanes(Timestamp::MAX), 1000).await.map(drop)
            }
            97 => {
                next.queues.remove(&queue);
                let gone: Vec<LaneId> = self.places.iter().filter(|p| p.0 == queue).map(|p| p.1).collect();
                next.lanes.retain(|id, _| !gone.contains(id));
                // Only dead letters and traces of this queue go with it; ids say which.
                let tag = tag(queue);
                next.dead.retain(|(id, _)| id.as_u64_pair().0 != tag);
                next.traces.retain(|(id, _)| id.as_u64_pair().0 != tag);
                store.delete_queue(queue).await.map(|done| assert!(done))
            }
            98 => {
                let change = PutSwitches {
                    push_maintenance: rng.bool().then(|| rng.bool()),
                    pop_maintenance: rng.bool().then(|| rng.bool()),
                };
                next.switches = change.apply(next.switches);
                let wanted = next.switches;
                store.put_switches(change).await.map(|done| assert_eq!(done, wanted))
            }
            _ => {
                let group = GROUPS[rng.usize(..2)];
                let of_queue = self.places.iter().filter(|p| p.0 == queue);
                for place in of_queue {
                    next.lanes.get_mut(&place.1).map(|l| l.cursors.remove(group));
                }
                store.delete_group(queue, group.into(), true).await.map(drop)
            }
        }
    }

    async fn make_lane(
        &mut self,
        store: &dyn Engine,
        rng: &mut Rng,
        next: &mut Picture,
    ) -> Result<(), Unavailable> {
        let now = self.now();
        let queue = match next.queues.keys().next() {
            Some(queue) if rng.f64() < 0.8 => *queue,
            _ => {
                let id = QueueId(Uuid::from_u64_pair(rng.u64(..), rng.u64(..)));
                next.queues.insert(id, 1);
                let name: Arc<str> = id.to_string().into();
                let (namespace, task) = (name.clone(), name.clone());
                let options = QueueOptions::default();
                let queue = Queue { id, name, namespace, task, created_at: now, version: 1, options };
                return store.put_queue(queue).await.map(drop);
            }
        };
        let name = format!("p{}", rng.u32(..6));
        let lane = LaneId::derive(queue, &name);
        next.lanes.entry(lane).or_default();
        if !self.places.iter().any(|place| place.1 == lane) {
            self.places.push((queue, lane, name.clone()));
        }
        let new = NewLane { queue, name: name.as_str().into(), now };
        store.ensure_lanes(vec![new]).await.map(|done| assert!(done[0].is_ok()))
    }

    /// An append, also made to the picture.
    fn one(&mut self, rng: &mut Rng, next: &mut Picture, lane: LaneId) -> Append {
        let picture = next.lanes.get_mut(&lane).unwrap();
        let count = rng.usize(1..5);
        let prints: Vec<u64> = (0..count).map(|_| rng.u64(..)).collect();
        let len = if rng.f64() < 0.05 { rng.usize(20_000..40_000) } else { rng.usize(1..6000) };
        let body: Vec<u8> = (0..len).map(|_| rng.u8(..)).collect();
        let id = rng.u64(..);
        let known_head = picture.head;
        picture.segments.push((known_head, id, prints.clone(), body.clone()));
        picture.head += count as u64;
        let guard = [Guard::Free, Guard::Head, Guard::Fingerprints][rng.usize(..3)];
        let segment = NewSegment { id, fingerprints: prints.into(), greatest: None, body: body.into() };
        Append { lane, known_head, guard, segment, now: self.now() }
    }

    async fn append(
        &mut self,
        store: &dyn Engine,
        rng: &mut Rng,
        next: &mut Picture,
        alive: &[(QueueId, LaneId, String)],
    ) -> Result<(), Unavailable> {
        let wanted = rng.usize(1..=3);
        let lanes: BTreeSet<LaneId> = (0..wanted).map(|_| alive[rng.usize(..alive.len())].1).collect();
        let batch = lanes.into_iter().map(|lane| self.one(rng, next, lane)).collect();
        store.append(batch).await.map(|done| assert!(done.iter().all(Result::is_ok), "{done:?}"))
    }

    fn dead(&mut self, rng: &mut Rng, queue: QueueId, lane: LaneId, name: &str) -> DeadLetter {
        DeadLetter {
            id: Uuid::from_u64_pair(tag(queue), rng.u64(..)),
            queue,
            lane,
            partition: name.into(),
            group: "a".into(),
            offset: rng.u64(..100),
            message: (0..rng.usize(1..3000)).map(|_| rng.u8(..)).collect::<Vec<u8>>().into(),
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

    /// Look at everything in the store; it must be the picture, or the picture with the unanswered change.
    pub(crate) async fn verify(&mut self, store: &dyn Engine, rng: &mut Rng) {
        let seen = try_look(store, &self.lanes()).await.unwrap();
        match self.maybe.take() {
            Some(maybe) if seen == maybe.blank() => self.picture = maybe,
            _ => assert!(seen == self.picture.blank(), "{}", difference(&seen, &self.picture)),
        }
        // Half of the leases have ended at this time.
        let now = Timestamp(500);
        let tallies = store.tallies(None, now).await.unwrap();
        assert_eq!(tallies.len(), self.picture.queues.len());
        for tally in tallies {
            assert_tally(&tally, &recount(store, tally.queue, now).await);
        }
        // Fingerprints are not in the answer of a read, so they are looked for.
        for (lane, picture) in &self.picture.lanes {
            if let Some((base, _, prints, _)) =
                picture.segments.get(rng.usize(..picture.segments.len().max(1)))
            {
                let query = Find {
                    lane: *lane,
                    fingerprints: prints.clone(),
                    from: 0,
                    to: u64::MAX,
                    since: Timestamp::ZERO,
                };
                let found = store.find(vec![query]).await.unwrap().remove(0);
                let offsets: Vec<u64> = found.iter().map(|f| f.offset).collect();
                let end = base + prints.len() as u64;
                let expected: Vec<u64> = ((*base).max(picture.tail)..end).collect();
                assert_eq!(offsets, expected, "fingerprints of lane {lane} at {base}");
            }
        }
    }
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

fn difference(seen: &Picture, wanted: &Picture) -> String {
    let mut out = String::new();
    for id in seen.lanes.keys().chain(wanted.lanes.keys()).collect::<BTreeSet<_>>() {
        let (s, w) = (seen.lanes.get(id), wanted.lanes.get(id));
        if s != w {
            let brief = |l: Option<&LanePicture>| {
                l.map(|l| {
                    (l.tail, l.head, l.segments.iter().map(|s| s.0).collect::<Vec<_>>(), l.cursors.clone())
                })
            };
            out += &format!("lane {id}:\n  seen   {:?}\n  wanted {:?}\n", brief(s), brief(w));
        }
    }
    out += &format!("queues {:?} / {:?}\n", seen.queues, wanted.queues);
    out += &format!("switches {:?} / {:?}\n", seen.switches, wanted.switches);
    out + &format!(
        "dead {} / {}, traces {} / {}",
        seen.dead.len(),
        wanted.dead.len(),
        seen.traces.len(),
        wanted.traces.len()
    )
}

/// A picture of a store; `possible` are the lanes that may be there.
pub(crate) async fn try_look(
    store: &dyn Engine,
    possible: &BTreeSet<LaneId>,
) -> Result<Picture, Unavailable> {
    let mut picture = Picture::default();
    let snapshot = store.snapshot(None).await?.expect("a snapshot is asked for without a known version");
    picture.switches = snapshot.switches;
    picture.queues = snapshot.queues.iter().map(|q| (q.id, q.version)).collect();
    for queue in snapshot.queues {
        for lane in store.lanes(queue.id, None, usize::MAX).await? {
            assert!(possible.contains(&lane.id), "a lane nobody made");
            let read = Read { lane: lane.id, from: 0, to: u64::MAX, max_bytes: usize::MAX };
            let segments = store.read(vec![read]).await?.remove(0);
            let mut next = segments.first().map_or(lane.head, |s| s.base);
            let mut rows = Vec::new();
            for segment in segments {
                assert_eq!(segment.base, next, "offsets have no gap");
                next = segment.end();
                rows.push((segment.base, segment.id, vec![0; segment.count as usize], segment.body.to_vec()));
            }
            assert_eq!(next, lane.head);
            let cursors = store.load(vec![Load::Cursors(lane.id)]).await?.remove(0);
            let cursors = cursors.into_iter().map(|c| (c.group.to_string(), c.cursor.unwrap())).collect();
            let (head, tail) = (lane.head, lane.tail);
            picture.lanes.insert(lane.id, LanePicture { head, tail, segments: rows, cursors });
        }
    }
    let (dead, _) = store.dead_letters(DeadLetterFilter::default(), ALL).await?;
    picture.dead = dead.into_iter().map(|d| (d.id, d.message.to_vec())).collect();
    let (traces, _) = store.traces(TraceFilter::Name("all".to_owned()), ALL).await?;
    picture.traces = traces.into_iter().map(|t| (t.id, t.data)).collect();
    Ok(picture)
}

impl Picture {
    /// Without the fingerprints, which a read does not show.
    pub(crate) fn blank(&self) -> Picture {
        let mut blank = self.clone();
        for (_, _, prints, _) in blank.lanes.values_mut().flat_map(|l| l.segments.iter_mut()) {
            prints.fill(0);
        }
        blank
    }
}
