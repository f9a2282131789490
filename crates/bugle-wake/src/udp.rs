//! UDP between configured peers as a transport: signed, dated and numbered datagrams.
//!
//! A datagram is `signature (32) | milliseconds since 1970 (8) | number (8) | frame`. The signature covers the rest and is
//! checked in constant time. The date and the number keep a recorded datagram from being played again. What is not
//! right is counted and dropped; anybody can send to a port, so nothing is logged for each.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_lc_rs::hmac;
use bytes::Bytes;
use tokio::net::lookup_host;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use crate::frame::{Frame, HEADER};
use crate::hint::Source;
use crate::replay::{Seen, Windows};
use crate::status::{Counters, DropReason};
use crate::transport::{Carrier, Destination, Event, Job, Line, Running, Shape, Transport};

/// Longest datagram: passes any usual network in one piece.
const DATAGRAM: usize = 1_200;
const SIGNATURE: usize = 32;
const ENVELOPE: usize = SIGNATURE + 8 + 8;
/// How far clocks may be apart, and how long a datagram may take.
const AGE: u64 = 30_000;
/// Longest wait for addresses at the start.
const LOOK_UP: Duration = Duration::from_secs(1);
/// Pause after an error of the socket.
const RETRY: Duration = Duration::from_millis(10);
/// Dropped datagrams are logged so often at most.
const LOG: Duration = Duration::from_secs(60);

/// How the UDP carrier reaches its peers.
#[derive(Clone)]
pub struct UdpOptions {
    /// The address to bind.
    pub bind: SocketAddr,
    /// The other servers, `host:port`; this server itself may be among them.
    pub peers: Vec<String>,
    /// The secret that all servers share; must not be empty.
    pub secret: Vec<u8>,
}

impl std::fmt::Debug for UdpOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UdpOptions")
            .field("bind", &self.bind)
            .field("peers", &self.peers)
            .finish_non_exhaustive()
    }
}

/// Why a carrier cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum CarrierError {
    /// Datagrams without a secret could come from anybody.
    #[error("udp secret: must not be empty")]
    EmptySecret,
    /// The address cannot be bound.
    #[error("udp bind {address}: {reason}")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// What the system says.
        reason: std::io::Error,
    },
}

impl Carrier {
    /// Hints straight between servers. Binds the address at once.
    pub fn udp(options: UdpOptions) -> Result<Self, CarrierError> {
        if options.secret.is_empty() {
            return Err(CarrierError::EmptySecret);
        }
        let socket = UdpSocket::bind(options.bind)
            .and_then(|s| s.set_nonblocking(true).map(|()| s))
            .map_err(|reason| CarrierError::Bind { address: options.bind, reason })?;
        Ok(Self::custom(UdpTransport { options, socket }))
    }
}

struct UdpTransport {
    options: UdpOptions,
    socket: UdpSocket,
}

impl Transport for UdpTransport {
    fn source(&self) -> Source {
        Source::Udp
    }

    fn shape(&self) -> Shape {
        Shape::Peers(self.options.peers.clone())
    }

    fn max_frame(&self) -> usize {
        DATAGRAM - ENVELOPE
    }

    fn run(self: Box<Self>, line: Line) -> Running {
        Box::pin(async move {
            let Self { options, socket } = *self;
            let socket = match tokio::net::UdpSocket::from_std(socket) {
                Ok(socket) => socket,
                Err(error) => return tracing::error!(%error, "the UDP socket cannot be used"),
            };
            let seal = Seal::new(&options.secret);
            let Line { jobs, events, counters } = line;
            let mut out = Outgoing {
                places: options.peers.iter().map(|p| p.parse().ok()).collect(),
                v4: options.bind.is_ipv4(),
                peers: options.peers,
                lookups: JoinSet::new(),
                number: 0,
            };
            out.find_all().await;
            if events.send(Event::Up).await.is_err() {
                return;
            }
            tokio::select! {
                () = out.run(&socket, &seal, jobs) => {}
                () = receive(&socket, &seal, &events, counters) => {}
            }
        })
    }
}

