//! Runs one carrier: passes events and time into its [`Core`], carries out what comes of it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use crate::atomic::AtomicU64;
use crate::core::{Action, Core};
use crate::hint::{Heard, Hearing, HearingState, Source, Tiding};
use crate::status::add;
use crate::transport::{Event, Job};

/// How soon to try again to hand over what nobody took.
const AGAIN: Duration = Duration::from_millis(20);
/// Longest time for saying goodbye.
const GOODBYE: Duration = Duration::from_secs(1);

/// What is known about all carriers together.
#[derive(Debug)]
pub(crate) struct Board {
    states: Mutex<(Vec<HearingState>, HearingState)>,
    lapses: AtomicU64,
}

impl Board {
    pub(crate) fn new(carriers: usize) -> Self {
        let states = (vec![HearingState::Isolated; carriers], HearingState::Isolated);
        Self { states: Mutex::new(states), lapses: AtomicU64::new(0) }
    }

    pub(crate) fn hearing(&self) -> Hearing {
        let states = self.states.lock();
        let covered = states.0.contains(&HearingState::Connected);
        Hearing { state: states.1, covered, lapses: self.lapses.load(Ordering::Acquire) }
    }

    /// Note a carrier's state. Whether the overall state changed.
    fn note(&self, place: usize, state: HearingState) -> bool {
        let mut states = self.states.lock();
        let covered = states.0.contains(&HearingState::Connected);
        states.0[place] = state;
        let lost_or_won = covered != states.0.contains(&HearingState::Connected);
        let all = |s: HearingState| states.0.iter().all(|x| *x == s);
        let overall = if all(HearingState::Connected) {
            HearingState::Connected
        } else if all(HearingState::Isolated) {
            HearingState::Isolated
        } else {
            HearingState::Degraded
        };
        std::mem::replace(&mut states.1, overall) != overall || lost_or_won
    }

    fn lapse(&self) {
        self.lapses.fetch_add(1, Ordering::AcqRel);
    }
}

/// One carrier, as the bell sees it.
#[derive(Debug)]
pub(crate) struct Seat<T> {
    pub(crate) core: Mutex<Core<T>>,
    pub(crate) wake: Notify,
}

/// Hands over what was heard: re-checks joined, nothing waited for.
struct Outlet<T> {
    source: Source,
    heard: mpsc::Sender<Heard<T>>,
    board: Arc<Board>,
    every: Duration,
    /// A re-check to be told, not before the time below.
    recheck: Option<&'static str>,
    not_before: Instant,
    health: bool,
}

impl<T> Outlet<T> {
    fn tidings(&mut self, tidings: Vec<T>) {
        let heard = Heard::Tidings { source: self.source, tidings };
        if let Err(mpsc::error::TrySendError::Full(_)) = self.heard.try_send(heard) {
            self.recheck("overflow");
        }
    }

    fn recheck(&mut self, reason: &'static str) {
        self.board.lapse();
        self.recheck.get_or_insert(reason);
    }

    /// Hand over what may be handed over now.
    fn pump(&mut self, now: Instant) {
        if let Some(reason) = self.recheck.filter(|_| self.not_before <= now) {
            let told = self.tell(Heard::Recheck { source: self.source, reason });
            self.not_before = now + if told { self.every } else { AGAIN };
            if told {
                self.recheck = None;
            }
        }
        if self.health {
            self.health = !self.tell(Heard::Health(self.board.hearing()));
        }
    }

    fn tell(&self, heard: Heard<T>) -> bool {
        !matches!(self.heard.try_send(heard), Err(mpsc::error::TrySendError::Full(_)))
    }

    fn next_due(&self, now: Instant) -> Option<Instant> {
        let health = self.health.then(|| now + AGAIN);
        [self.recheck.map(|_| self.not_before), health].into_iter().flatten().min()
    }
}

/// Everything a driver needs.
pub(crate) struct Driver<T> {
    pub(crate) place: usize,
    pub(crate) seat: Arc<Seat<T>>,
    pub(crate) board: Arc<Board>,
    pub(crate) heard: mpsc::Sender<Heard<T>>,
    pub(crate) jobs: mpsc::Sender<Job>,
    pub(crate) events: mpsc::Receiver<Event>,
    pub(crate) transport: JoinHandle<()>,
    pub(crate) cancel: CancellationToken,
}

enum Woken {
    Event(Option<Event>),
    Time,
    End,
}

impl<T: Tiding> Driver<T> {
    pub(crate) async fn run(mut self) {
        let (source, every) = {
            let core = self.seat.core.lock();
            (core.source, core.options.recheck_every)
        };
        let mut outlet = Outlet {
            source,
            heard: self.heard.clone(),
            board: Arc::clone(&self.board),
            every,
            recheck: None,
            not_before: Instant::now(),
            health: false,
        };
        let mut ended = false;
        loop {
            match self.woken(&outlet, ended).await {
                Woken::End => break,
                Woken::Time => self.step(None, &mut outlet),
                Woken::Event(Some(event)) => self.step(Some(event), &mut outlet),
                Woken::Event(None) => {
                    tracing::error!(carrier = %source, "the transport ended by itself");
                    ended = true;
                    self.step(Some(Event::Down), &mut outlet);
                }
            }
        }
        self.goodbye().await;
    }

