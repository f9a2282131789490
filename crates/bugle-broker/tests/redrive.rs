//! Dead letters go back once: whatever dies in between, whoever does it at the same time, and however late.
#![allow(clippy::unwrap_used)]

mod common;
#[path = "common/faulty.rs"]
mod faulty;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use bugle_broker::{
    AckItem, AckStatus, Broker, BrokerConfig, EncryptionKey, Letter, LetterQuery, PopRequest, Redrive,
    Redriven, Refused, Replay,
};
use bugle_store::{Engine, MemoryStore, Page, QUEUE_MODE, Timestamp};
use serde_json::json;

use common::*;
use faulty::{Fault, Faulty};

const ALL: Page = Page { offset: 0, limit: 1000 };

/// Brokers on a shared store that fails on request.
struct Shaky {
    faulty: Arc<Faulty>,
    broker: Broker,
    clock: Arc<AtomicI64>,
}

impl Shaky {
    async fn new() -> Self {
        let clock = Arc::new(AtomicI64::new(START));
        let read = clock.clone();
        let store =
            MemoryStore::with_clock(Arc::new(move || Timestamp(read.fetch_add(1, Ordering::Relaxed))));
        let engine: Arc<dyn Engine> = Arc::new(store.shared());
        let faulty = Faulty::new(engine);
        let broker = Broker::open(faulty.clone(), BrokerConfig::default()).await.unwrap();
        Self { faulty, broker, clock }
    }

    async fn sibling(&self) -> Broker {
        Broker::open(self.faulty.clone(), BrokerConfig::default()).await.unwrap()
    }
}

/// Push these and let the anonymous group give up on them, all with one error.
async fn bury(broker: &Broker, queue: &str, partition: &str, ids: &[&str], error: &str) {
    push(broker, queue, partition, ids).await;
    bury_next(broker, queue, partition, QUEUE_MODE, error).await;
}

async fn bury_next(broker: &Broker, queue: &str, partition: &str, group: &str, error: &str) {
    let mut request = from_lane(queue, partition);
    request.group = group.into();
    let popped = broker.pop(request).await.unwrap();
    let items = popped.lanes[0].messages.iter().map(|m| AckItem {
        transaction_id: m.message.transaction().to_owned(),
        lane: Some(popped.lanes[0].lane),
        status: AckStatus::Dlq,
        group: group.into(),
        lease: None,
        error: Some(error.into()),
    });
    let acked = broker.ack(items.collect()).await.unwrap();
    assert!(acked.iter().all(|acked| acked.dlq), "{acked:?}");
}

async fn letters(broker: &Broker) -> Vec<Letter> {
    broker.dead_letters(&LetterQuery::default(), ALL).await.unwrap().0
}

/// Payloads that the anonymous group gets from a queue now, in order; they are acknowledged.
async fn drain(broker: &Broker, queue: &str) -> Vec<String> {
    let mut seen = Vec::new();
    loop {
        let popped = broker.pop(from_queue(queue)).await.unwrap();
        if popped.count() == 0 {
            return seen;
        }
        let messages = popped.lanes.iter().flat_map(|lane| &lane.messages);
        seen.extend(messages.map(|m| String::from_utf8(m.message.payload.to_vec()).unwrap()));
        ack_all(broker, &popped).await;
    }
}

fn of(queue: &str) -> Redrive {
    Redrive {
        filter: LetterQuery { queue: Some(queue.into()), ..LetterQuery::default() },
        to: Replay::default(),
        cursor: None,
        limit: 1000,
        dry_run: false,
    }
}

fn done(matched: u64, redriven: u64, skipped: u64) -> Redriven {
    Redriven { matched, redriven, skipped, ..Redriven::default() }
}