/// Signs and checks datagrams.
pub(crate) struct Seal {
    key: hmac::Key,
}

impl Seal {
    pub(crate) fn new(secret: &[u8]) -> Self {
        Self { key: hmac::Key::new(hmac::HMAC_SHA256, secret) }
    }

    pub(crate) fn wrap(&self, at: u64, number: u64, frame: &[u8]) -> Vec<u8> {
        let mut datagram = Vec::with_capacity(ENVELOPE + frame.len());
        datagram.resize(SIGNATURE, 0);
        datagram.extend(at.to_be_bytes());
        datagram.extend(number.to_be_bytes());
        datagram.extend_from_slice(frame);
        let tag = hmac::sign(&self.key, &datagram[SIGNATURE..]);
        datagram[..SIGNATURE].copy_from_slice(tag.as_ref());
        datagram
    }

    /// The frame of a datagram, unless something is wrong with it.
    pub(crate) fn open(&self, datagram: &[u8], now: u64, windows: &mut Windows) -> Result<Bytes, DropReason> {
        if datagram.len() < ENVELOPE + HEADER || datagram.len() > DATAGRAM {
            return Err(DropReason::Malformed);
        }
        let (signature, rest) = datagram.split_at(SIGNATURE);
        hmac::verify(&self.key, rest, signature).map_err(|_| DropReason::Forged)?;
        let number = |at: usize| rest[at..at + 8].iter().fold(0, |n, b| (n << 8) | u64::from(*b));
        let (at, count, frame) = (number(0), number(8), &rest[16..]);
        if at.abs_diff(now) > AGE {
            return Err(DropReason::Stale);
        }
        let sender = Frame::sender_of(frame).ok_or(DropReason::Malformed)?;
        match windows.see(sender, count) {
            Seen::New => Ok(Bytes::copy_from_slice(frame)),
            Seen::Before => Err(DropReason::Replayed),
            Seen::TooOld => Err(DropReason::Stale),
        }
    }
}

fn millis() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |d| u64::try_from(d.as_millis()).unwrap_or(u64::MAX))
}

/// The sending half.
struct Outgoing {
    peers: Vec<String>,
    places: Vec<Option<SocketAddr>>,
    v4: bool,
    lookups: JoinSet<(usize, Option<SocketAddr>)>,
    /// Datagrams sent, to whomever.
    number: u64,
}

impl Outgoing {
    async fn run(&mut self, socket: &tokio::net::UdpSocket, seal: &Seal, mut jobs: mpsc::Receiver<Job>) {
        loop {
            tokio::select! {
                job = jobs.recv() => match job {
                    Some(Job::Send { to, frames }) => self.send(socket, seal, to, frames).await,
                    Some(Job::Reset(Destination::Peer(place))) => self.look_up(place),
                    Some(Job::Reset(_)) => {}
                    None => return,
                },
                Some(Ok(found)) = self.lookups.join_next() => self.found(found),
            }
        }
    }

    /// Look all peers up before the first greeting, but do not wait long for it.
    async fn find_all(&mut self) {
        for place in 0..self.peers.len() {
            self.look_up(place);
        }
        let finding = async {
            while let Some(found) = self.lookups.join_next().await {
                found.into_iter().for_each(|f| self.found(f));
            }
        };
        let _ = timeout(LOOK_UP, finding).await;
    }

    fn found(&mut self, (place, address): (usize, Option<SocketAddr>)) {
        if address.is_some() {
            self.places[place] = address;
        }
    }

    /// Ask for a peer's address, unless it is written out.
    fn look_up(&mut self, place: usize) {
        let Some(name) = self.peers.get(place).cloned().filter(|n| n.parse::<SocketAddr>().is_err()) else {
            return;
        };
        // At most one for each peer, twice over for slow ones.
        if self.lookups.len() > 2 * self.peers.len() {
            return;
        }
        let v4 = self.v4;
        self.lookups.spawn(async move {
            match lookup_host(&name).await {
                Ok(mut found) => (place, found.find(|a| a.is_ipv4() == v4)),
                Err(error) => {
                    tracing::debug!(peer = %name, %error, "the peer's address cannot be found");
                    (place, None)
                }
            }
        });
    }

