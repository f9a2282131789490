//! A carrier's conduct, with time and transport made up.

use std::collections::VecDeque;
use std::net::SocketAddr;

use super::*;

const MS: Duration = Duration::from_millis(1);
const S: Duration = Duration::from_secs(1);

/// A tiding of eight bytes; its number is its topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Word(pub(crate) u64);

impl Tiding for Word {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend(self.0.to_be_bytes());
    }

    fn decode(input: &mut &[u8]) -> Option<Self> {
        let (first, rest) = input.split_first_chunk::<8>()?;
        *input = rest;
        Some(Self(u64::from_be_bytes(*first)))
    }

    fn topic(&self) -> Option<u64> {
        Some(self.0)
    }
}

/// Some servers on one medium and what each was told.
struct World {
    now: Instant,
    cores: Vec<Core<Word>>,
    told: Vec<Vec<Action<Word>>>,
    /// Frames with the sender and, with peers, the addressee.
    sent: Vec<(usize, Option<usize>, Bytes)>,
    lose: bool,
    /// Nobody hears what this one sends.
    mute: Option<usize>,
}

impl World {
    fn broadcast(count: usize) -> Self {
        Self::new((0..count).map(|_| Shape::Everyone).collect())
    }

    /// Server n knows the others as peers 0, 1, … in order.
    fn mesh(count: usize) -> Self {
        Self::new((0..count).map(|_| Shape::Peers(vec!["peer".into(); count - 1])).collect())
    }

    fn new(shapes: Vec<Shape>) -> Self {
        let now = Instant::now();
        let make = |shape| Core::new(BellOptions::default(), Source::Udp, shape, 1_024, now, Arc::default());
        let cores: Vec<Core<Word>> = shapes.into_iter().map(make).collect();
        let told = cores.iter().map(|_| Vec::new()).collect();
        Self { now, cores, told, sent: Vec::new(), lose: false, mute: None }
    }

    fn event(&mut self, at: usize, event: Event) {
        let mut out = Vec::new();
        self.cores[at].event(self.now, event, &mut out);
        self.cores[at].pump(self.now, &mut out);
        self.carry(at, out);
    }

    /// Carry actions out, and what follows from them.
    fn carry(&mut self, at: usize, actions: Vec<Action<Word>>) {
        let mut todo: VecDeque<(usize, Action<Word>)> = actions.into_iter().map(|a| (at, a)).collect();
        while let Some((from, action)) = todo.pop_front() {
            let Action::Do(Job::Send { to, frames }) = action else {
                self.told[from].push(action);
                continue;
            };
            for (target, event) in self.deliveries(from, to, frames) {
                let mut out = Vec::new();
                self.cores[target].event(self.now, event, &mut out);
                self.cores[target].pump(self.now, &mut out);
                todo.extend(out.into_iter().map(|a| (target, a)));
            }
        }
    }

    fn deliveries(&mut self, from: usize, to: Destination, frames: Vec<Bytes>) -> Vec<(usize, Event)> {
        let port = |n: usize| SocketAddr::from(([127, 0, 0, 1], 1 + n as u16));
        let target = match to {
            Destination::Everyone => None,
            Destination::Peer(place) => Some(if place < from { place } else { place + 1 }),
            Destination::Back(address) => Some(usize::from(address.port()) - 1),
        };
        let mut all = Vec::new();
        for bytes in frames {
            self.sent.push((from, target, bytes.clone()));
            let targets: Vec<usize> = match target {
                _ if self.lose || self.mute == Some(from) => Vec::new(),
                None => (0..self.cores.len()).collect(),
                Some(target) => vec![target],
            };
            // Who is not up hears nothing.
            let targets: Vec<usize> = targets.into_iter().filter(|t| self.cores[*t].up).collect();
            let frame = |t| (t, Event::Frame { from: target.map(|_| port(from)), bytes: bytes.clone() });
            all.extend(targets.into_iter().map(frame));
        }
        if target.is_none() {
            all.push((from, Event::Sent(true)));
        }
        all
    }

    fn start(&mut self) {
        for at in 0..self.cores.len() {
            self.event(at, Event::Up);
        }
    }

    fn ring(&mut self, at: usize, word: u64) {
        self.cores[at].ring(Word(word), self.now);
        self.pump(at);
    }

    fn pump(&mut self, at: usize) {
        let mut out = Vec::new();
        self.cores[at].pump(self.now, &mut out);
        self.carry(at, out);
    }

