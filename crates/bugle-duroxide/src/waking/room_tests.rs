//! Tests of the waiting room: nobody sleeps through an event, and only as many get up as there is to do.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::task::JoinHandle;

use super::*;

const S: Duration = Duration::from_secs(1);
const TURNS: Want = Want::Turns { pins: None };
const PLAIN: Work = Work::Activity { tag: None, session: false };

struct Fixture {
    room: Arc<Room>,
    /// How often others had to be told.
    forsaken: Arc<AtomicU64>,
}

fn fixture() -> Fixture {
    let forsaken = Arc::new(AtomicU64::new(0));
    let told = Arc::clone(&forsaken);
    let room = Room::new(Arc::default(), Duration::ZERO, move |_| {
        told.fetch_add(1, Ordering::Relaxed);
    });
    Fixture { room: Arc::new(room), forsaken }
}

impl Fixture {
    /// A fetch that has looked, found nothing and sits; answers why it got up.
    async fn sitter(&self, want: Want, owner: Option<&str>) -> JoinHandle<Option<Cause>> {
        let mut place = self.room.enter(want, owner);
        let before = self.room.waiting();
        let sitting = tokio::spawn(async move {
            let seen = place.seen();
            place.sit(seen, Instant::now() + 3600 * S).await;
            place.conclude()
        });
        while self.room.waiting() == before {
            tokio::task::yield_now().await;
        }
        sitting
    }
}

fn activities(tags: &[&str]) -> Want {
    Want::Activities {
        plain: tags.is_empty(),
        tags: Some(tags.iter().map(|t| crate::waking::work::Tag::new(t)).collect()),
        sessions: true,
    }
}

#[tokio::test(start_paused = true)]
async fn one_gets_up_for_one_thing_to_do() {
    let f = fixture();
    let first = f.sitter(TURNS, None).await;
    let _second = f.sitter(TURNS, None).await;
    assert_eq!(f.room.wake(Work::Turn, 1, Cause::Local), 1);
    assert_eq!(first.await.unwrap(), Some(Cause::Local));
    assert_eq!(f.room.waiting(), 1);
    assert_eq!(f.room.wake(Work::Turn, 5, Cause::Local), 1, "no more sat there");
}

#[tokio::test(start_paused = true)]
async fn an_event_between_looking_and_sitting_down_is_not_missed() {
    let f = fixture();
    let mut place = f.room.enter(TURNS, None);
    let seen = place.seen();
    assert_eq!(f.room.wake(Work::Turn, 1, Cause::Remote), 0);
    place.found_no_more(seen, None, false, true);
    assert!(!place.is_known_empty());
    assert_eq!(place.sit(seen, Instant::now() + 3600 * S).await, Sat::Woken);
}

#[tokio::test(start_paused = true)]
async fn what_was_found_empty_stays_so_for_the_whole_group_until_something_happens() {
    let f = fixture();
    let (one, two) = (f.room.enter(TURNS, None), f.room.enter(TURNS, None));
    one.found_no_more(one.seen(), None, false, true);
    assert!(two.is_known_empty());
    f.room.wake(PLAIN, 1, Cause::Local);
    assert!(two.is_known_empty(), "not its concern");
    f.room.wake(Work::Turn, 1, Cause::Local);
    assert!(!two.is_known_empty() && !one.is_known_empty());
}

#[tokio::test(start_paused = true)]
async fn whoever_leaves_without_a_look_is_replaced() {
    let f = fixture();
    let mut leaver = f.room.enter(TURNS, None);
    let seen = leaver.seen();
    // Woken while it sits, dropped before it runs.
    let mut sitting = Box::pin(async { leaver.sit(seen, Instant::now() + 3600 * S).await });
    assert!(futures_poll(&mut sitting).await.is_none());
    let next = f.sitter(TURNS, None).await;
    f.room.wake(Work::Turn, 1, Cause::Local);
    drop(sitting);
    drop(leaver);
    assert_eq!(next.await.unwrap(), Some(Cause::Local));
    assert_eq!(f.forsaken.load(Ordering::Relaxed), 0);
}