on_both! {
    async fn a_replayed_letter_is_at_the_tail_and_gone_from_the_letters(rig: Rig) {
        bury(&rig.broker, "q", "p", &["a"], "boom").await;
        push(&rig.broker, "q", "p", &["b"]).await;
        let letter = letters(&rig.broker).await.remove(0).letter;
        let replayed = rig.broker.replay(letter.id, &Replay::default()).await.unwrap();
        assert_eq!((&*replayed.queue, &*replayed.partition, replayed.pushed.duplicate), ("q", "p", false));
        let popped = rig.broker.pop(from_queue("q")).await.unwrap();
        assert_eq!(ids(&popped), ["b", &format!("dlq:{}", letter.id)]);
        assert!(letters(&rig.broker).await.is_empty());
        assert!(matches!(rig.broker.replay(letter.id, &Replay::default()).await, Err(Refused::NotFound(_))));
    }

    async fn letters_go_back_oldest_failure_first_and_each_lane_in_its_order(rig: Rig) {
        bury(&rig.broker, "q", "x", &["x0"], "e").await;
        bury(&rig.broker, "q", "y", &["y0", "y1", "y2"], "e").await;
        bury(&rig.broker, "q", "x", &["x1"], "e").await;
        let into = Replay { queue: Some("all".into()), partition: Some("one".into()), ..Replay::default() };
        assert_eq!(rig.broker.redrive(Redrive { to: into, ..of("q") }).await.unwrap(), done(5, 5, 0));
        assert_eq!(drain(&rig.broker, "all").await, ["\"x0\"", "\"y0\"", "\"y1\"", "\"y2\"", "\"x1\""]);
    }

    async fn a_lane_gets_its_order_back_although_groups_failed_in_another(rig: Rig) {
        push(&rig.broker, "q", "p", &["0", "1"]).await;
        let one = |group: &str| { let mut r = from_lane("q", "p"); (r.batch, r.group) = (Some(1), group.into()); r };
        for group in ["a", "b"] {
            // Both groups know the lane; "a" completes the first message and gives up on the second.
            let popped = rig.broker.pop(one(group)).await.unwrap();
            let status = if group == "a" { AckStatus::Completed } else { AckStatus::Retry };
            ack_as(&rig.broker, &popped, group, &[("0", status)]).await;
        }
        bury_next(&rig.broker, "q", "p", "a", "later message, earlier failure").await;
        let popped = rig.broker.pop(one("b")).await.unwrap();
        ack_as(&rig.broker, &popped, "b", &[("0", AckStatus::Dlq)]).await;
        assert_eq!(rig.broker.redrive(of("q")).await.unwrap(), done(2, 2, 0));
        let seen = drain(&rig.broker, "q").await;
        assert_eq!(seen[2..], ["\"0\"", "\"1\""]);
    }

    async fn calls_are_bounded_and_go_on_with_or_without_the_cursor(rig: Rig) {
        let many: Vec<String> = (0..150).map(|i| format!("{i:03}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        bury(&rig.broker, "q", "p", &many[..100], "e").await;
        bury(&rig.broker, "q", "p", &many[100..], "e").await;
        let first = rig.broker.redrive(Redrive { limit: 70, ..of("q") }).await.unwrap();
        assert_eq!((first.matched, first.redriven, first.remaining), (150, 70, 80));
        let second = rig.broker.redrive(Redrive { limit: 40, ..of("q") }).await.unwrap();
        assert_eq!((second.matched, second.redriven, second.remaining), (80, 40, 40));
        let third = rig.broker.redrive(Redrive { cursor: second.cursor, ..of("q") }).await.unwrap();
        assert_eq!(third, done(40, 40, 0), "and no cursor at the end");
        let expected: Vec<String> = many.iter().map(|id| format!("{id:?}")).collect();
        assert_eq!(drain(&rig.broker, "q").await, expected);
    }

    async fn a_filter_narrows_and_a_dry_run_only_counts(rig: Rig) {
        bury(&rig.broker, "q", "a", &["1", "2"], "timeout: database").await;
        bury(&rig.broker, "q", "b", &["3"], "timeout: network").await;
        let from = Timestamp(rig.clock.load(Ordering::Relaxed));
        bury(&rig.broker, "q", "b", &["4"], "bad input").await;
        bury(&rig.broker, "other", "a", &["5"], "timeout").await;
        let base = of("q").filter;
        for (filter, count) in [
            (base.clone(), 4),
            (LetterQuery { partition: Some("a".into()), ..base.clone() }, 2),
            (LetterQuery { error: Some("timeout".into()), ..base.clone() }, 3),
            (LetterQuery { error: Some("%".into()), ..base.clone() }, 0),
            (LetterQuery { group: Some("nobody".into()), ..base.clone() }, 0),
            (LetterQuery { from: Some(from), ..base.clone() }, 1),
            (LetterQuery { to: Some(from), ..base.clone() }, 3),
        ] {
            let dry = Redrive { filter: filter.clone(), dry_run: true, ..of("q") };
            let seen = rig.broker.redrive(dry).await.unwrap();
            assert_eq!(seen, Redriven { matched: count, remaining: count, ..Redriven::default() }, "{filter:?}");
        }
        assert_eq!(letters(&rig.broker).await.len(), 5, "nothing has moved");
        let filter = LetterQuery { error: Some("timeout: ".into()), partition: Some("b".into()), ..base };
        assert_eq!(rig.broker.redrive(Redrive { filter, ..of("q") }).await.unwrap(), done(1, 1, 0));
        assert_eq!(drain(&rig.broker, "q").await, ["\"3\""]);
        assert!(matches!(rig.broker.redrive(of("nowhere")).await, Err(Refused::NotFound(_))));
    }

    async fn what_fails_again_is_not_redriven_by_the_same_walk(rig: Rig) {
        bury(&rig.broker, "q", "p", &["a", "b"], "e").await;
        let first = rig.broker.redrive(Redrive { limit: 1, ..of("q") }).await.unwrap();
        // Among several servers the end of a walk is known to a second.
        rig.advance(Duration::from_secs(2));
        bury_next(&rig.broker, "q", "p", QUEUE_MODE, "again").await;
        let second = rig.broker.redrive(Redrive { cursor: first.cursor, ..of("q") }).await.unwrap();
        assert_eq!(second, done(1, 1, 0));
        let left = letters(&rig.broker).await;
        assert_eq!((left.len(), &*left[0].letter.error), (1, "again"));
    }

    async fn an_edited_payload_and_another_queue_are_used(rig: Rig) {
        bury(&rig.broker, "q", "p", &["a", "b"], "e").await;
        let to = Replay { payload: Some("7".into()), queue: Some("else".into()), partition: None };
        let letter = letters(&rig.broker).await.remove(0).letter;
        let replayed = rig.broker.replay(letter.id, &to).await.unwrap();
        assert_eq!((&*replayed.queue, &*replayed.partition), ("else", "p"));
        assert_eq!(rig.broker.redrive(Redrive { to, ..of("q") }).await.unwrap(), done(1, 1, 0));
        assert_eq!(drain(&rig.broker, "else").await, ["7", "7"]);
        assert!(drain(&rig.broker, "q").await.is_empty());
    }

    async fn only_the_next_message_of_a_group_can_be_given_up_by_hand(rig: Rig) {
        let lane = push(&rig.broker, "q", "p", &["a", "b"]).await[0].lane;
        let give_up = async |id: &str, group: &str| {
            rig.broker.give_up(lane, id.into(), group.into(), Some("by hand".into())).await
        };
        let reason = |answer: Result<_, Refused>| answer.map(|_: bugle_broker::Acked| ()).unwrap_err().to_string();
        assert_eq!(reason(give_up("a", "g").await), "consumer not found");
        let mut request = from_lane("q", "p");
        (request.group, request.batch) = ("g".into(), Some(1));
        rig.broker.pop(request).await.unwrap();
        assert_eq!(reason(give_up("b", "g").await), "not the group's next message: 1 come before it");
        assert_eq!(reason(give_up("c", "g").await), "Message not found");
        assert!(give_up("a", "g").await.unwrap().dlq);
        assert!(reason(give_up("a", "g").await).starts_with("already committed"));
        assert!(give_up("b", "g").await.unwrap().dlq, "now it is the next one");
        let seen = letters(&rig.broker).await;
        assert_eq!(seen.len(), 2);
        assert!(seen.iter().all(|l| l.letter.error == "by hand" && &*l.letter.group == "g"));
    }

    async fn what_became_dead_and_went_back_is_counted(rig: Rig) {
        bury(&rig.broker, "q", "p", &["a", "b", "c"], "e").await;
        rig.broker.redrive(Redrive { limit: 2, ..of("q") }).await.unwrap();
        let reading = rig.broker.read();
        assert_eq!((reading.dead_lettered, reading.redriven), (3, 2));
    }
}

/// The store dies after the message was stored and before the letter is deleted; the replay comes again `later`.
async fn interrupted(window: u64, later: Duration, by_another: bool) {
    let shaky = Shaky::new().await;
    configure(&shaky.broker, "q", json!({"dedupWindowSeconds": window})).await;
    bury(&shaky.broker, "q", "p", &["a", "b"], "e").await;
    let letter = letters(&shaky.broker).await.pop().unwrap().letter;
    shaky.faulty.next("delete_dead_letters", Fault::Before);
    let lost = shaky.broker.replay(letter.id, &Replay::default()).await;
    assert!(matches!(lost, Err(Refused::Unavailable(_))), "{lost:?}");
    assert_eq!(letters(&shaky.broker).await.len(), 2, "the letter is still there");
    shaky.clock.fetch_add(later.as_micros() as i64, Ordering::Relaxed);
    let broker = if by_another { shaky.sibling().await } else { shaky.broker.clone() };
    let again = broker.replay(letter.id, &Replay::default()).await.unwrap();
    assert!(again.pushed.duplicate, "it was done already");
    assert_eq!(letters(&broker).await.len(), 1, "and now the letter is gone");
    assert_eq!(broker.redrive(of("q")).await.unwrap(), done(1, 1, 0));
    assert_eq!(drain(&broker, "q").await, ["\"a\"", "\"b\""]);
}

#[tokio::test]
async fn a_replay_that_died_before_the_deletion_is_finished_by_the_next() {
    for by_another in [false, true] {
        interrupted(3600, Duration::ZERO, by_another).await;
    }
}

#[tokio::test]
async fn it_is_also_finished_when_the_dedupe_window_has_passed() {
    for by_another in [false, true] {
        interrupted(3600, Duration::from_secs(7200), by_another).await;
    }
}

#[tokio::test]
async fn it_is_also_finished_where_a_queue_has_no_dedupe_window() {
    for by_another in [false, true] {
        interrupted(0, Duration::ZERO, by_another).await;
    }
}

#[tokio::test]
async fn a_redrive_whose_deletion_was_done_but_not_answered_stores_nothing_twice() {
    let shaky = Shaky::new().await;
    bury(&shaky.broker, "q", "p", &["a", "b"], "e").await;
    shaky.faulty.next("delete_dead_letters", Fault::After);
    assert!(matches!(shaky.broker.redrive(of("q")).await, Err(Refused::Unavailable(_))));
    assert_eq!(shaky.broker.redrive(of("q")).await.unwrap(), done(0, 0, 0));
    assert_eq!(drain(&shaky.broker, "q").await, ["\"a\"", "\"b\""]);
}

#[tokio::test]
async fn a_redrive_that_fails_on_the_way_tells_what_it_did() {
    let shaky = Shaky::new().await;
    let many: Vec<String> = (0..100).map(|i| format!("{i:03}")).collect();
    bury(&shaky.broker, "q", "p", &many.iter().map(String::as_str).collect::<Vec<_>>(), "e").await;
    let gate = shaky.faulty.hold_after("delete_dead_letters");
    let running = tokio::spawn({
        let broker = shaky.broker.clone();
        async move { broker.redrive(of("q")).await }
    });
    gate.reached().await;
    shaky.faulty.break_down(&["dead_letters_after"]);
    gate.open();
    let told = running.await.unwrap().unwrap();
    assert_eq!((told.matched, told.redriven, told.remaining), (100, 16, 84));
    assert!(told.error.unwrap().contains("dead_letters_after"));
    shaky.faulty.break_down(&[]);
    let rest = shaky.broker.redrive(Redrive { cursor: told.cursor, ..of("q") }).await.unwrap();
    assert_eq!(rest, done(84, 84, 0));
    let expected: Vec<String> = many.iter().map(|id| format!("{id:?}")).collect();
    assert_eq!(drain(&shaky.broker, "q").await, expected);
}

#[tokio::test]
async fn two_servers_that_redrive_the_same_letters_store_each_once() {
    let shaky = Shaky::new().await;
    let other = shaky.sibling().await;
    bury(&shaky.broker, "q", "p", &["a", "b", "c"], "e").await;
    // The first has listed the letters when the second moves all of them.
    let gate = shaky.faulty.hold_after("dead_letters_after");
    let running = tokio::spawn({
        let broker = shaky.broker.clone();
        async move { broker.redrive(of("q")).await }
    });
    gate.reached().await;
    assert_eq!(other.redrive(of("q")).await.unwrap(), done(3, 3, 0));
    gate.open();
    assert_eq!(running.await.unwrap().unwrap(), done(3, 0, 3));
    assert_eq!(drain(&other, "q").await, ["\"a\"", "\"b\"", "\"c\""]);
    assert!(drain(&shaky.broker, "q").await.is_empty());
}

fn key(id: &str, byte: u8) -> EncryptionKey {
    EncryptionKey { id: id.into(), key: [byte; 32] }
}

#[tokio::test]
async fn encrypted_letters_are_shown_in_clear_and_encrypted_anew_where_they_go() {
    let config = BrokerConfig { encryption_keys: vec![key("k", 1)], ..BrokerConfig::default() };
    let rig = Rig::with(false, config).await;
    configure(&rig.broker, "q", json!({"encryptionEnabled": true})).await;
    configure(&rig.broker, "safe", json!({"encryptionEnabled": true})).await;
    bury(&rig.broker, "q", "p", &["a", "b", "c"], "e").await;
    let seen = letters(&rig.broker).await;
    assert_eq!(&seen[0].message.as_ref().unwrap().payload[..], b"\"c\"");
    // A server without the key can neither show nor move them, and leaves them alone.
    let blind = rig.sibling().await;
    assert_eq!(blind.redrive(of("q")).await.unwrap(), done(3, 0, 3));
    assert!(matches!(blind.replay(seen[0].letter.id, &Replay::default()).await, Err(Refused::Conflict(_))));
    for (queue, letter) in [("safe", 0), ("open", 1), ("q", 2)] {
        let to = Replay { queue: Some(queue.into()), partition: Some("new".into()), ..Replay::default() };
        let pushed = rig.broker.replay(seen[letter].letter.id, &to).await.unwrap().pushed;
        let view =
            rig.broker.message(pushed.lane, std::str::from_utf8(&pushed.transaction_id).unwrap()).await;
        assert_eq!(view.unwrap().encrypted, queue != "open", "{queue}");
        assert_eq!(drain(&rig.broker, queue).await, [format!("{:?}", ["c", "b", "a"][letter])], "{queue}");
    }
}

#[tokio::test]
async fn letters_of_what_was_stored_under_an_old_key_are_under_the_new_one() {
    let with = |keys| BrokerConfig { encryption_keys: keys, ..BrokerConfig::default() };
    let rig = Rig::with(false, with(vec![key("old", 1)])).await;
    configure(&rig.broker, "q", json!({"encryptionEnabled": true, "ttl": 60, "enforce": ["ttl"]})).await;
    push(&rig.broker, "q", "p", &["a"]).await;
    push(&rig.broker, "q", "p", &["b"]).await;
    let open = async |keys| Broker::open(rig.engine.clone(), with(keys)).await.unwrap();
    let renewing = open(vec![key("new", 2), key("old", 1)]).await;
    let popped = renewing.pop(PopRequest { batch: Some(1), ..from_lane("q", "p") }).await.unwrap();
    assert!(
        ack_as(&renewing, &popped, QUEUE_MODE, &[("a", AckStatus::Dlq)]).await.iter().all(|acked| acked.dlq)
    );
    // The other one is too old by now, and is buried by the pop that meets it.
    rig.advance(Duration::from_secs(120));
    push(&renewing, "q", "p", &["c"]).await;
    assert_eq!(ids(&renewing.pop(from_queue("q")).await.unwrap()), ["c"]);
    let only = open(vec![key("new", 2)]).await;
    let seen: Vec<_> = letters(&only).await.into_iter().map(|l| l.message.unwrap().payload).collect();
    assert_eq!(seen, ["\"b\"", "\"a\""], "nothing is under the old key");
}

#[tokio::test]
async fn a_list_of_large_letters_ends_early_and_goes_on_behind_the_last() {
    let rig = Rig::new(true).await;
    let large = format!("\"{}\"", "x".repeat(1 << 20));
    for i in 0..110 {
        rig.broker.push(vec![item("q", "p", &format!("{i:03}"), &large)]).await.unwrap();
    }
    // A pop has a bound in bytes too.
    while rig.broker.dead_letters(&LetterQuery::default(), Page { offset: 0, limit: 0 }).await.unwrap().1
        < 110
    {
        bury_next(&rig.broker, "q", "p", QUEUE_MODE, "e").await;
    }
    let (first, total) = rig.broker.dead_letters(&LetterQuery::default(), ALL).await.unwrap();
    assert_eq!((first.len(), total), (100, 110), "no more than one step beyond the bound");
    let rest = Page { offset: 100, limit: 1000 };
    let (rest, _) = rig.broker.dead_letters(&LetterQuery::default(), rest).await.unwrap();
    assert_eq!((rest.len(), &*rest[9].letter.transaction_id), (10, "000"));
    assert_eq!(rig.broker.redrive(of("q")).await.unwrap(), done(110, 110, 0));
}
