//! One carrier's conduct, without any input or output: what to send when, what to tell whom.
//!
//! The driver passes in what happened and the time, and carries the actions out. A carrier that reaches everybody has
//! one station, proven by its own frames coming back; one with peers has a station for each, proven by its answers.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use crate::frame::{Body, Frame, HEADER, Ping};
use crate::hint::{HearingState, Source, Tiding};
use crate::interest::Interest;
use crate::options::BellOptions;
use crate::outbox::Outbox;
use crate::peers::Peers;
use crate::planted::race;
use crate::pulse::Pulse;
use crate::status::{CarrierStatus, Counters, PeerStatus, add, get};
use crate::transport::{Destination, Event, Job, Shape};

/// A peer is silent after so many ping intervals.
const SILENT: f64 = 2.5;
/// Longest wait before trying to publish again.
const BACKOFF: Duration = Duration::from_secs(5);

/// Something for the driver to do.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Action<T> {
    Do(Job),
    Tidings(Vec<T>),
    Recheck(&'static str),
    /// Something may be missed from now on; the re-check follows when it is over.
    Lapse,
}

/// One way to send.
#[derive(Debug)]
pub(crate) struct Station {
    pub(crate) to: Destination,
    pub(crate) name: String,
    /// Who answered from there; 0: nobody yet.
    pub(crate) sender: u64,
    /// It is this server itself.
    pub(crate) own: bool,
    /// Frames with hints sent to it.
    pub(crate) sequence: u64,
    pub(crate) trailing: Option<Instant>,
    pub(crate) pulse: Pulse,
    pub(crate) greeted: bool,
    /// Version of our digest that it has.
    pub(crate) confirmed: u64,
    pub(crate) reset: Option<Instant>,
    pub(crate) reset_wait: Duration,
    /// Has ever answered.
    pub(crate) proven: bool,
}

/// Whether hints are worth sending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gate {
    Open,
    /// Not known yet.
    Waiting,
    /// Nobody is there.
    Closed,
}

/// Growth of what is wanted here, on its way to the peers.
#[derive(Debug)]
pub(crate) struct Announcing {
    pub(crate) version: u64,
    /// When to advise a re-check without waiting for them any longer; `None`: done.
    pub(crate) until: Option<Instant>,
}

#[derive(Debug)]
pub(crate) struct Core<T> {
    pub(crate) me: u64,
    pub(crate) options: BellOptions,
    pub(crate) source: Source,
    /// Everybody hears everything, this server itself too.
    pub(crate) echo: bool,
    pub(crate) room: usize,
    pub(crate) stations: Vec<Station>,
    pub(crate) peers: Peers,
    pub(crate) outbox: Outbox<T>,
    pub(crate) interest: Interest,
    pub(crate) announcing: Option<Announcing>,
    last_announced: Option<Instant>,
    pub(crate) up: bool,
    pub(crate) ever_up: bool,
    /// Jobs under way, and whether each had hints.
    pub(crate) in_flight: std::collections::VecDeque<bool>,
    failures: u32,
    /// Answers to the greeting may still come: keep hints until then.
    pub(crate) hold: Option<Instant>,
    pub(crate) counters: Arc<Counters>,
}

impl<T: Tiding> Core<T> {
    pub(crate) fn new(
        options: BellOptions,
        source: Source,
        shape: Shape,
        max_frame: usize,
        now: Instant,
        counters: Arc<Counters>,
    ) -> Self {
        let echo = shape == Shape::Everyone;
        let every = if echo { options.ping } else { options.udp_ping };
        let station = |to, name| Station {
            to,
            name,
            sender: 0,
            own: false,
            sequence: 0,
            trailing: None,
            pulse: Pulse::new(every, options.ping_retry, options.ping_timeout, now),
            greeted: false,
            confirmed: 0,
            reset: None,
            reset_wait: options.ping_timeout * 3,
            proven: false,
        };
        let stations = match shape {
            Shape::Everyone => vec![station(Destination::Everyone, String::new())],
            Shape::Peers(names) => {
                names.into_iter().enumerate().map(|(i, n)| station(Destination::Peer(i), n)).collect()
            }
        };
        Self {
            me: fastrand::u64(1..),
            source,
            echo,
            room: max_frame.saturating_sub(HEADER),
            stations,
            peers: Peers::new(every.mul_f64(SILENT), options.reorder),
            outbox: Outbox::new(options.coalesce, options.max_pending),
            interest: Interest::new(options.linger),
            announcing: None,
            last_announced: None,
            up: false,
            ever_up: false,
            in_flight: Default::default(),
            failures: 0,
            hold: None,
            counters,
            options,
        }
    }

    /// A hint for the others. Whether the driver must look.
    pub(crate) fn ring(&mut self, tiding: T, now: Instant) -> bool {
        if race("drop what comes while a frame is under way") && self.busy() {
            return false;
        }
        self.gate(now) != Gate::Closed && self.outbox.add(tiding)
    }

