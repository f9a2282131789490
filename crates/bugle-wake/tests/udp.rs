//! What only datagrams can meet: forgery, replay, loss on the way, and peers that want nothing.

#[allow(dead_code)]
mod support;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bugle_wake::{BellOptions, Carrier, Dropped, Heard, HearingState, UdpOptions};
use support::{LIMIT, Note, SECRET, Server, free_ports};
use tokio::net::UdpSocket;

/// Signature, date and number come before the frame, and its version before its kind.
const KIND: usize = 32 + 8 + 8 + 1;
const HINTS: u8 = 1;

/// Between two servers: counts, records and drops.
struct Proxy {
    address: SocketAddr,
    /// Datagrams with hints from the first server.
    hints: AtomicU64,
    drop_hints: AtomicBool,
    cut: AtomicBool,
    last: parking_lot::Mutex<Vec<u8>>,
}

impl Proxy {
    async fn start(one: SocketAddr, two: SocketAddr) -> Arc<Self> {
        let socket = UdpSocket::bind("127.0.0.1:0").await.expect("bind");
        let proxy = Arc::new(Self {
            address: socket.local_addr().expect("bound"),
            hints: AtomicU64::new(0),
            drop_hints: AtomicBool::new(false),
            cut: AtomicBool::new(false),
            last: parking_lot::Mutex::default(),
        });
        let this = Arc::clone(&proxy);
        tokio::spawn(async move {
            let mut buffer = vec![0; 2_000];
            loop {
                let Ok((length, from)) = socket.recv_from(&mut buffer).await else { continue };
                let datagram = &buffer[..length];
                assert!(length <= 1_200, "{length}");
                if from == one && datagram[KIND] == HINTS {
                    this.hints.fetch_add(1, Ordering::SeqCst);
                    *this.last.lock() = datagram.to_vec();
                    if this.drop_hints.load(Ordering::SeqCst) {
                        continue;
                    }
                }
                if !this.cut.load(Ordering::SeqCst) {
                    let _ = socket.send_to(datagram, if from == one { two } else { one }).await;
                }
            }
        });
        proxy
    }

    fn hints(&self) -> u64 {
        self.hints.load(Ordering::SeqCst)
    }
}

fn server(bind: SocketAddr, peers: &[SocketAddr], options: BellOptions) -> Server {
    let peers = peers.iter().map(ToString::to_string).collect();
    let carrier = Carrier::udp(UdpOptions { bind, peers, secret: SECRET.to_vec() }).expect("a free port");
    Server::start(options, vec![carrier])
}

async fn pair() -> (Server, Server, Arc<Proxy>, SocketAddr) {
    let ports = free_ports(2);
    let proxy = Proxy::start(ports[0], ports[1]).await;
    let options = BellOptions { recheck_every: Duration::ZERO, ..BellOptions::default() };
    let mut one = server(ports[0], &[proxy.address], options.clone());
    let mut two = server(ports[1], &[proxy.address], options);
    one.is(HearingState::Connected).await;
    two.is(HearingState::Connected).await;
    (one, two, proxy, ports[1])
}

