//! Queues: creation, update by version, names, snapshots; and the store's clock.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use uuid::Uuid;

use super::fixture::{Fixture, MANY, at, new_queue, unique, up};
use crate::{
    Enforced, Engine, GroupRecord, PutQueue, PutSwitches, Queue, QueueId, QueueOptions, Snapshot, Start,
    Switches, Timestamp,
};

async fn snapshot(engine: &dyn Engine) -> Snapshot {
    up(engine.snapshot(None).await).expect("a snapshot is given to who knows none")
}

fn stored(snapshot: &Snapshot, id: QueueId) -> Option<&Queue> {
    snapshot.queues.iter().find(|queue| queue.id == id)
}

/// Options in which every field differs from the default.
fn unusual_options() -> QueueOptions {
    QueueOptions {
        lease_time: 1,
        max_size: 2,
        ttl: 3,
        retry_limit: 4,
        retry_delay: 5,
        dead_letter_queue: false,
        dlq_after_max_retries: false,
        priority: -6,
        delayed_processing: 7,
        window_buffer: 8,
        retention_seconds: 9,
        completed_retention_seconds: 10,
        retention_enabled: true,
        encryption_enabled: true,
        max_wait_time_seconds: 11,
        dedup_window_seconds: 12,
        min_pop_wait_time: 13,
        retention_sink_hold: "höld \"it\"".into(),
        retention_sink_hold_max_seconds: 14,
        enforce: vec![Enforced::Ttl, Enforced::RetryDelay, Enforced::Priority, Enforced::MaxSize],
        paused: true,
    }
}

/// The store answers and knows the time, which does not run backwards.
pub async fn the_store_answers_and_tells_the_time(engine: Arc<dyn Engine>) {
    up(engine.ping().await);
    let mut last = engine.now();
    for _ in 0..100 {
        let now = engine.now();
        assert!(now.earliest <= now.latest);
        assert!(now.latest >= last.earliest, "time went back");
        last = now;
    }
    let wall = Timestamp::ZERO.plus(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default());
    let day = Duration::from_secs(86_400);
    assert!(last.latest >= wall.minus(day) && last.earliest <= wall.plus(day), "the clock is days off");
}

/// Every field of a queue comes back.
pub async fn queues_round_trip(engine: Arc<dyn Engine>) {
    let queue = Queue {
        namespace: "näme 'space'".into(),
        task: "ta\\sk\n\"x\"".into(),
        created_at: Timestamp(1_234_567_890_123_456),
        options: unusual_options(),
        ..new_queue(&unique("round-trip"))
    };
    assert_eq!(up(engine.put_queue(queue.clone()).await), PutQueue::Stored(queue.clone()));
    assert_eq!(stored(&snapshot(&*engine).await, queue.id), Some(&queue));
    let plain = new_queue(&unique("plain"));
    assert_eq!(up(engine.put_queue(plain.clone()).await), PutQueue::Stored(plain.clone()));
    assert_eq!(stored(&snapshot(&*engine).await, plain.id), Some(&plain));
}

/// A name belongs to the first queue that takes it.
pub async fn a_name_is_taken_once(engine: Arc<dyn Engine>) {
    let f = Fixture::new(engine).await;
    let late = Queue { task: "late".into(), ..new_queue(&f.queue.name) };
    assert_eq!(up(f.put_queue(late.clone()).await), PutQueue::Exists(Some(f.queue.clone())));
    assert_eq!(up(f.put_queue(f.queue.clone()).await), PutQueue::Exists(Some(f.queue.clone())));
    let now = snapshot(&*f.engine).await;
    assert_eq!(stored(&now, late.id), None);
    assert_eq!(stored(&now, f.queue.id), Some(&f.queue));
}

/// An update needs the version after the stored one.
pub async fn updates_compare_the_version(engine: Arc<dyn Engine>) {
    let f = Fixture::new(engine).await;
    let second = Queue { version: 2, task: "t2".into(), options: unusual_options(), ..f.queue.clone() };
    assert_eq!(up(f.put_queue(second.clone()).await), PutQueue::Stored(second.clone()));
    assert_eq!(stored(&snapshot(&*f.engine).await, f.queue.id), Some(&second));
    for version in [2, 4, 5] {
        let wrong = Queue { version, task: "wrong".into(), ..f.queue.clone() };
        assert_eq!(up(f.put_queue(wrong).await), PutQueue::Exists(Some(second.clone())), "version {version}");
    }
    assert_eq!(stored(&snapshot(&*f.engine).await, f.queue.id), Some(&second));
    let nobody = Queue { version: 2, ..new_queue(&unique("nobody")) };
    assert_eq!(up(f.put_queue(nobody).await), PutQueue::Exists(None));
}

fn record(queue: QueueId) -> GroupRecord {
    GroupRecord { queue, group: "g".into(), start: Start::All, conflation: false, created_at: at(1) }
}