    /// Let time pass, waking each server when it wants to be woken.
    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        for step in 0.. {
            assert!(step < 100_000, "a carrier wants to be woken without end");
            let due = |c: &Core<Word>| c.next_due(self.now);
            let next = self.cores.iter().enumerate().filter_map(|(n, c)| Some((due(c)?, n))).min();
            let Some((at, n)) = next.filter(|(at, _)| *at <= end) else { break };
            self.now = self.now.max(at);
            self.pump(n);
        }
        self.now = end;
    }

    fn take_told(&mut self) -> Vec<Vec<Action<Word>>> {
        self.told.iter_mut().map(std::mem::take).collect()
    }

    fn kinds(&self) -> Vec<u8> {
        self.sent.iter().map(|(_, _, bytes)| bytes[1]).collect()
    }
}

#[test]
fn two_servers_know_each_other_after_one_round_trip() {
    for mut world in [World::broadcast(2), World::mesh(2)] {
        world.start();
        for (at, told) in world.take_told().into_iter().enumerate() {
            assert!(told.contains(&Action::Recheck("new peer")), "{at}: {told:?}");
            assert!(told.iter().all(|t| matches!(t, Action::Recheck("new peer"))), "{at}: {told:?}");
            assert_eq!(world.cores[at].state(), HearingState::Connected);
        }
        world.cores[1].want(7, world.now);
        world.pump(1);
        world.take_told();
        world.ring(0, 7);
        assert_eq!(world.take_told(), [vec![], vec![Action::Tidings(vec![Word(7)])]]);
        world.pass(10 * S);
        assert_eq!(world.take_told(), [vec![], vec![]], "nothing was missed");
    }
}

#[test]
fn a_single_server_sends_nothing_but_pings() {
    let mut world = World::broadcast(1);
    world.start();
    world.ring(0, 1);
    world.pass(2 * S);
    world.ring(0, 2);
    world.pass(200 * S);
    assert!(world.kinds().iter().all(|k| *k == 4 || *k == 5), "{:?}", world.kinds());
    assert!((6..=9).contains(&world.kinds().len()), "{:?}", world.kinds());
    assert_eq!(world.take_told(), [vec![]]);
}

#[test]
fn what_is_rung_before_the_others_answered_is_kept_for_them() {
    let mut world = World::broadcast(2);
    world.event(0, Event::Up);
    world.ring(0, 1);
    assert_eq!(world.kinds(), [5]);
    world.event(1, Event::Up);
    let told = world.take_told();
    assert!(told[1].contains(&Action::Tidings(vec![Word(1)])), "{told:?}");
}

#[test]
fn a_burst_is_one_flush_at_once_one_later_and_one_trailing_frame() {
    let mut world = World::broadcast(2);
    world.start();
    world.sent.clear();
    for n in 0..100 {
        world.ring(0, n % 20);
    }
    world.pass(5 * MS);
    assert_eq!(world.kinds(), [1, 1]);
    world.pass(2 * S);
    assert_eq!(world.kinds(), [1, 1, 3]);
}

#[test]
fn a_lost_last_hint_is_found_by_the_trailing_frame() {
    for mut world in [World::broadcast(2), World::mesh(2)] {
        world.start();
        world.cores[1].want(7, world.now);
        world.pass(20 * MS);
        world.take_told();
        world.lose = true;
        world.ring(0, 7);
        world.event(0, Event::Sent(true));
        world.lose = false;
        world.pass(1_100 * MS);
        assert_eq!(world.take_told(), [vec![], vec![Action::Recheck("gap")]]);
    }
}

#[test]
fn a_silent_server_is_told_once_and_then_nothing_is_sent() {
    let mut world = World::broadcast(2);
    world.start();
    world.take_told();
    let gone = world.cores.pop();
    world.pass(200 * S);
    assert_eq!(world.told[0], [Action::Recheck("peer silent")]);
    world.sent.clear();
    world.ring(0, 1);
    assert!(world.sent.is_empty());
    // It was only cut off: both must look again.
    world.cores.extend(gone);
    world.take_told();
    world.event(1, Event::Up);
    let told = world.take_told();
    assert!(told[0].contains(&Action::Recheck("new peer")), "{told:?}");
    assert!(told[1].contains(&Action::Recheck("reconnected")), "{told:?}");
    assert!(told[1].contains(&Action::Recheck("new peer")), "it had been forgotten: {told:?}");
}

#[test]
fn a_server_that_learns_it_was_forgotten_looks_again() {
    let mut world = World::broadcast(2);
    world.start();
    world.mute = Some(1);
    world.pass(100 * S);
    assert!(world.cores[0].peers.is_empty() && !world.cores[1].peers.is_empty());
    world.take_told();
    world.mute = None;
    world.pass(2 * S);
    assert!(world.told[1].contains(&Action::Recheck("new peer")), "{:?}", world.told[1]);
}

