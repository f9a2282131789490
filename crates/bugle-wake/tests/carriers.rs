//! One suite for every carrier: through a real database, over UDP, and over a medium that loses, doubles and reorders.

#[allow(dead_code)]
mod support;

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bugle_wake::{Bell, BellOptions, Heard, HearingState};
use support::{Kind, LIMIT, Note, Place, Server, notes};

/// The same test over each carrier.
macro_rules! suite {
    ($($name:ident),* $(,)?) => {
        mod notify {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $name() { super::$name(super::Kind::Notify).await; })*
        }
        mod udp {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $name() { super::$name(super::Kind::Udp).await; })*
        }
        mod lossy {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $name() { super::$name(super::Kind::Lossy).await; })*
        }
    };
}

suite!(
    what_is_rung_on_one_is_heard_on_the_other_and_not_at_home,
    many_rings_are_all_heard_or_rechecked,
    a_burst_becomes_few_frames,
    too_much_at_once_becomes_a_recheck,
    a_server_that_left_and_came_back_is_rechecked,
    a_server_that_crashed_and_came_back_is_rechecked,
    a_server_that_went_silent_is_rechecked_once,
    a_single_server_sends_no_hints,
);

async fn what_is_rung_on_one_is_heard_on_the_other_and_not_at_home(kind: Kind) {
    let (mut one, mut two) = Place::new(kind, 2).two().await;
    for n in 0..5 {
        one.bell.ring(Note(2_000 + n));
        two.hears(2_000 + n).await;
        two.bell.ring(Note(3_000 + n));
        one.hears(3_000 + n).await;
    }
    for (server, own) in [(&one, 2_000), (&two, 3_000)] {
        let at_home = server.log.iter().flat_map(notes).filter(|n| n.0 / 1_000 == own / 1_000).count();
        assert_eq!(at_home, 0, "{:?}", server.log);
    }
    assert!(one.bell.status()[0].received > 0 && one.bell.status()[0].round_trip.is_some());
    assert_eq!(one.bell.status()[0].peers.len(), 1, "{:?}", one.bell.status());
}

async fn many_rings_are_all_heard_or_rechecked(kind: Kind) {
    let place = Place::new(kind, 2);
    let (one, mut two) = place.two().await;
    place.hub.trouble(20, 20, 40);
    let rung = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&rung);
    let ringing = tokio::spawn(async move {
        for n in 0..1_000 {
            one.bell.ring(Note(5_000 + n));
            count.store(n + 1, Ordering::SeqCst);
            if n % 10 == 0 {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        }
        one
    });
    // Whoever re-checks sees everything rung before: wait for what is not covered either way.
    let mut missing: HashSet<u64> = (5_000..6_000).collect();
    let all = async {
        while !missing.is_empty() {
            match two.next().await {
                Heard::Tidings { tidings, .. } => missing.retain(|n| !tidings.contains(&Note(*n))),
                Heard::Recheck { .. } => {
                    let seen = 5_000 + rung.load(Ordering::SeqCst);
                    missing.retain(|n| *n >= seen);
                }
                Heard::Health(_) => {}
            }
        }
    };
    tokio::time::timeout(LIMIT, all).await.expect("all is heard or rechecked");
    let one = ringing.await.expect("rings");
    drop(one);
}

async fn a_burst_becomes_few_frames(kind: Kind) {
    let (one, mut two) = Place::new(kind, 2).two().await;
    let before = one.sent();
    for n in 0..20_000 {
        one.bell.ring(Note(4_000 + n % 50));
    }
    one.bell.ring(Note(4_999));
    two.hears(4_999).await;
    let sent = one.sent() - before;
    assert!(sent < 200, "20,001 rings took {sent} frames");
    let heard: HashSet<u64> = two.log.iter().flat_map(notes).map(|n| n.0).collect();
    assert_eq!(heard.len(), 51);
}

async fn too_much_at_once_becomes_a_recheck(kind: Kind) {
    let place = Place::new(kind, 2);
    let mut one = place.start(0, |o| o.max_pending = 100).await;
    let mut two = place.start(1, |_| ()).await;
    tokio::join!(support::meet(&mut one), support::meet(&mut two));
    for n in 0..20_000 {
        one.bell.ring(Note(10_000 + n));
    }
    two.rechecks(&["overflow"]).await;
    // What is rung while such an advice waits is part of it; after that hints go out again.
    for n in 0.. {
        one.bell.ring(Note(2_000 + n));
        two.until("an answer", |h| matches!(h, Heard::Tidings { .. } | Heard::Recheck { .. })).await;
        if two.log.iter().flat_map(notes).any(|note| note.0 == 2_000 + n) {
            break;
        }
    }
}

async fn a_server_that_left_and_came_back_is_rechecked(kind: Kind) {
    let place = Place::new(kind, 2);
    let (mut one, two) = place.two().await;
    let lapses = one.bell.hearing().lapses;
    two.bell.close().await;
    drop(two);
    let mut again = place.start(1, |_| ()).await;
    let bell = one.bell.clone();
    let rechecked = |h: &Heard<Note>| matches!(h, Heard::Recheck { .. }) && bell.hearing().lapses > lapses;
    one.until("a re-check", rechecked).await;
    support::meet(&mut again).await;
    again.bell.ring(Note(2_000));
    one.hears(2_000).await;
    one.bell.ring(Note(2_001));
    again.hears(2_001).await;
}

