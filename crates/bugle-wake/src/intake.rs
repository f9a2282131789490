//! What a carrier makes of the frames that come in. Third part of [`Core`].

use std::net::SocketAddr;

use bytes::Bytes;
use tokio::time::Instant;

use crate::core::{Action, Core};
use crate::frame::{Body, Frame, Ping};
use crate::hint::Tiding;
use crate::outbox::unpack;
use crate::peers::{Claim, News};
use crate::pulse::Proof;
use crate::status::{DropReason, add};
use crate::transport::Destination;

impl<T: Tiding> Core<T> {
    pub(crate) fn frame(
        &mut self,
        now: Instant,
        from: Option<SocketAddr>,
        bytes: &Bytes,
        out: &mut Vec<Action<T>>,
    ) {
        let Some(frame) = Frame::decode(bytes) else {
            self.counters.dropped(DropReason::Malformed);
            out.push(Action::Recheck("not understood"));
            return;
        };
        if frame.sender == self.me {
            self.counters.dropped(DropReason::Own);
            return self.own(now, &frame.body, out);
        }
        if frame.sender == 0 {
            return self.unsigned(now, from, frame, out);
        }
        // A peer that does not know yet who is here, or writes to an earlier start of this server, numbers a stream
        // that did not come here from its beginning. What it says is welcome all the same.
        let for_me = self.echo || frame.to == self.me;
        let known = self.peers.knows(frame.sender);
        if frame.body == Body::Goodbye && !known {
            return;
        }
        add(&self.counters.received);
        let mut reason = self.greet(now, &frame, out);
        if for_me && !matches!(frame.body, Body::Pong { .. }) {
            match self.peers.claim(now, frame.sender, frame.sequence, frame.body.counts()) {
                Claim::First => reason = reason.or(Some("new peer")),
                Claim::Fresh => {}
                Claim::Again => return self.counters.dropped(DropReason::Replayed),
                Claim::Old => return self.counters.dropped(DropReason::Stale),
            }
        }
        out.extend(reason.map(Action::Recheck));
        self.body(now, from, frame, known, out);
    }

    /// Hints of somebody who does not stay. Without a number they could be replayed, so only the database may bring them.
    fn unsigned(&mut self, now: Instant, from: Option<SocketAddr>, frame: Frame, out: &mut Vec<Action<T>>) {
        if !self.echo {
            return self.counters.dropped(DropReason::Malformed);
        }
        add(&self.counters.received);
        self.body(now, from, frame, false, out);
    }

    /// Note who was heard; a newcomer is answered.
    fn greet(&mut self, now: Instant, frame: &Frame, out: &mut Vec<Action<T>>) -> Option<&'static str> {
        let name = match &frame.body {
            Body::Ping(Ping { name, .. }) | Body::Welcome { name, .. } => name.as_str(),
            _ => "",
        };
        let news = self.peers.hear(now, frame.sender, name);
        if news == News::Known {
            return None;
        }
        tracing::info!(carrier = %self.source, peer = name, id = frame.sender, "a server was heard");
        if !self.echo {
            // So that the newcomer is found behind one of the addresses, and learns what is wanted here.
            for station in &mut self.stations {
                station.pulse.hurry(now);
                station.greeted = false;
            }
        } else if !(matches!(frame.body, Body::Welcome { .. }) && frame.to == self.me) {
            self.welcome(frame.sender, true, out);
        }
        Some(if news == News::Restarted { "peer restarted" } else { "new peer" })
    }

    fn welcome(&mut self, to: u64, forgot: bool, out: &mut Vec<Action<T>>) {
        let body = Body::Welcome { forgot, name: self.options.name.clone() };
        let frame = Frame { sender: self.me, to, sequence: self.stations[0].sequence, body };
        // A greeting that gets lost must be made up for as hints are: the other may be parked, and not know us.
        self.enqueue(Destination::Everyone, vec![frame.encode()], true, out);
    }

    fn body(
        &mut self,
        now: Instant,
        from: Option<SocketAddr>,
        frame: Frame,
        known: bool,
        out: &mut Vec<Action<T>>,
    ) {
        match frame.body {
            Body::Hints(bytes) => {
                let (tidings, whole) = unpack(&bytes);
                if !tidings.is_empty() {
                    out.push(Action::Tidings(tidings));
                }
                if !whole {
                    out.push(Action::Recheck("not understood"));
                }
            }
            Body::Recheck => out.push(Action::Recheck("overflow")),
            Body::Trailing => {}
            Body::Ping(ping) if self.echo => {
                if ping.hello && known {
                    self.welcome(frame.sender, false, out);
                }
            }
            Body::Ping(ping) => self.answer(now, from, frame.sender, ping, out),
            Body::Pong { nonce, confirmed } => self.pong(now, frame.sender, nonce, confirmed, out),
            Body::Welcome { forgot, .. } => {
                // Nothing was sent for somebody who was forgotten.
                if forgot && known && frame.to == self.me {
                    out.push(Action::Recheck("new peer"));
                }
            }
            Body::Goodbye => {
                self.peers.forget(frame.sender);
                self.stations.iter_mut().filter(|s| s.sender == frame.sender).for_each(|s| s.sender = 0);
            }
        }
    }

    fn answer(
        &mut self,
        now: Instant,
        from: Option<SocketAddr>,
        sender: u64,
        ping: Ping,
        out: &mut Vec<Action<T>>,
    ) {
        if let Some(digest) = ping.digest {
            self.peers.learn(now, sender, ping.version, digest);
        }
        let station = self.stations.iter().find(|s| s.sender == sender).map(|s| s.to);
        let Some(to) = from.map(Destination::Back).or(station) else { return };
        let body = Body::Pong { nonce: ping.nonce, confirmed: ping.version };
        let frame = Frame { sender: self.me, to: sender, sequence: 0, body };
        self.enqueue(to, vec![frame.encode()], false, out);
    }

    fn pong(&mut self, now: Instant, sender: u64, nonce: u64, confirmed: u64, out: &mut Vec<Action<T>>) {
        for station in self.stations.iter_mut().filter(|_| !self.echo) {
            let Some(proof) = station.pulse.answered(nonce, now) else { continue };
            if station.sender == sender {
                station.confirmed = station.confirmed.max(confirmed);
            } else {
                // Only frames addressed to a known receiver are numbered: begin with that at once.
                station.confirmed = confirmed;
                station.pulse.hurry(now);
            }
            (station.sender, station.proven) = (sender, true);
            if proof == Proof::Again {
                tracing::info!(carrier = %self.source, peer = %station.name, "a peer answers again");
                out.push(Action::Recheck("reconnected"));
            }
        }
        self.confirmed(out);
    }

    /// A frame of this server came back.
    fn own(&mut self, now: Instant, body: &Body, out: &mut Vec<Action<T>>) {
        let nonce = match body {
            Body::Ping(ping) => Some(ping.nonce),
            _ => None,
        };
        if !self.echo {
            let mut found = false;
            for station in &mut self.stations {
                if nonce.is_some_and(|n| station.pulse.answered(n, now).is_some()) {
                    (station.own, found) = (true, true);
                }
            }
            if found {
                self.confirmed(out);
            }
            return;
        }
        let station = &mut self.stations[0];
        let answered = nonce.and_then(|n| station.pulse.answered(n, now));
        let proof = answered.unwrap_or_else(|| station.pulse.proven(now));
        station.proven = true;
        if proof == Proof::Again {
            tracing::info!(carrier = %self.source, "own pings come back again");
            out.push(Action::Recheck("reconnected"));
        }
    }
}