    async fn woken(&mut self, outlet: &Outlet<T>, ended: bool) -> Woken {
        let now = Instant::now();
        let due = self.seat.core.lock().next_due(now);
        let due = [due, outlet.next_due(now)].into_iter().flatten().min();
        let sleep = async {
            match due {
                Some(at) => sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = self.cancel.cancelled() => Woken::End,
            event = self.events.recv(), if !ended => Woken::Event(event),
            () = self.seat.wake.notified() => Woken::Time,
            () = sleep => Woken::Time,
        }
    }

    fn step(&mut self, event: Option<Event>, outlet: &mut Outlet<T>) {
        let now = Instant::now();
        let mut actions = Vec::new();
        let state = {
            let mut core = self.seat.core.lock();
            if let Some(event) = event {
                core.event(now, event, &mut actions);
            }
            core.pump(now, &mut actions);
            core.state()
        };
        for action in actions {
            match action {
                Action::Do(job) => self.start(job),
                Action::Tidings(tidings) => outlet.tidings(tidings),
                Action::Recheck(reason) => outlet.recheck(reason),
                Action::Lapse => self.board.lapse(),
            }
        }
        outlet.health |= self.board.note(self.place, state);
        outlet.pump(now);
    }

    fn start(&self, job: Job) {
        let answered = matches!(job, Job::Send { .. });
        if self.jobs.try_send(job).is_err() && answered {
            let mut core = self.seat.core.lock();
            if core.echo {
                core.event(Instant::now(), Event::Sent(false), &mut Vec::new());
            } else {
                add(&core.counters.send_failed);
            }
        }
    }

    async fn goodbye(self) {
        self.board.note(self.place, HearingState::Isolated);
        let mut actions = Vec::new();
        self.seat.core.lock().goodbye(&mut actions);
        for action in actions {
            if let Action::Do(job) = action {
                self.start(job);
            }
        }
        let Self { jobs, mut events, mut transport, .. } = self;
        drop(jobs);
        // A transport that waits for room for its events would never come to its last job.
        let last = async { while events.recv().await.is_some() {} };
        let ending = async { tokio::join!(last, &mut transport) };
        if timeout(GOODBYE, ending).await.is_err() {
            transport.abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn outlet(room: usize) -> (Outlet<u8>, mpsc::Receiver<Heard<u8>>) {
        let (heard, receiver) = mpsc::channel(room);
        let outlet = Outlet {
            source: Source::Udp,
            heard,
            board: Arc::new(Board::new(1)),
            every: 100 * MS,
            recheck: None,
            not_before: Instant::now(),
            health: false,
        };
        (outlet, receiver)
    }

    fn recheck(reason: &'static str) -> Heard<u8> {
        Heard::Recheck { source: Source::Udp, reason }
    }

    #[tokio::test]
    async fn rechecks_close_together_become_one_and_none_is_forgotten() {
        let (mut outlet, mut heard) = outlet(10);
        let now = Instant::now();
        outlet.recheck("gap");
        outlet.pump(now);
        assert_eq!(heard.try_recv(), Ok(recheck("gap")), "the first at once");
        for _ in 0..5 {
            outlet.recheck("new peer");
            outlet.pump(now + 50 * MS);
        }
        assert!(heard.try_recv().is_err());
        assert_eq!(outlet.next_due(now + 50 * MS), Some(now + 100 * MS));
        outlet.pump(now + 100 * MS);
        assert_eq!(heard.try_recv(), Ok(recheck("new peer")));
        assert!(heard.try_recv().is_err());
        assert_eq!(outlet.next_due(now + 100 * MS), None);
        assert_eq!(outlet.board.hearing().lapses, 6, "each is counted");
    }

    #[tokio::test]
    async fn what_finds_no_room_becomes_a_recheck_when_there_is_room() {
        let (mut outlet, mut heard) = outlet(1);
        let now = Instant::now();
        outlet.tidings(vec![1]);
        outlet.tidings(vec![2]);
        outlet.pump(now);
        assert_eq!(outlet.board.hearing().lapses, 1);
        let again = outlet.next_due(now).expect("it tries again");
        assert_eq!(heard.try_recv(), Ok(Heard::Tidings { source: Source::Udp, tidings: vec![1] }));
        outlet.pump(again);
        assert_eq!(heard.try_recv(), Ok(recheck("overflow")));
    }

    #[test]
    fn the_overall_state_is_that_of_all_carriers_together() {
        use HearingState::{Connected, Degraded, Isolated};
        let board = Board::new(2);
        let note = |place, state| (board.note(place, state), board.hearing().state);
        assert_eq!(note(0, Connected), (true, Degraded));
        assert_eq!(note(0, Connected), (false, Degraded));
        assert_eq!(note(1, Connected), (true, Connected));
        assert_eq!(note(1, Degraded), (true, Degraded));
        assert_eq!(note(1, Isolated), (false, Degraded));
        assert_eq!(note(0, Isolated), (true, Isolated));
    }
}