#[tokio::test(start_paused = true)]
async fn with_nobody_to_replace_it_the_others_are_told() {
    let f = fixture();
    let mut leaver = f.room.enter(TURNS, None);
    let seen = leaver.seen();
    let mut sitting = Box::pin(async { leaver.sit(seen, Instant::now() + 3600 * S).await });
    assert!(futures_poll(&mut sitting).await.is_none());
    f.room.wake(Work::Turn, 1, Cause::Local);
    drop(sitting);
    let seen = leaver.seen();
    drop(leaver);
    assert_eq!(f.forsaken.load(Ordering::Relaxed), 1);
    assert_ne!(f.room.enter(TURNS, None).seen(), seen, "and the next fetch here looks");
}

#[tokio::test(start_paused = true)]
async fn an_earlier_instant_replaces_a_later_one_and_a_look_tells_the_next() {
    let f = fixture();
    let room = Arc::clone(&f.room);
    tokio::spawn(async move {
        loop {
            let due = room.alarms.due().await;
            room.alarmed(&due);
        }
    });
    let begun = Instant::now();
    let sitter = f.sitter(TURNS, None).await;
    f.room.expect(Queue::Orchestrations, begun + 60 * S);
    f.room.expect(Queue::Activities, begun + S);
    f.room.expect(Queue::Orchestrations, begun + 5 * S);
    assert_eq!(sitter.await.unwrap(), Some(Cause::Timed));
    assert_eq!(begun.elapsed().as_secs(), 5);
    // The look after it finds nothing and learns of the later one from the database.
    let mut place = f.room.enter(TURNS, None);
    let seen = place.seen();
    place.found_no_more(seen, Some(begun + 60 * S), false, true);
    assert_eq!(place.sit(seen, begun + 3600 * S).await, Sat::Woken);
    assert_eq!(begun.elapsed().as_secs(), 60);
}

#[tokio::test(start_paused = true)]
async fn an_instant_told_during_a_look_that_could_not_know_it_is_kept() {
    let f = fixture();
    let begun = Instant::now();
    let place = f.room.enter(TURNS, None);
    let seen = place.seen();
    f.room.expect(Queue::Orchestrations, begun + 5 * S);
    place.found_no_more(seen, None, false, true);
    assert_eq!(f.room.alarms.due().await.len(), 1);
    assert_eq!(begun.elapsed().as_secs(), 5);
}

#[tokio::test(start_paused = true)]
async fn a_fetch_dropped_in_the_middle_of_a_look_makes_another_look() {
    let f = fixture();
    let sitter = f.sitter(TURNS, None).await;
    let mut place = f.room.enter(TURNS, None);
    place.look();
    drop(place);
    assert_eq!(sitter.await.unwrap(), Some(Cause::Recheck));
    let mut place = f.room.enter(TURNS, None);
    place.found_no_more(place.seen(), None, false, true);
    place.look();
    assert!(place.is_known_empty());
    drop(place);
    assert!(!f.room.enter(TURNS, None).is_known_empty(), "or the next fetch that comes");
}

#[tokio::test(start_paused = true)]
async fn tags_and_sessions_find_the_right_one() {
    let f = fixture();
    let gpu = f.sitter(activities(&["gpu"]), None).await;
    let tag = Some(crate::waking::work::Tag::new("gpu"));
    assert_eq!(f.room.wake(PLAIN, 1, Cause::Local), 0);
    assert_eq!(f.room.wake(Work::Activity { tag, session: false }, 1, Cause::Local), 1);
    assert_eq!(gpu.await.unwrap(), Some(Cause::Local));
    let _one = f.sitter(activities(&[]), Some("one")).await;
    let two = f.sitter(activities(&[]), Some("two")).await;
    assert!(f.room.call(&["two".to_owned()]));
    assert_eq!(two.await.unwrap(), Some(Cause::Chained));
    assert!(!f.room.call(&["elsewhere".to_owned()]));
}

#[tokio::test(start_paused = true)]
async fn groups_are_bounded() {
    let f = fixture();
    for n in 0..1000 {
        drop(f.room.enter(Want::Turns { pins: Some((n, n)) }, None));
    }
    assert!(f.room.groups.lock().all.len() <= GROUPS);
}

/// Poll once.
async fn futures_poll<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
    std::future::poll_fn(|cx| {
        std::task::Poll::Ready(match std::pin::Pin::new(&mut *future).poll(cx) {
            std::task::Poll::Ready(output) => Some(output),
            std::task::Poll::Pending => None,
        })
    })
    .await
}
