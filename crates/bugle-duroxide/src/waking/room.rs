//! The waiting room: who waits for what, and what happened since they last looked.
//!
//! Fetches that want the same form a group. For one thing to do one of a group gets up and looks; if it leaves before it
//! has looked, the next one gets up in its stead. What nobody got up for is counted. A fetch notes the count, looks, and
//! sits down only if the count is still the same, so that nothing is lost between looking and sitting down. No token is
//! handed out that could be lost: a look that found nothing holds until the count moves, whoever made it.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bugle_wake::Timers;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use crate::planted::race;
use crate::waking::counters::{Counters, count};
use crate::waking::work::{Queue, Want, Work};

/// Above so many groups, those without anybody in them are forgotten.
const GROUPS: usize = 64;

/// When to look again for something that others were just taking; doubles.
const CONTENDED: Duration = Duration::from_millis(1);

/// Why somebody got up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    Local,
    Remote,
    Timed,
    Chained,
    Recheck,
}

/// How sitting ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sat {
    /// There is reason to look.
    Woken,
    /// The time is over.
    TimeOver,
}

/// The room.
pub(crate) struct Room {
    groups: Mutex<Groups>,
    /// When to look again without being told, by group.
    pub(crate) alarms: Timers<u32>,
    pub(crate) counters: Arc<Counters>,
    /// Called when somebody got up for an event of this node and left without a look, and nobody else sits here.
    forsaken: Box<dyn Fn(Queue) + Send + Sync>,
    /// How much earlier than an instant to get up for it.
    grace: Duration,
}

#[derive(Default)]
struct Groups {
    all: Vec<Group>,
    next: u32,
}

struct Group {
    id: u32,
    want: Want,
    /// Fetches under way, sitting or not.
    fetches: usize,
    /// Events so far that nobody got up for.
    events: u64,
    /// The count before a look that found nothing.
    empty: Option<u64>,
    due: Option<Instant>,
    /// How often it was told of an instant.
    told: u64,
    /// Looks in a row that found others taking what there was.
    contended: u32,
    sitting: VecDeque<Arc<Waiter>>,
}

struct Waiter {
    owner: Option<String>,
    woken: OnceLock<Cause>,
    up: Notify,
}

impl Room {
    pub(crate) fn new(
        counters: Arc<Counters>,
        grace: Duration,
        forsaken: impl Fn(Queue) + Send + Sync + 'static,
    ) -> Self {
        let (groups, alarms, forsaken) = (Mutex::default(), Timers::default(), Box::new(forsaken));
        Self { groups, alarms, counters, forsaken, grace }
    }

    /// Set a group's alarm: early by the grace, or on time once it is too late for that.
    fn set_alarm(&self, id: u32, due: Instant) {
        let early = due.checked_sub(self.grace).filter(|at| *at > Instant::now());
        self.alarms.set(id, early.unwrap_or(due));
    }

    /// A fetch begins.
    pub(crate) fn enter(self: &Arc<Self>, want: Want, owner: Option<&str>) -> Place {
        let mut groups = self.groups.lock();
        let id = match groups.all.iter_mut().find(|g| g.want == want) {
            Some(group) => {
                group.fetches += 1;
                group.id
            }
            None => groups.add(want, &self.alarms),
        };
        drop(groups);
        Place { room: Arc::clone(self), id, owner: owner.map(str::to_owned), ticket: None, looking: false }
    }

    /// There are `units` of this to do: get as many up in every group that may take it. Answers how many got up, in the
    /// group where the fewest did.
    pub(crate) fn wake(&self, work: Work, units: u64, cause: Cause) -> u64 {
        let mut groups = self.groups.lock();
        let fewest = groups.all.iter_mut().filter(|g| g.want.takes(work)).map(|group| {
            let mut woken = 0;
            while woken < units && group.one_up(cause, &self.counters) {
                woken += 1;
            }
            // Whoever got up looks. What is left is for the next fetch that comes.
            if woken < units {
                group.events += 1;
            }
            woken
        });
        fewest.min().unwrap_or(0)
    }

    /// Something may have been missed: everybody looks once.
    pub(crate) fn rouse(&self) {
        count(&self.counters.rechecks);
        let mut groups = self.groups.lock();
        for group in &mut groups.all {
            group.events += 1;
            while group.one_up(Cause::Recheck, &self.counters) {}
        }
    }

