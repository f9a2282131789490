//! What a carrier has to do as time passes: hints, pings, trailing frames. Second part of [`Core`].

use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use crate::core::{Action, Core, Gate, Station};
use crate::frame::{Body, Frame, Ping};
use crate::hint::{Source, Tiding};
use crate::outbox::{Batch, pack};
use crate::planted::race;
use crate::status::add;
use crate::transport::{Destination, Job};

/// What a peer wants is believed for so many ping intervals.
const DIGEST: u32 = 3;
/// Longest time between two attempts to connect what does not answer anew.
const RESET: Duration = Duration::from_secs(60);

impl<T: Tiding> Core<T> {
    /// Do what is due.
    pub(crate) fn pump(&mut self, now: Instant, out: &mut Vec<Action<T>>) {
        self.overdue(now, out);
        self.interest.expire(now);
        if let Some(announcing) = &mut self.announcing
            && announcing.until.is_some_and(|until| now >= until)
        {
            // Once more when they do confirm it: until then they may send nothing.
            announcing.until = None;
            if !race("announce an interest and do not look") {
                out.push(Action::Recheck("interest announced"));
            }
        }
        match self.gate(now) {
            Gate::Open => self.flush(now, out),
            Gate::Waiting => {}
            Gate::Closed => self.outbox.clear(),
        }
        self.ping(now, out);
        self.trail(now, out);
    }

    /// When there is something to do again, if nothing happens before.
    pub(crate) fn next_due(&self, now: Instant) -> Option<Instant> {
        let stations = self.stations.iter().filter(|s| !s.own).flat_map(|s| {
            let trailing = s.trailing.filter(|_| !self.busy());
            let reset = s.reset.filter(|_| self.up && s.pulse.failed());
            [self.up.then(|| s.pulse.next_due()), trailing, reset]
        });
        let flush = match self.gate(now) {
            Gate::Open if !self.busy() => self.outbox.due(now),
            _ => None,
        };
        let rest = [
            flush,
            self.peers.next_due(),
            self.interest.next_due(),
            self.announcing.as_ref().and_then(|a| a.until),
            self.hold.filter(|h| *h > now),
        ];
        stations.chain(rest).flatten().min()
    }

    fn overdue(&mut self, now: Instant, out: &mut Vec<Action<T>>) {
        let overdue = self.peers.tick(now);
        if overdue.gaps > 0 && !race("overlook a gap") {
            add(&self.counters.gaps);
            out.push(Action::Recheck("gap"));
        }
        if !overdue.silent.is_empty() {
            for (id, name) in &overdue.silent {
                tracing::info!(carrier = %self.source, peer = %name, id, "a server went silent");
            }
            out.push(Action::Recheck("peer silent"));
        }
        let (up, reset_first) = (self.up, self.options.ping_timeout * 3);
        for station in self.stations.iter_mut().filter(|s| !s.own) {
            if station.pulse.tick(now) {
                out.push(Action::Lapse);
                log_unanswered(self.source, self.echo, station);
            }
            if station.pulse.healthy() {
                (station.reset, station.reset_wait) = (None, reset_first);
            } else if up && station.pulse.failed() {
                let at = *station.reset.get_or_insert(now + station.reset_wait);
                if now >= at {
                    station.reset_wait = (station.reset_wait * 2).min(RESET);
                    station.reset = Some(now + station.reset_wait);
                    out.push(Action::Do(Job::Reset(station.to)));
                }
            }
        }
    }

    pub(crate) fn gate(&self, now: Instant) -> Gate {
        if !self.echo {
            return if self.stations.iter().all(|s| s.own) { Gate::Closed } else { Gate::Open };
        }
        let pulse = &self.stations[0].pulse;
        if !self.peers.is_empty() || pulse.failed() {
            // Who cannot hear must not conclude that nobody is there.
            Gate::Open
        } else if pulse.healthy() && self.hold.is_some_and(|h| now >= h) {
            Gate::Closed
        } else {
            Gate::Waiting
        }
    }

    /// One job at a time where every job is a statement.
    pub(crate) fn busy(&self) -> bool {
        self.echo && !self.in_flight.is_empty()
    }