/// Names are any text up to 255 bytes, compared byte by byte.
pub async fn names_are_any_text(engine: Arc<dyn Engine>) {
    let f = Fixture::new(engine).await;
    let tag = Uuid::new_v4().simple().to_string();
    let long = format!("{tag}{}", "ü".repeat(111)) + "x";
    assert_eq!(long.len(), 255);
    let tails = [
        "a",
        "A",
        "é",
        "e\u{301}",
        "ß",
        "日本",
        "\u{1F3BA}",
        "it's",
        "\"q\"",
        "a\\b",
        "%_",
        " a ",
        "\t\n",
        "{}",
    ];
    let mut names: Vec<String> = tails.iter().map(|tail| format!("{tag}{tail}")).collect();
    names.push(long);
    for name in &names {
        let queue = new_queue(name);
        assert_eq!(up(f.put_queue(queue.clone()).await), PutQueue::Stored(queue.clone()), "{name:?}");
        assert_eq!(stored(&snapshot(&*f.engine).await, queue.id), Some(&queue), "{name:?}");
        let lane = f.lane_at(name, at(0)).await;
        assert_eq!(&*lane.name, name);
        let cursor = f.seed(lane.id, name, 3).await;
        assert_eq!(f.cursor_of(lane.id, name).await, Some(cursor), "{name:?}");
        let group = GroupRecord { group: name.as_str().into(), ..record(f.queue.id) };
        assert_eq!(up(f.put_group(group.clone()).await), Some(group));
    }
    let lanes = up(f.lanes(f.queue.id, None, MANY).await);
    names.sort_unstable();
    let listed: Vec<&str> = lanes.iter().map(|lane| &*lane.name).collect();
    assert_eq!(listed, names, "in the order of their bytes");
}

/// The version of a snapshot grows with every change of a queue or group, and tells when nothing changed.
pub async fn the_snapshot_version_follows_changes(engine: Arc<dyn Engine>) {
    let f = Fixture::new(engine).await;
    let mut known = snapshot(&*f.engine).await.version;
    for step in 0..6 {
        let (id, group) = (f.queue.id, record(f.queue.id));
        match step {
            0 => drop(up(f.put_queue(Queue { version: 2, ..f.queue.clone() }).await)),
            1 => drop(up(f.put_queue(new_queue(&unique("another"))).await)),
            2 => drop(up(f.put_group(group).await)),
            3 => assert!(up(f.update_group(GroupRecord { conflation: true, ..group }).await)),
            4 => assert_eq!(up(f.delete_group(id, "g".into(), true).await), 0),
            _ => assert!(up(f.delete_queue(id).await)),
        }
        let next = up(f.snapshot(Some(known)).await).expect("something changed");
        assert!(next.version > known, "step {step}");
        known = next.version;
    }
    // Others may be changing theirs; sooner or later there is a quiet moment.
    for _ in 0..10_000 {
        match up(f.snapshot(Some(known)).await) {
            None => return,
            Some(next) => {
                assert!(next.version > known, "a snapshot is given although nothing changed");
                known = next.version;
            }
        }
    }
    panic!("a snapshot was always given");
}

/// All switches are off in a new store; a change is seen in the next snapshot, which has a greater version, and leaves alone
/// what it does not name. A store has one set of switches, and cases share stores: so there is one case for all of it, one at
/// a time, and it leaves them off.
pub async fn switches_are_kept(engine: Arc<dyn Engine>) {
    static TURN: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());
    let _turn = TURN.lock().await;
    let first = snapshot(&*engine).await;
    assert_eq!(first.switches, Switches::default());
    let on = PutSwitches { push_maintenance: Some(true), pop_maintenance: None };
    let also = PutSwitches { push_maintenance: None, pop_maintenance: Some(true) };
    let off = PutSwitches { push_maintenance: Some(false), pop_maintenance: None };
    let mut known = first.version;
    for (change, push_maintenance, pop_maintenance) in
        [(on, true, false), (also, true, true), (off, false, true), (PutSwitches::default(), false, true)]
    {
        let wanted = Switches { push_maintenance, pop_maintenance };
        assert_eq!(up(engine.put_switches(change).await), wanted);
        if change != PutSwitches::default() {
            let next = up(engine.snapshot(Some(known)).await).expect("something changed");
            assert!(next.version > known);
            assert_eq!(next.switches, wanted);
            known = next.version;
        }
    }
    let queue = new_queue(&unique("beside"));
    up(engine.put_queue(queue).await);
    let last = snapshot(&*engine).await.switches;
    assert_eq!(
        last,
        Switches { push_maintenance: false, pop_maintenance: true },
        "other changes leave them alone"
    );
    put_together(&engine).await;
}

/// Two who put different switches at the same time do not undo each other's.
async fn put_together(engine: &Arc<dyn Engine>) {
    for round in 0..10 {
        let on = round % 2 == 0;
        let put = |change| {
            let engine = engine.clone();
            tokio::spawn(async move { up(engine.put_switches(change).await) })
        };
        let push = put(PutSwitches { push_maintenance: Some(on), pop_maintenance: None });
        let pop = put(PutSwitches { push_maintenance: None, pop_maintenance: Some(on) });
        assert_eq!(push.await.expect("put").push_maintenance, on);
        assert_eq!(pop.await.expect("put").pop_maintenance, on);
        let now = snapshot(&**engine).await.switches;
        assert_eq!(now, Switches { push_maintenance: on, pop_maintenance: on });
    }
    assert_eq!(snapshot(&**engine).await.switches, Switches::default(), "the last round put them off");
}

/// Of many who create one name at the same time one wins, and all learn who.
pub async fn one_creation_wins(engine: Arc<dyn Engine>) {
    let name = unique("race");
    let tasks: Vec<_> = (0..16)
        .map(|_| {
            let (engine, queue) = (engine.clone(), new_queue(&name));
            tokio::spawn(async move { up(engine.put_queue(queue).await) })
        })
        .collect();
    let mut winners = Vec::new();
    let mut seen = Vec::new();
    for task in tasks {
        match task.await.expect("a creation") {
            PutQueue::Stored(queue) => winners.push(queue),
            PutQueue::Exists(other) => seen.push(other.expect("the one in the way")),
        }
    }
    assert_eq!(winners.len(), 1);
    assert!(seen.iter().all(|queue| *queue == winners[0]));
}

/// Listing pages of a queue that does not exist is empty.
pub async fn an_unknown_queue_has_no_lanes(engine: Arc<dyn Engine>) {
    assert_eq!(up(engine.lanes(QueueId::random(), None, 10).await), []);
}
