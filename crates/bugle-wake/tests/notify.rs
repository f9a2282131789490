//! What only the carrier through the database can meet: a killed connection, strangers, poolers.

#[allow(dead_code)]
mod support;

use std::time::Duration;

use bugle_pg::{Config, channel_name, testdb};
use bugle_wake::{BellOptions, Carrier, Heard, HearingState};
use support::{Kind, LIMIT, Note, Place, Server, sql};

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_listening_connection_is_made_again_and_rechecked() {
    let place = Place::new(Kind::Notify, 2);
    let name = testdb::fresh_schema();
    let mut options = place.notify_options().await;
    options.application_name = name.clone();
    let pool = options.publish.clone();
    let each = BellOptions { recheck_every: Duration::ZERO, ..BellOptions::default() };
    let mut one = Server::start(each, vec![Carrier::notify(options)]);
    let two = place.start(1, |_| ()).await;
    support::meet(&mut one).await;
    let before = one.bell.hearing();
    let kill = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1";
    sql(&pool, kill, &[&name]).await;
    one.rechecks(&["reconnected"]).await;
    let isolated = |h: &Heard<Note>| matches!(h, Heard::Health(h) if h.state == HearingState::Isolated);
    assert!(one.log.iter().any(isolated), "not told that it heard nothing: {:?}", one.log);
    assert!(one.bell.hearing().lapses > before.lapses);
    one.is(HearingState::Connected).await;
    assert_eq!(one.bell.status()[0].reconnects, 1);
    two.bell.ring(Note(2_000));
    one.hears(2_000).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_strangers_payload_is_a_recheck_and_nothing_worse() {
    let place = Place::new(Kind::Notify, 2);
    let (mut one, two) = place.two().await;
    let pool = place.notify_options().await.publish;
    let channel = channel_name(&place.channel);
    for garbage in ["", "garbage", "not base64 ä!", "AQEAAAA"] {
        sql(&pool, "SELECT pg_notify($1, $2)", &[&channel, garbage]).await;
        one.rechecks(&["not understood"]).await;
    }
    two.bell.ring(Note(2_000));
    one.hears(2_000).await;
    assert_eq!(one.bell.status()[0].dropped.malformed, 4);
    assert_eq!(one.bell.hearing().state, HearingState::Connected);
}

#[tokio::test(flavor = "multi_thread")]
async fn behind_a_transaction_pooler_it_cannot_hear_but_can_tell() {
    let place = Place::new(Kind::Notify, 2);
    let mut options = place.notify_options().await;
    options.listen = Config::parse(&testdb::pgbouncer().await).expect("an address");
    let short = BellOptions {
        ping_timeout: Duration::from_millis(500),
        ping_retry: Duration::from_millis(100),
        ..BellOptions::default()
    };
    let one = Server::start(short, vec![Carrier::notify(options)]);
    let mut two = place.start(1, |_| ()).await;
    two.rechecks(&["new peer"]).await;
    one.bell.ring(Note(2_000));
    two.hears(2_000).await;
    assert_eq!(one.bell.hearing().state, HearingState::Isolated);
    assert_eq!(one.bell.status()[0].received, 0);
    let lapsed = async {
        while one.bell.hearing().lapses == 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(LIMIT, lapsed).await.expect("it is noticed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_is_away_at_first_is_found_later() {
    let place = Place::new(Kind::Notify, 2);
    let mut options = place.notify_options().await;
    let real = testdb::server().await;
    let port = std::net::TcpListener::bind("127.0.0.1:0").expect("bind").local_addr().expect("bound").port();
    let address = format!("postgres://postgres@127.0.0.1:{port}/postgres?sslmode=disable");
    options.listen = Config::parse(&address).expect("an address");
    let mut one = Server::start(BellOptions::default(), vec![Carrier::notify(options)]);
    let two = place.start(1, |_| ()).await;
    assert_eq!(one.bell.hearing().state, HearingState::Isolated);
    let target = real.split('@').next_back().and_then(|s| s.split('/').next()).expect("a place").to_owned();
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await.expect("bind");
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let target = target.clone();
            tokio::spawn(async move {
                let mut server = tokio::net::TcpStream::connect(target).await.expect("the server");
                let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
            });
        }
    });
    one.is(HearingState::Connected).await;
    support::meet(&mut one).await;
    two.bell.ring(Note(2_000));
    one.hears(2_000).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ping_can_ride_on_a_statement_of_the_caller() {
    let place = Place::new(Kind::Notify, 1);
    let pool = place.notify_options().await.publish;
    let mut one = place.start(0, |o| o.ping = Duration::from_secs(6)).await;
    one.is(HearingState::Connected).await;
    assert_eq!(one.bell.take_ping(), None, "it has just been proven");
    let taken = async {
        loop {
            if let Some(text) = one.bell.take_ping() {
                return text;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let text = tokio::time::timeout(LIMIT, taken).await.expect("due after a while");
    let own = one.bell.status()[0].dropped.own;
    sql(&pool, "SELECT pg_notify($1, $2)", &[&channel_name(&place.channel), &text]).await;
    let back = async {
        while one.bell.status()[0].dropped.own == own {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(LIMIT, back).await.expect("it came back");
    assert_eq!(one.bell.take_ping(), None, "it proved health");
    assert_eq!(one.bell.hearing().state, HearingState::Connected);
}