    /// Whether the driver must look.
    pub(crate) fn want(&mut self, topic: u64, now: Instant) -> bool {
        if self.echo || !self.interest.want(topic) || self.stations.iter().all(|s| s.own) {
            return false;
        }
        let version = self.interest.version();
        match &mut self.announcing {
            Some(announcing) => {
                announcing.version = version;
                announcing.until.get_or_insert(now + self.options.confirm);
            }
            None => self.announcing = Some(Announcing { version, until: Some(now + self.options.confirm) }),
        }
        let at = match self.last_announced {
            // Under way already: this one goes with it.
            Some(next) if next > now => next,
            Some(last) => now.max(last + self.options.coalesce),
            None => now,
        };
        self.last_announced = Some(at);
        self.stations.iter_mut().for_each(|s| s.pulse.hurry(at));
        true
    }

    pub(crate) fn unwant(&mut self, topic: u64, now: Instant) {
        if !self.echo {
            self.interest.unwant(topic, now);
        }
    }

    /// A ping to ride on somebody else's statement, when one is due soon.
    pub(crate) fn take_ping(&mut self, now: Instant) -> Option<Bytes> {
        let station = self.stations.first_mut().filter(|_| self.echo && self.up)?;
        if !station.pulse.healthy() || !station.pulse.is_due_soon(now) {
            return None;
        }
        let nonce = fastrand::u64(..);
        station.pulse.sent(nonce, now);
        let ping = Ping { hello: false, nonce, name: String::new(), version: 0, digest: None };
        let frame = Frame { sender: self.me, to: 0, sequence: station.sequence, body: Body::Ping(ping) };
        add(&self.counters.sent);
        Some(frame.encode())
    }

    /// Something happened to the transport.
    pub(crate) fn event(&mut self, now: Instant, event: Event, out: &mut Vec<Action<T>>) {
        match event {
            Event::Up => self.up(now, out),
            Event::Down => self.down(now, out),
            Event::Frame { from, bytes } => self.frame(now, from, &bytes, out),
            Event::Garbage => {
                self.counters.dropped(crate::status::DropReason::Malformed);
                out.push(Action::Recheck("not understood"));
            }
            Event::Sent(true) => {
                self.in_flight.pop_front();
                self.failures = 0;
            }
            Event::Sent(false) => self.failed(now),
        }
    }

    fn up(&mut self, now: Instant, out: &mut Vec<Action<T>>) {
        if self.ever_up {
            add(&self.counters.reconnects);
            out.push(Action::Recheck("reconnected"));
        }
        (self.up, self.ever_up, self.hold) = (true, true, None);
        for station in &mut self.stations {
            station.pulse.restart(now);
            station.greeted = false;
        }
    }

    fn down(&mut self, now: Instant, out: &mut Vec<Action<T>>) {
        self.up = false;
        let mut news = false;
        for station in &mut self.stations {
            news |= station.pulse.lost(now);
        }
        if news && self.ever_up {
            out.push(Action::Lapse);
        }
    }

    fn failed(&mut self, now: Instant) {
        add(&self.counters.send_failed);
        let wait = Duration::from_millis(100) * (1 << self.failures.min(6));
        self.failures += 1;
        self.outbox.hold_until(now + wait.min(BACKOFF));
        // It may or may not have reached the others: let them look at everything when it works again.
        if self.in_flight.pop_front() == Some(true) {
            self.outbox.everything();
        }
    }

    pub(crate) fn state(&self) -> HearingState {
        let mut others = self.stations.iter().filter(|s| !s.own).map(|s| s.pulse.healthy());
        match others.next().filter(|_| self.up) {
            None => HearingState::Isolated,
            Some(first) => match (first, others.fold((first, first), |(all, any), h| (all & h, any | h))) {
                (_, (true, _)) => HearingState::Connected,
                (_, (false, true)) => HearingState::Degraded,
                (_, (false, false)) => HearingState::Isolated,
            },
        }
    }

    pub(crate) fn status(&self, now: Instant) -> CarrierStatus {
        let silent = |at: Instant| now.saturating_duration_since(at);
        let heard = self.peers.iter().map(|(id, peer)| PeerStatus {
            name: if peer.name.is_empty() { format!("{id:016x}") } else { peer.name.clone() },
            healthy: true,
            round_trip: None,
            silent_for: Some(silent(peer.heard)),
        });
        let stations = self.stations.iter().filter(|s| !s.own).map(|s| PeerStatus {
            name: s.name.clone(),
            healthy: s.pulse.healthy(),
            round_trip: s.pulse.round_trip(),
            silent_for: self.peers.get(s.sender).map(|p| silent(p.heard)),
        });
        CarrierStatus {
            source: self.source,
            state: self.state(),
            peers: if self.echo { heard.collect() } else { stations.collect() },
            round_trip: self.stations.iter().filter_map(|s| s.pulse.round_trip()).max(),
            sent: get(&self.counters.sent),
            received: get(&self.counters.received),
            send_failed: get(&self.counters.send_failed),
            dropped: self.counters.all_dropped(),
            gaps: get(&self.counters.gaps),
            reconnects: get(&self.counters.reconnects),
        }
    }
}

#[cfg(test)]
#[path = "core_tests.rs"]
pub(crate) mod tests;