    fn flush(&mut self, now: Instant, out: &mut Vec<Action<T>>) {
        if self.busy() {
            return;
        }
        let Some(batch) = self.outbox.take(now) else { return };
        let fresh = now.checked_sub(self.options.udp_ping * DIGEST);
        for place in 0..self.stations.len() {
            let station = &self.stations[place];
            if station.own {
                continue;
            }
            let bodies = match &batch {
                Batch::Everything => vec![Body::Recheck],
                Batch::Tidings(all) => {
                    let wanted = self.peers.digest(station.sender, fresh);
                    let mine = all.iter().filter(|t| wanted.is_none_or(|d| d.contains(t.topic())));
                    pack(mine, self.room)
                }
            };
            if !bodies.is_empty() {
                self.stations[place].trailing = Some(now + self.options.trailing);
                self.send(place, bodies, out);
            }
        }
    }

    fn trail(&mut self, now: Instant, out: &mut Vec<Action<T>>) {
        for place in 0..self.stations.len() {
            if self.stations[place].trailing.is_some_and(|at| at <= now) && !self.busy() {
                self.stations[place].trailing = None;
                if self.gate(now) == Gate::Open {
                    self.send(place, vec![Body::Trailing], out);
                }
            }
        }
    }

    fn ping(&mut self, now: Instant, out: &mut Vec<Action<T>>) {
        let due = |s: &Station| !s.own && s.pulse.is_due(now);
        for place in 0..self.stations.len() {
            if !self.up || !due(&self.stations[place]) {
                continue;
            }
            let nonce = fastrand::u64(..);
            let busy = self.busy();
            let station = &mut self.stations[place];
            station.pulse.sent(nonce, now);
            if busy && station.greeted {
                // What is under way will come back and prove the same; if it does not, the time is running already.
                continue;
            }
            let hello = !std::mem::replace(&mut station.greeted, true);
            if hello && self.echo {
                self.hold = Some(now + self.options.trailing);
            }
            let name = if hello { self.options.name.clone() } else { String::new() };
            let digest = (!self.echo).then(|| self.interest.digest());
            let ping = Ping { hello, nonce, name, version: self.interest.version(), digest };
            self.send(place, vec![Body::Ping(ping)], out);
        }
    }

    /// Send in the stream of a station.
    pub(crate) fn send(&mut self, place: usize, bodies: Vec<Body>, out: &mut Vec<Action<T>>) {
        let station = &mut self.stations[place];
        let mut counts = false;
        let mut frames = Vec::with_capacity(bodies.len());
        for body in bodies {
            if body.counts() {
                station.sequence += 1;
                counts = true;
            }
            frames.push(
                Frame { sender: self.me, to: station.sender, sequence: station.sequence, body }.encode(),
            );
        }
        let to = station.to;
        self.enqueue(to, frames, counts, out);
    }

    pub(crate) fn enqueue(
        &mut self,
        to: Destination,
        frames: Vec<Bytes>,
        counts: bool,
        out: &mut Vec<Action<T>>,
    ) {
        self.counters.sent.fetch_add(frames.len() as u64, std::sync::atomic::Ordering::Relaxed);
        if self.echo {
            self.in_flight.push_back(counts);
        }
        out.push(Action::Do(Job::Send { to, frames }));
    }

    /// Whether all peers that answer know what is wanted here.
    pub(crate) fn confirmed(&mut self, out: &mut Vec<Action<T>>) {
        let Some(announcing) = &self.announcing else { return };
        let version = announcing.version;
        if self.stations.iter().all(|s| s.own || s.pulse.failed() || s.confirmed >= version) {
            self.announcing = None;
            if !race("announce an interest and do not look") {
                out.push(Action::Recheck("interest announced"));
            }
        }
    }

    /// Say goodbye to whoever knows this server.
    pub(crate) fn goodbye(&mut self, out: &mut Vec<Action<T>>) {
        if self.echo && self.peers.is_empty() {
            return;
        }
        for place in 0..self.stations.len() {
            if !self.stations[place].own {
                self.send(place, vec![Body::Goodbye], out);
            }
        }
    }
}

fn log_unanswered(source: Source, echo: bool, station: &Station) {
    if !echo {
        tracing::warn!(carrier = %source, peer = %station.name, "a peer does not answer");
    } else if station.proven {
        tracing::warn!(carrier = %source, "own pings do not come back: hints of other servers may not arrive");
    } else {
        tracing::warn!(
            carrier = %source,
            "own pings never came back: the listening connection probably goes through a pooler in transaction \
             mode, which cannot LISTEN; give it an address of its own that leads to the database itself"
        );
    }
}