    /// There will be something in this queue at `at`.
    pub(crate) fn expect(&self, queue: Queue, at: Instant) {
        let mut groups = self.groups.lock();
        for group in groups.all.iter_mut().filter(|g| g.want.queue() == queue) {
            group.told += 1;
            if group.due.is_none_or(|due| at < due) {
                group.due = Some(at);
                self.set_alarm(group.id, at);
            }
        }
    }

    /// Alarms went off.
    pub(crate) fn alarmed(&self, ids: &[u32]) {
        let mut groups = self.groups.lock();
        for group in groups.all.iter_mut().filter(|g| ids.contains(&g.id)) {
            // Whoever looks learns the next instant; until then nobody knows it.
            group.due = None;
            group.empty = None;
            if !group.one_up(Cause::Timed, &self.counters) {
                group.events += 1;
            }
        }
    }

    /// Whether somebody sits here who would take this.
    pub(crate) fn awaits(&self, work: Work) -> bool {
        self.groups.lock().all.iter().any(|g| g.want.takes(work) && !g.sitting.is_empty())
    }

    /// How many sit here.
    pub(crate) fn waiting(&self) -> u64 {
        self.groups.lock().all.iter().map(|g| g.sitting.len() as u64).sum()
    }

    /// Something is ready that only these owners may take. Whether all of them sat here.
    pub(crate) fn call(&self, owners: &[String]) -> bool {
        let mut groups = self.groups.lock();
        let mut found = 0;
        for group in &mut groups.all {
            let (called, rest): (VecDeque<_>, VecDeque<_>) = std::mem::take(&mut group.sitting)
                .into_iter()
                .partition(|w| w.owner.as_ref().is_some_and(|o| owners.contains(o)));
            group.sitting = rest;
            found += called.len();
            for waiter in called {
                waiter.get_up(Cause::Chained, &self.counters);
            }
        }
        found >= owners.len()
    }
}

impl Groups {
    fn add(&mut self, want: Want, alarms: &Timers<u32>) -> u32 {
        if self.all.len() >= GROUPS {
            self.all.retain(|g| {
                if g.fetches == 0 {
                    alarms.clear(&g.id);
                }
                g.fetches > 0
            });
        }
        self.next = self.next.wrapping_add(1);
        let id = self.next;
        self.all.push(Group {
            id,
            want,
            fetches: 1,
            events: 0,
            empty: None,
            due: None,
            told: 0,
            contended: 0,
            sitting: VecDeque::new(),
        });
        id
    }

    fn get(&mut self, id: u32) -> Option<&mut Group> {
        self.all.iter_mut().find(|g| g.id == id)
    }
}

impl Group {
    fn one_up(&mut self, cause: Cause, counters: &Counters) -> bool {
        self.sitting.pop_front().map(|waiter| waiter.get_up(cause, counters)).is_some()
    }
}

impl Waiter {
    fn get_up(&self, cause: Cause, counters: &Counters) {
        count(match cause {
            Cause::Local => &counters.wakes_local,
            Cause::Remote => &counters.wakes_remote,
            Cause::Timed => &counters.wakes_timed,
            Cause::Chained => &counters.wakes_chained,
            Cause::Recheck => &counters.wakes_recheck,
        });
        let _ = self.woken.set(cause);
        self.up.notify_one();
    }
}

/// One fetch's place in the room.
pub(crate) struct Place {
    room: Arc<Room>,
    id: u32,
    owner: Option<String>,
    /// Got up and has not looked yet.
    ticket: Option<Cause>,
    /// A look is under way whose answer nobody has drawn conclusions from.
    looking: bool,
}

/// What had happened in a group when a look began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    events: u64,
    told: u64,
}

impl Place {
    fn with<R>(&self, f: impl FnOnce(&mut Group, &Room) -> R) -> R {
        let mut groups = self.room.groups.lock();
        let group = groups.get(self.id).expect("a group stays while a fetch is in it");
        f(group, &self.room)
    }

    /// What has happened so far, to note before a look.
    pub(crate) fn seen(&self) -> Seen {
        self.with(|group, _| Seen { events: group.events, told: group.told })
    }

