//! Servers for the tests: bells over three kinds of carriers, and what they heard.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bugle_pg::{Config, Pool, PoolOptions, Schema, Statement, Type, testdb};
use bugle_wake::{Bell, BellOptions, Carrier, Heard, HearingState, NotifyOptions, Tiding, UdpOptions};
use tokio::sync::mpsc;

pub(crate) mod hub;

use hub::Hub;

/// Longest wait for anything; the machine may be busy.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);
pub(crate) const SECRET: &[u8] = b"shared by all";

/// A tiding: its number; below 1,000 that is its topic too, above it everybody wants it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Note(pub(crate) u64);

impl Tiding for Note {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend(self.0.to_be_bytes());
    }

    fn decode(input: &mut &[u8]) -> Option<Self> {
        let (first, rest) = input.split_first_chunk::<8>()?;
        *input = rest;
        Some(Self(u64::from_be_bytes(*first)))
    }

    fn topic(&self) -> Option<u64> {
        (self.0 < 1_000).then_some(self.0)
    }
}

/// One server.
pub(crate) struct Server {
    pub(crate) bell: Bell<Note>,
    pub(crate) heard: mpsc::Receiver<Heard<Note>>,
    /// Everything heard so far.
    pub(crate) log: Vec<Heard<Note>>,
}

impl Server {
    pub(crate) fn start(options: BellOptions, carriers: Vec<Carrier>) -> Self {
        let (bell, heard) = Bell::start(options, carriers);
        Self { bell, heard, log: Vec::new() }
    }

    pub(crate) async fn next(&mut self) -> Heard<Note> {
        let heard = self.heard.recv().await.expect("the bell lives");
        self.log.push(heard.clone());
        heard
    }

    /// Wait until something of that kind is heard.
    pub(crate) async fn until(&mut self, what: &str, found: impl Fn(&Heard<Note>) -> bool) {
        let waiting = async { while !found(&self.next().await) {} };
        if tokio::time::timeout(LIMIT, waiting).await.is_err() {
            panic!("no {what}; {:?}; heard {:?}", self.bell.status(), self.log);
        }
    }

    pub(crate) async fn hears(&mut self, note: u64) {
        self.until(&format!("note {note}"), |heard| notes(heard).contains(&Note(note))).await;
    }

    pub(crate) async fn rechecks(&mut self, reasons: &[&str]) {
        let found =
            |heard: &Heard<Note>| matches!(heard, Heard::Recheck { reason, .. } if reasons.contains(reason));
        self.until(&format!("{reasons:?}"), found).await;
    }

    /// Wait for an overall state. It is set before it is told, so each thing heard is a reason to look.
    pub(crate) async fn is(&mut self, state: HearingState) {
        let bell = self.bell.clone();
        if bell.hearing().state != state {
            self.until(&state.to_string(), |_| bell.hearing().state == state).await;
        }
    }

    pub(crate) fn sent(&self) -> u64 {
        self.bell.status().iter().map(|s| s.sent).sum()
    }
}

pub(crate) fn notes(heard: &Heard<Note>) -> &[Note] {
    match heard {
        Heard::Tidings { tidings, .. } => tidings,
        _ => &[],
    }
}

/// What carries the hints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Notify,
    Udp,
    Lossy,
}

/// A place where servers can find each other.
#[derive(Clone)]
pub(crate) struct Place {
    pub(crate) kind: Kind,
    pub(crate) channel: String,
    pub(crate) ports: Vec<SocketAddr>,
    pub(crate) hub: Arc<Hub>,
}

impl Place {
    pub(crate) fn new(kind: Kind, servers: usize) -> Self {
        // Longer than PostgreSQL takes, and in need of quotes.
        let channel = format!("bugle \"wake\" {} {}", "x".repeat(40), testdb::fresh_schema());
        Self { kind, channel, ports: free_ports(servers), hub: Arc::default() }
    }

    pub(crate) async fn carrier(&self, place: usize) -> Carrier {
        match self.kind {
            Kind::Notify => Carrier::notify(self.notify_options().await),
            Kind::Udp => {
                let peers = self.ports.iter().map(ToString::to_string).collect();
                let bind = self.ports[place];
                Carrier::udp(UdpOptions { bind, peers, secret: SECRET.to_vec() }).expect("a free port")
            }
            Kind::Lossy => self.hub.carrier(),
        }
    }

    pub(crate) async fn notify_options(&self) -> NotifyOptions {
        let config = Config::parse(&testdb::server().await).expect("an address");
        let pool = Pool::new(config.clone(), PoolOptions::default());
        NotifyOptions::new(config, pool, self.channel.clone())
    }

    pub(crate) async fn start(&self, place: usize, change: impl FnOnce(&mut BellOptions)) -> Server {
        let mut options = BellOptions { name: format!("server {place}"), ..BellOptions::default() };
        // Joined re-checks show only the first reason; the tests want to see each.
        options.recheck_every = Duration::ZERO;
        if self.kind == Kind::Lossy {
            // Single frames get lost here; what follows them must come often enough to be counted on.
            (options.ping, options.ping_retry) = (Duration::from_millis(500), Duration::from_millis(200));
            options.ping_timeout = Duration::from_secs(10);
        }
        change(&mut options);
        Server::start(options, vec![self.carrier(place).await])
    }

    /// Two servers that know each other.
    pub(crate) async fn two(&self) -> (Server, Server) {
        let mut one = self.start(0, |_| ()).await;
        let mut two = self.start(1, |_| ()).await;
        tokio::join!(meet(&mut one), meet(&mut two));
        (one, two)
    }
}

pub(crate) async fn meet(server: &mut Server) {
    server.rechecks(&["new peer", "peer restarted"]).await;
    server.is(HearingState::Connected).await;
}

/// Ports that nothing uses just now.
pub(crate) fn free_ports(count: usize) -> Vec<SocketAddr> {
    let bind = || std::net::UdpSocket::bind("127.0.0.1:0").expect("bind a free port");
    let sockets: Vec<_> = (0..count).map(|_| bind()).collect();
    sockets.iter().map(|s| s.local_addr().expect("a bound socket has an address")).collect()
}

/// Run a statement with text parameters.
pub(crate) async fn sql(pool: &Pool, sql: &str, params: &[&str]) {
    let none = Schema::new("unused").expect("a name");
    let types: &[Type] = if params.len() == 2 { &[Type::TEXT, Type::TEXT] } else { &[Type::TEXT] };
    let statement = Statement::new(&none, sql, types.to_vec().leak());
    let params: Vec<&(dyn bugle_pg::ToSql + Sync)> = params.iter().map(|p| p as _).collect();
    pool.get().await.expect("connect").query(&statement, &params).await.expect("run");
}