    async fn send(
        &mut self,
        socket: &tokio::net::UdpSocket,
        seal: &Seal,
        to: Destination,
        frames: Vec<Bytes>,
    ) {
        let address = match to {
            Destination::Peer(place) => self.places.get(place).copied().flatten(),
            Destination::Back(address) => Some(address),
            Destination::Everyone => None,
        };
        let Some(address) = address else { return };
        for frame in frames {
            self.number += 1;
            // An error is an answer to an earlier datagram, or a full queue: the pings will tell.
            let _ = socket.send_to(&seal.wrap(millis(), self.number, &frame), address).await;
        }
    }
}

async fn receive(
    socket: &tokio::net::UdpSocket,
    seal: &Seal,
    events: &mpsc::Sender<Event>,
    counters: Arc<Counters>,
) {
    let mut windows = Windows::default();
    let mut buffer = vec![0; DATAGRAM + 1];
    let mut logged: Option<Instant> = None;
    loop {
        // An error here is about something sent before: nobody listened there.
        let Ok((length, from)) = socket.recv_from(&mut buffer).await else {
            sleep(RETRY).await;
            continue;
        };
        match seal.open(&buffer[..length], millis(), &mut windows) {
            Ok(bytes) => {
                if events.send(Event::Frame { from: Some(from), bytes }).await.is_err() {
                    return;
                }
            }
            Err(reason) => {
                counters.dropped(reason);
                if logged.is_none_or(|at| at.elapsed() > LOG) {
                    logged = Some(Instant::now());
                    tracing::warn!(%from, ?reason, "dropped a datagram (told once a minute; see the counters)");
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame() -> Bytes {
        Frame { sender: 5, to: 0, sequence: 1, body: crate::frame::Body::Trailing }.encode()
    }

    #[test]
    fn only_fresh_signed_unseen_datagrams_are_opened() {
        let (seal, other, mut windows) = (Seal::new(b"secret"), Seal::new(b"Secret"), Windows::default());
        let now = 1_000_000_000;
        let good = seal.wrap(now, 1, &frame());
        assert_eq!(seal.open(&good, now, &mut windows), Ok(frame()));
        assert_eq!(seal.open(&good, now, &mut windows), Err(DropReason::Replayed));
        let mut open = |datagram: &[u8]| seal.open(datagram, now, &mut windows);
        assert_eq!(open(&other.wrap(now, 2, &frame())), Err(DropReason::Forged));
        assert_eq!(open(&seal.wrap(now - AGE - 1, 2, &frame())), Err(DropReason::Stale));
        assert_eq!(open(&seal.wrap(now + AGE + 1, 2, &frame())), Err(DropReason::Stale));
        assert_eq!(open(&good[..good.len() - 1]), Err(DropReason::Malformed));
        assert_eq!(open(&[]), Err(DropReason::Malformed));
        assert_eq!(open(&seal.wrap(now, 100, &frame())), Ok(frame()));
        assert_eq!(open(&seal.wrap(now, 3, &frame())), Err(DropReason::Stale));
        for at in 0..good.len() {
            let mut bent = seal.wrap(now, 101, &frame());
            bent[at] ^= 1;
            assert_eq!(open(&bent), Err(DropReason::Forged), "byte {at}");
        }
    }

    #[test]
    fn an_empty_secret_is_refused_and_none_is_shown() {
        let bind = "127.0.0.1:0".parse().unwrap();
        let options = UdpOptions { bind, peers: Vec::new(), secret: Vec::new() };
        assert!(matches!(Carrier::udp(options), Err(CarrierError::EmptySecret)));
        let options = UdpOptions { bind, peers: Vec::new(), secret: b"hush".to_vec() };
        assert!(!format!("{options:?} {:?}", Carrier::udp(options.clone())).contains("hush"));
    }
}