    /// A look begins. Until [`Place::conclude`] somebody else will have to look if this one leaves.
    pub(crate) fn look(&mut self) {
        self.looking = true;
    }

    /// The look was answered. Why this one had got up, if it had.
    pub(crate) fn conclude(&mut self) -> Option<Cause> {
        self.looking = false;
        self.ticket.take()
    }

    /// Whether a look found nothing and nothing happened since.
    pub(crate) fn is_known_empty(&self) -> bool {
        self.with(|group, _| group.empty == Some(group.events))
    }

    /// After a look before which `seen` had happened there is nothing left to take. `due`: when to look again. `contended`:
    /// something is there, but others were taking it; when that is over is not known, so look again soon, and less soon
    /// every time. `settled`: nothing is ready that another of the group could take.
    pub(crate) fn found_no_more(&self, seen: Seen, due: Option<Instant>, contended: bool, settled: bool) {
        self.with(|group, room| {
            group.contended = if contended { group.contended + 1 } else { 0 };
            let soon = contended.then(|| Instant::now() + CONTENDED * (1 << group.contended.min(8)));
            let due = [due, soon].into_iter().flatten().min();
            // What the database says replaces what was known before the look, unless something happened meanwhile.
            let same = Seen { events: group.events, told: group.told } == seen;
            let due = if same { due } else { [group.due, due].into_iter().flatten().min() };
            if settled && group.events == seen.events {
                group.empty = Some(seen.events);
            }
            if group.due != due {
                group.due = due;
                match due {
                    Some(at) => room.set_alarm(group.id, at),
                    None => room.alarms.clear(&group.id),
                }
            }
        });
    }

    /// A look took something and there is more: the next fetch looks. If this one `woken` was got up, one more gets up;
    /// whether there was one, if one was needed.
    pub(crate) fn found_more(&self, woken: bool) -> bool {
        self.with(|group, room| {
            group.empty = None;
            group.contended = 0;
            !woken || group.one_up(Cause::Chained, &room.counters)
        })
    }

    /// Sit down unless something happened since `seen`, and wait for a reason to look, no longer than `until`.
    pub(crate) async fn sit(&mut self, seen: Seen, until: Instant) -> Sat {
        let waiter =
            Arc::new(Waiter { owner: self.owner.clone(), woken: OnceLock::new(), up: Notify::new() });
        let sitting = self.with(|group, _| {
            let sits = group.events == seen.events || race("sit down whatever happened");
            if sits {
                group.sitting.push_back(Arc::clone(&waiter));
            }
            sits
        });
        if !sitting {
            return Sat::Woken;
        }
        // Leaves the seat however this ends, also when the fetch is dropped here.
        let mut seat = Seat { place: self, waiter: &waiter };
        tokio::select! {
            () = waiter.up.notified() => {}
            () = sleep_until(until) => {}
        }
        if seat.stand_up() { Sat::Woken } else { Sat::TimeOver }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // What a look took whose answer nobody saw comes free when its lease ends, and only a look tells when.
        let mut ticket = self.ticket.take().or(self.looking.then_some(Cause::Recheck));
        if race("leave with the ticket") {
            ticket = None;
        }
        let forsaken = self.with(|group, room| {
            group.fetches -= 1;
            let cause = ticket?;
            // It leaves without having looked: the next one must.
            if group.one_up(cause, &room.counters) {
                return None;
            }
            group.events += 1;
            (cause == Cause::Local).then(|| group.want.queue())
        });
        if let Some(queue) = forsaken {
            // It may have been for another group too, which was not got up for it.
            self.room.expect(queue, Instant::now());
            (self.room.forsaken)(queue);
        }
    }
}

struct Seat<'a> {
    place: &'a mut Place,
    waiter: &'a Arc<Waiter>,
}

impl Seat<'_> {
    /// Leave the seat; whether somebody called.
    fn stand_up(&mut self) -> bool {
        let waiter = self.waiter;
        self.place.with(|group, _| group.sitting.retain(|w| !Arc::ptr_eq(w, waiter)));
        if let Some(cause) = waiter.woken.get() {
            self.place.ticket = Some(*cause);
        }
        self.place.ticket.is_some()
    }
}

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        self.stand_up();
    }
}

#[cfg(test)]
#[path = "room_tests.rs"]
mod tests;
