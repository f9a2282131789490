//! Appends that fail or panic as a whole: what is no fault of the other lanes in the call does not fail them, nothing is
//! stored twice though the outcome of the failed call is unknown, and a lane is never stuck.
#![allow(clippy::unwrap_used)]

mod common;
#[path = "common/faulty.rs"]
mod faulty;

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use bugle_broker::{Broker, BrokerConfig, Pushed, Refused};
use bugle_store::{Engine, LaneId, MemoryStore, Read};

use common::*;
use faulty::{Fault, Faulty, Gate};

const LANES: usize = 8;
const BAD: usize = 3;

type Pushing<'a> = Pin<Box<dyn Future<Output = Result<Vec<Pushed>, Refused>> + 'a>>;

struct Scene {
    broker: Broker,
    faulty: Arc<Faulty>,
    plain: Arc<dyn Engine>,
}

impl Scene {
    /// A broker that makes one call at a time, and lanes with one message each.
    async fn new(shared: bool, dedupe: bool) -> Self {
        let store = MemoryStore::new();
        let plain: Arc<dyn Engine> = if shared { Arc::new(store.shared()) } else { Arc::new(store) };
        let faulty = Faulty::new(plain.clone());
        let config = BrokerConfig { calls_in_flight: (1, 1), ..BrokerConfig::default() };
        let broker = Broker::open(faulty.clone(), config).await.unwrap();
        if !dedupe {
            configure(&broker, "q", serde_json::json!({ "dedupWindowSeconds": 0 })).await;
        }
        for n in 0..LANES {
            push(&broker, "q", &format!("lane-{n}"), &[&format!("old-{n}")]).await;
        }
        push(&broker, "q", "gate", &["old"]).await;
        Self { broker, faulty, plain }
    }

    async fn begin(&self, lane: &str, id: &str) -> Pushing<'_> {
        let mut pushing: Pushing<'_> = Box::pin(self.broker.push(vec![item("q", lane, id, "1")]));
        let waits = poll_fn(|cx| Poll::Ready(pushing.as_mut().poll(cx).is_pending())).await;
        assert!(waits, "a push that was not sent is answered");
        pushing
    }

    /// Push to all lanes so that one call carries them.
    async fn push_together(&self) -> Vec<Result<Vec<Pushed>, Refused>> {
        let gate = self.faulty.hold_before("append");
        let first = self.begin("gate", "new").await;
        gate.reached().await;
        let mut waiting = Vec::new();
        for n in 0..LANES {
            waiting.push(self.begin(&format!("lane-{n}"), &format!("new-{n}")).await);
        }
        gate.open();
        first.await.unwrap();
        let mut answers = Vec::new();
        for pushing in waiting {
            answers.push(pushing.await);
        }
        answers
    }

    async fn bad_lane(&self) -> LaneId {
        self.stored().await.into_iter().find(|(name, ..)| *name == format!("lane-{BAD}")).unwrap().1
    }

    /// Name, id and transaction ids of every lane.
    async fn stored(&self) -> Vec<(String, LaneId, Vec<String>)> {
        let queue = self.plain.snapshot(None).await.unwrap().unwrap().queues[0].id;
        let lanes = self.plain.lanes(queue, None, 100).await.unwrap();
        let mut all = Vec::new();
        for lane in lanes {
            let read = Read { lane: lane.id, from: 0, to: lane.head, max_bytes: usize::MAX };
            let segments = self.plain.read(vec![read]).await.unwrap().remove(0);
            let messages = segments.iter().flat_map(|s| s.messages().unwrap());
            let ids = messages.map(|m| m.transaction().to_owned()).collect();
            all.push((lane.name.to_string(), lane.id, ids));
        }
        all
    }

    async fn fail_with_bad_lane(&self, fault: Fault) {
        let bad = self.bad_lane().await;
        self.faulty.judge_appends(move |batch| batch.iter().any(|a| a.lane == bad).then(|| fault.clone()));
    }

    async fn check_stored(&self, without: Option<usize>) {
        let stored = self.stored().await;
        for n in 0..LANES {
            let (_, _, ids) = stored.iter().find(|(name, ..)| *name == format!("lane-{n}")).unwrap();
            let mut expected = vec![format!("old-{n}")];
            if without != Some(n) {
                expected.push(format!("new-{n}"));
            }
            assert_eq!(*ids, expected, "lane-{n}");
        }
    }
}

fn is_stored(answer: &Result<Vec<Pushed>, Refused>) -> bool {
    match answer {
        Ok(pushed) => {
            assert!(!pushed[0].duplicate, "its own first try is no duplicate");
            true
        }
        Err(Refused::Unavailable(_)) => false,
        Err(other) => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_lane_the_store_cannot_take_does_not_fail_the_others() {
    for (shared, dedupe) in [(false, true), (true, true), (false, false), (true, false)] {
        let scene = Scene::new(shared, dedupe).await;
        scene.fail_with_bad_lane(Fault::Before).await;
        let before = scene.faulty.calls("append");
        let answers = scene.push_together().await;
        for (n, answer) in answers.iter().enumerate() {
            assert_eq!(is_stored(answer), n != BAD, "lane-{n}, shared {shared}, dedupe {dedupe}: {answer:?}");
        }
        scene.check_stored(Some(BAD)).await;
        let calls = scene.faulty.calls("append") - before;
        // The gate's, eight lanes, two times four, two and one.
        assert_eq!(calls, 8, "shared {shared}, dedupe {dedupe}");
    }
}

#[tokio::test]
async fn what_a_failed_call_has_stored_is_not_stored_again() {
    for shared in [false, true] {
        let scene = Scene::new(shared, true).await;
        scene.fail_with_bad_lane(Fault::After).await;
        let answers = scene.push_together().await;
        assert!(answers.iter().all(is_stored), "shared {shared}: {answers:?}");
        scene.check_stored(None).await;
    }
}

#[tokio::test]
async fn without_dedupe_what_may_be_stored_is_not_sent_again() {
    for shared in [false, true] {
        let scene = Scene::new(shared, false).await;
        scene.fail_with_bad_lane(Fault::After).await;
        let answers = scene.push_together().await;
        assert!(!answers.iter().any(is_stored), "shared {shared}: {answers:?}");
        scene.check_stored(None).await;
    }
}

#[tokio::test]
async fn a_store_that_is_away_is_reported_after_one_call() {
    let scene = Scene::new(true, true).await;
    scene.fail_with_bad_lane(Fault::Before).await;
    scene.faulty.break_down(&["ping"]);
    let before = scene.faulty.calls("append");
    let answers = scene.push_together().await;
    assert!(!answers.iter().any(is_stored), "{answers:?}");
    assert_eq!(scene.faulty.calls("append") - before, 2, "the gate's and one");
}

#[tokio::test]
async fn a_lane_whose_append_panicked_takes_the_next_push() {
    let scene = Scene::new(false, true).await;
    let gate = Gate::new();
    scene.faulty.next("append", Fault::Panic(gate.clone()));
    let first = scene.begin("lane-0", "first").await;
    gate.reached().await;
    let behind = scene.begin("lane-0", "behind").await;
    let elsewhere = scene.begin("lane-1", "elsewhere").await;
    gate.open();
    assert!(matches!(first.await, Err(Refused::Unavailable(_))));
    assert!(matches!(behind.await, Err(Refused::Unavailable(_))));
    assert!(!elsewhere.await.unwrap()[0].duplicate, "another lane's push goes on");
    let answers = push(&scene.broker, "q", "lane-0", &["first", "behind"]).await;
    assert!(answers.iter().all(|pushed| !pushed.duplicate));
}