#[test]
fn what_could_not_be_published_becomes_an_advice_to_recheck() {
    let mut world = World::broadcast(2);
    world.start();
    world.take_told();
    let now = world.now;
    world.cores[0].ring(Word(1), now);
    let mut lost = Vec::new();
    world.cores[0].pump(now, &mut lost);
    assert!(matches!(lost[..], [Action::Do(Job::Send { .. })]), "{lost:?}");
    world.ring(0, 2);
    assert_eq!(world.take_told(), [vec![], vec![]], "one at a time");
    world.event(0, Event::Sent(false));
    world.pass(S / 2);
    let told = world.take_told();
    assert!(told[1].contains(&Action::Recheck("overflow")), "{told:?}");
}

#[test]
fn pings_that_do_not_come_back_cost_health_until_they_do() {
    let mut world = World::broadcast(1);
    world.start();
    assert_eq!(world.cores[0].state(), HearingState::Connected);
    world.lose = true;
    world.pass(40 * S);
    assert_eq!(world.cores[0].state(), HearingState::Isolated);
    assert!(world.told[0].contains(&Action::Lapse), "{:?}", world.told[0]);
    assert!(world.told[0].contains(&Action::Do(Job::Reset(Destination::Everyone))), "{:?}", world.told[0]);
    world.told[0].clear();
    world.lose = false;
    world.pass(2 * S);
    assert_eq!(world.cores[0].state(), HearingState::Connected);
    assert!(world.told[0].contains(&Action::Recheck("reconnected")), "{:?}", world.told[0]);
}

#[test]
fn a_ping_that_rides_along_saves_one() {
    let mut world = World::broadcast(1);
    world.start();
    let now = world.now;
    assert_eq!(world.cores[0].take_ping(now), None, "not due");
    world.sent.clear();
    world.pass(15 * S);
    let ping = world.cores[0].take_ping(world.now).expect("due soon");
    assert_eq!(world.cores[0].take_ping(world.now), None, "taken");
    world.event(0, Event::Frame { from: None, bytes: ping });
    world.pass(20 * S);
    assert!(world.sent.is_empty());
    assert_eq!(world.cores[0].state(), HearingState::Connected);
}

#[test]
fn peers_get_only_what_they_want() {
    let mut world = World::mesh(3);
    world.start();
    world.cores[1].want(7, world.now);
    world.pump(1);
    assert!(world.told[1].contains(&Action::Recheck("interest announced")), "all peers confirmed it");
    world.take_told();
    world.sent.clear();
    world.ring(0, 7);
    world.pass(10 * MS);
    world.ring(0, 8);
    world.pass(10 * MS);
    let hints: Vec<Option<usize>> = world.sent.iter().filter(|s| s.2[1] == 1).map(|s| s.1).collect();
    assert_eq!(hints, [Some(1)]);
    assert_eq!(world.take_told(), [vec![], vec![Action::Tidings(vec![Word(7)])], vec![]]);
}

#[test]
fn many_new_topics_are_announced_together_and_soon() {
    let mut world = World::mesh(2);
    world.start();
    world.take_told();
    world.sent.clear();
    for topic in 0..900 {
        world.cores[1].want(topic, world.now);
        if topic % 300 == 0 {
            world.pump(1);
        }
    }
    world.pass(10 * MS);
    world.take_told();
    world.ring(0, 899);
    assert_eq!(world.take_told()[1], [Action::Tidings(vec![Word(899)])]);
    let pings = world.kinds().iter().filter(|k| **k == 4).count();
    assert!(pings <= 4, "{pings}");
}

#[test]
fn interest_that_nobody_confirms_is_rechecked_after_a_second() {
    let mut world = World::mesh(2);
    world.start();
    world.take_told();
    world.lose = true;
    world.cores[1].want(7, world.now);
    world.pass(999 * MS);
    assert_eq!(world.take_told(), [vec![], vec![]]);
    world.pass(2 * MS);
    assert_eq!(world.take_told()[1], [Action::Recheck("interest announced")]);
}

#[test]
fn a_peer_that_stops_answering_degrades_and_the_last_one_isolates() {
    let mut world = World::mesh(3);
    world.start();
    world.pass(S);
    assert_eq!(world.cores[0].state(), HearingState::Connected);
    world.take_told();
    world.cores[2].up = false;
    world.pass(20 * S);
    assert_eq!(world.cores[0].state(), HearingState::Degraded);
    let silent =
        |world: &World| world.told[0].iter().filter(|a| **a == Action::Recheck("peer silent")).count();
    assert_eq!(silent(&world), 1, "{:?}", world.told[0]);
    world.cores[1].up = false;
    world.pass(20 * S);
    assert_eq!(world.cores[0].state(), HearingState::Isolated);
    assert_eq!(silent(&world), 2, "{:?}", world.told[0]);
    (world.cores[1].up, world.cores[2].up) = (true, true);
    world.take_told();
    world.pass(10 * S);
    assert_eq!(world.cores[0].state(), HearingState::Connected);
    assert!(world.told[0].contains(&Action::Recheck("reconnected")), "{:?}", world.told[0]);
}