/// A server in a runtime of its own, which can be ended without a goodbye.
async fn doomed(place: &Place, change: fn(&mut BellOptions)) -> (tokio::runtime::Runtime, Server) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.expect("a runtime");
    let place = place.clone();
    let server = runtime.spawn(async move { place.start(1, change).await }).await.expect("starts");
    (runtime, server)
}

async fn crash(runtime: tokio::runtime::Runtime) {
    tokio::task::spawn_blocking(|| runtime.shutdown_timeout(LIMIT)).await.expect("its tasks end");
}

async fn a_server_that_crashed_and_came_back_is_rechecked(kind: Kind) {
    let place = Place::new(kind, 2);
    let mut one = place.start(0, |_| ()).await;
    let (runtime, mut two) = doomed(&place, |_| ()).await;
    tokio::join!(support::meet(&mut one), support::meet(&mut two));
    crash(runtime).await;
    drop(two);
    let mut again = start_when_free(&place).await;
    one.rechecks(&["peer restarted"]).await;
    again.bell.ring(Note(2_000));
    one.hears(2_000).await;
    one.bell.ring(Note(2_001));
    again.hears(2_001).await;
}

/// Start the second server again, once the system has let go of its port.
async fn start_when_free(place: &Place) -> Server {
    let free = async {
        while place.kind == Kind::Udp && std::net::UdpSocket::bind(place.ports[1]).is_err() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(LIMIT, free).await.expect("the port becomes free");
    place.start(1, |_| ()).await
}

async fn a_server_that_went_silent_is_rechecked_once(kind: Kind) {
    fn short(options: &mut BellOptions) {
        (options.ping, options.udp_ping) = (Duration::from_millis(400), Duration::from_millis(400));
        options.ping_timeout = LIMIT;
    }
    let place = Place::new(kind, 2);
    let mut one = place.start(0, short).await;
    let (runtime, mut two) = doomed(&place, short).await;
    tokio::join!(support::meet(&mut one), support::meet(&mut two));
    crash(runtime).await;
    one.rechecks(&["peer silent"]).await;
    let more = one.rechecks(&["peer silent"]);
    assert!(tokio::time::timeout(Duration::from_secs(2), more).await.is_err(), "told again: {:?}", one.log);
    drop(two);
}

async fn a_single_server_sends_no_hints(kind: Kind) {
    let quiet = |o: &mut BellOptions| {
        (o.trailing, o.ping) = (Duration::from_millis(100), Duration::from_secs(30));
    };
    let mut one = Place::new(kind, 1).start(0, quiet).await;
    one.bell.ring(Note(2_000));
    if kind != Kind::Udp {
        one.is(HearingState::Connected).await;
    }
    let quiet = async {
        loop {
            let before = one.sent();
            for n in 0..100 {
                one.bell.ring(Note(2_000 + n));
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            if one.sent() == before {
                return before;
            }
        }
    };
    let sent = tokio::time::timeout(LIMIT, quiet).await.expect("it falls silent");
    assert!(sent <= 2, "a greeting and no more: {sent}");
    assert!(one.log.iter().all(|h| matches!(h, Heard::Health(_))), "{:?}", one.log);
}

#[tokio::test]
async fn a_bell_without_carriers_is_silent_and_isolated() {
    let (bell, mut heard) = Bell::start(BellOptions::default(), Vec::new());
    bell.ring(Note(1));
    bell.want(1);
    bell.unwant(1);
    assert_eq!(bell.hearing().state, HearingState::Isolated);
    assert!(bell.status().is_empty() && bell.take_ping().is_none());
    bell.close().await;
    drop(bell);
    assert_eq!(heard.recv().await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_carriers_are_degraded_when_one_fails_and_isolated_when_both_do() {
    let (stays, fails) = (Place::new(Kind::Lossy, 1), Place::new(Kind::Lossy, 1));
    let options = BellOptions {
        ping: Duration::from_millis(100),
        ping_retry: Duration::from_millis(50),
        ping_timeout: Duration::from_secs(1),
        ..BellOptions::default()
    };
    let mut one = Server::start(options, vec![stays.hub.carrier(), fails.hub.carrier()]);
    one.is(HearingState::Connected).await;
    let lapses = one.bell.hearing().lapses;
    let cut = |place: &Place, cut| place.hub.cut.store(cut, Ordering::Relaxed);
    cut(&fails, true);
    one.is(HearingState::Degraded).await;
    assert!(one.bell.hearing().lapses > lapses);
    cut(&stays, true);
    one.is(HearingState::Isolated).await;
    cut(&stays, false);
    one.is(HearingState::Degraded).await;
    let lapses = one.bell.hearing().lapses;
    cut(&fails, false);
    one.is(HearingState::Connected).await;
    assert!(one.bell.hearing().lapses > lapses);
}