#[tokio::test(flavor = "multi_thread")]
async fn peers_get_no_hints_they_do_not_want_and_get_them_once_they_do() {
    let (one, mut two, proxy, _) = pair().await;
    // Both were answered, so each has what the other wants: nothing.
    for n in 0..100 {
        one.bell.ring(Note(n));
    }
    one.bell.ring(Note(2_000));
    two.hears(2_000).await;
    assert!(two.log.iter().flat_map(support::notes).all(|n| n.0 == 2_000), "{:?}", two.log);
    two.bell.want(7);
    two.rechecks(&["interest announced"]).await;
    let before = proxy.hints();
    one.bell.ring(Note(8));
    one.bell.ring(Note(7));
    two.hears(7).await;
    assert_eq!(proxy.hints(), before + 1);
    assert!(two.log.iter().flat_map(support::notes).all(|n| n.0 == 2_000 || n.0 == 7), "{:?}", two.log);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_topics_still_find_their_way() {
    let (one, mut two, _, _) = pair().await;
    for n in 0..900 {
        two.bell.want(n);
    }
    // They may be announced in several steps, each followed by a re-check; a hint before the last one may be missed.
    while !two.log.iter().flat_map(support::notes).any(|n| n.0 == 899) {
        two.until("an answer", |h| matches!(h, Heard::Tidings { .. } | Heard::Recheck { .. })).await;
        one.bell.ring(Note(899));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_last_datagram_is_found_by_the_trailing_frame() {
    let (one, mut two, proxy, _) = pair().await;
    one.bell.ring(Note(2_000));
    two.hears(2_000).await;
    proxy.drop_hints.store(true, Ordering::SeqCst);
    let begun = std::time::Instant::now();
    one.bell.ring(Note(2_001));
    two.rechecks(&["gap"]).await;
    // The next ping would come after 4.5 s at the earliest.
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
    assert_eq!(two.bell.status()[0].gaps, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn forged_replayed_cut_and_random_datagrams_are_dropped_and_counted() {
    let (one, mut two, proxy, target) = pair().await;
    one.bell.ring(Note(2_000));
    two.hears(2_000).await;
    let good = proxy.last.lock().clone();
    let stranger = UdpSocket::bind("127.0.0.1:0").await.expect("bind");
    let mut forged = good.clone();
    *forged.last_mut().expect("not empty") ^= 1;
    let random: Vec<u8> = (0..300).map(|_| fastrand::u8(..)).collect();
    let all: [&[u8]; 6] = [&good, &forged, &random, &good[..60], &[], &vec![0; 1_400]];
    for datagram in all {
        stranger.send_to(datagram, target).await.expect("send");
    }
    // A server with another secret.
    let other =
        UdpOptions { bind: free_ports(1)[0], peers: vec![target.to_string()], secret: b"guessed".to_vec() };
    let other = Server::start(BellOptions::default(), vec![Carrier::udp(other).expect("a free port")]);
    let expected = |d: &Dropped| d.replayed == 1 && d.forged >= 3 && d.malformed == 3;
    let counted = async {
        while !expected(&two.bell.status()[0].dropped) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    if tokio::time::timeout(LIMIT, counted).await.is_err() {
        panic!("{:?}", two.bell.status());
    }
    assert_eq!(other.bell.hearing().state, HearingState::Isolated);
    // None of it was heard, and all goes on.
    let lapses = two.bell.hearing().lapses;
    one.bell.ring(Note(2_001));
    two.hears(2_001).await;
    assert_eq!(two.log.iter().flat_map(support::notes).filter(|n| n.0 == 2_000).count(), 1);
    assert_eq!(two.bell.hearing().lapses, lapses);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_silent_peer_of_two_degrades_and_its_return_heals() {
    let ports = free_ports(3);
    let proxy = Proxy::start(ports[0], ports[1]).await;
    let options = BellOptions {
        udp_ping: Duration::from_millis(300),
        ping_retry: Duration::from_millis(200),
        ping_timeout: Duration::from_secs(1),
        ..BellOptions::default()
    };
    let mut one = server(ports[0], &[proxy.address, ports[2]], options.clone());
    let _two = server(ports[1], &[proxy.address], options.clone());
    let _three = server(ports[2], &[ports[0]], options);
    one.is(HearingState::Connected).await;
    proxy.cut.store(true, Ordering::SeqCst);
    one.is(HearingState::Degraded).await;
    let healthy: Vec<bool> = one.bell.status()[0].peers.iter().map(|p| p.healthy).collect();
    assert_eq!(healthy, [false, true]);
    let lapses = one.bell.hearing().lapses;
    proxy.cut.store(false, Ordering::SeqCst);
    one.is(HearingState::Connected).await;
    assert!(one.bell.hearing().lapses > lapses);
}

#[tokio::test(flavor = "multi_thread")]
async fn peers_are_found_by_name() {
    let ports = free_ports(2);
    let names = ports.iter().map(|p| format!("localhost:{}", p.port())).collect::<Vec<_>>();
    let start = |at: usize| {
        let options = UdpOptions { bind: ports[at], peers: names.clone(), secret: SECRET.to_vec() };
        Server::start(BellOptions::default(), vec![Carrier::udp(options).expect("a free port")])
    };
    let (mut one, mut two) = (start(0), start(1));
    one.is(HearingState::Connected).await;
    two.is(HearingState::Connected).await;
    assert_eq!(one.bell.status()[0].peers.len(), 1, "the other one, not itself");
    one.bell.ring(Note(2_000));
    two.hears(2_000).await;
}