#[test]
fn a_peer_that_is_this_server_itself_does_not_count() {
    let mut world = World::mesh(2);
    world.start();
    let now = world.now;
    let list = Shape::Peers(vec!["self".into(), "other".into()]);
    let mut core = Core::<Word>::new(BellOptions::default(), Source::Udp, list, 1_024, now, Arc::default());
    let mut out = Vec::new();
    core.event(now, Event::Up, &mut out);
    core.pump(now, &mut out);
    let Some(Action::Do(Job::Send { to: Destination::Peer(0), frames })) = out.first() else {
        panic!("{out:?}")
    };
    core.event(now, Event::Frame { from: None, bytes: frames[0].clone() }, &mut Vec::new());
    assert_eq!(core.status(now).peers.len(), 1);
    assert_eq!(core.status(now).dropped.own, 1);
    core.ring(Word(1), now);
    out.clear();
    core.pump(now, &mut out);
    assert!(
        out.iter().all(|a| matches!(a, Action::Do(Job::Send { to: Destination::Peer(1), .. }))),
        "{out:?}"
    );
}

#[test]
fn frames_for_another_start_of_this_server_are_heard_but_not_numbered() {
    let mut world = World::mesh(2);
    world.start();
    world.take_told();
    let me = world.cores[0].me;
    let frame = |to, sequence, word: u64| {
        let body = Body::Hints(Bytes::copy_from_slice(&word.to_be_bytes()));
        let bytes = Frame { sender: 77, to, sequence, body }.encode();
        Event::Frame { from: Some(SocketAddr::from(([127, 0, 0, 1], 2))), bytes }
    };
    let heard = |word| Action::Tidings(vec![Word(word)]);
    world.event(0, frame(12_345, 900, 1));
    assert_eq!(world.take_told()[0], [Action::Recheck("new peer"), heard(1)]);
    world.event(0, frame(me, 5, 2));
    assert_eq!(world.take_told()[0], [Action::Recheck("new peer"), heard(2)], "numbered from here on");
    world.event(0, frame(12_345, 901, 3));
    world.event(0, frame(me, 6, 4));
    world.pass(100 * MS);
    assert_eq!(world.take_told()[0], [heard(3), heard(4)]);
}

#[test]
fn garbage_is_one_advice_to_recheck() {
    let mut world = World::broadcast(1);
    world.start();
    world.event(0, Event::Garbage);
    world.event(0, Event::Frame { from: None, bytes: Bytes::from_static(b"nonsense") });
    assert_eq!(world.take_told()[0], [Action::Recheck("not understood"), Action::Recheck("not understood")]);
    assert_eq!(world.cores[0].status(world.now).dropped.malformed, 2);
}

#[test]
fn whatever_is_lost_doubled_or_reordered_is_heard_or_rechecked() {
    let mut random = fastrand::Rng::with_seed(3);
    for round in 0..50 {
        let mut world = World::broadcast(2);
        world.start();
        world.take_told();
        let mut held: Vec<Bytes> = Vec::new();
        let mut rechecked = false;
        let mut heard = std::collections::HashSet::new();
        for n in 0..300 {
            let now = world.now;
            world.cores[0].ring(Word(n), now);
            let mut out = Vec::new();
            world.cores[0].pump(now, &mut out);
            for action in out {
                let Action::Do(Job::Send { frames, .. }) = action else { continue };
                held.extend(frames.into_iter().filter(|_| random.u8(..) > 20));
                world.cores[0].event(now, Event::Sent(true), &mut Vec::new());
            }
            random.shuffle(&mut held);
            if random.bool()
                && let Some(bytes) = held.pop()
            {
                world.event(1, Event::Frame { from: None, bytes: bytes.clone() });
                world.event(1, Event::Frame { from: None, bytes });
            }
            world.now += Duration::from_millis(random.u64(0..7));
        }
        for bytes in held {
            world.event(1, Event::Frame { from: None, bytes });
        }
        world.pass(2 * S);
        for action in world.told[1].drain(..) {
            match action {
                Action::Tidings(tidings) => {
                    for tiding in tidings {
                        assert!(heard.insert(tiding), "round {round}: {tiding:?} came twice");
                    }
                }
                Action::Recheck("gap") => rechecked = true,
                other => panic!("round {round}: {other:?}"),
            }
        }
        assert!(rechecked || heard.len() == 300, "round {round}: {}", heard.len());
    }
}
