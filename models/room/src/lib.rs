//! The waiting room of `bugle-duroxide` under the models' scheduler: the sources of the product, and fetches that look at a
//! shelf instead of a database.

#[path = "../../../crates/bugle-duroxide/src/planted.rs"]
mod planted;

#[expect(
    dead_code,
    unreachable_pub,
    reason = "more of it is used by the parts of the product that are not here"
)]
#[path = "../../../crates/bugle-duroxide/src/waking"]
mod waking {
    pub(crate) mod counters;
    pub(crate) mod room;
    pub(crate) mod work;
}

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::model::{Model, others_first};
use tokio::spawn;
use tokio::time::Instant;

use waking::counters::Counters;
use waking::room::{Cause, Room};
use waking::work::{Want, Work};

const HORIZON: Duration = Duration::from_secs(4);
const FOREVER: Duration = Duration::from_secs(3600);

/// What there is to take.
struct World {
    room: Arc<Room>,
    shelf: Mutex<u32>,
}

impl World {
    fn new() -> Arc<Self> {
        let room = Room::new(Arc::new(Counters::default()), Duration::ZERO, |_| ());
        Arc::new(Self { room: Arc::new(room), shelf: Mutex::new(0) })
    }

    /// Something to do is committed, then told.
    fn put(&self) {
        *self.shelf.lock() += 1;
        self.room.wake(Work::Turn, 1, Cause::Local);
    }

    /// One look: whether something was taken, and whether there is more.
    fn look(&self) -> (bool, bool) {
        let mut shelf = self.shelf.lock();
        let taken = *shelf > 0;
        *shelf -= u32::from(taken);
        (taken, *shelf > 0)
    }

    /// A fetch, in the order of steps that the product's has.
    async fn fetch(self: Arc<Self>) {
        let mut place = self.room.enter(Want::Turns { pins: None }, None);
        let mut first = true;
        loop {
            let seen = place.seen();
            if !(std::mem::take(&mut first) && place.is_known_empty()) {
                place.look();
                // Here the product waits for the database, and may be dropped.
                tokio::task::yield_now().await;
                let (taken, more) = self.look();
                others_first();
                let woken = place.conclude();
                if taken && more {
                    place.found_more(woken.is_some());
                } else {
                    place.found_no_more(seen, None, more, true);
                }
                if taken {
                    return;
                }
            }
            place.sit(seen, Instant::now() + FOREVER).await;
        }
    }
}

/// Two fetches and two things to do, in any order: both get one.
pub fn sitting() -> Model {
    Model::new("sitting", 2000, HORIZON, || async {
        let world = World::new();
        let fetches = [(); 2].map(|()| spawn(world.clone().fetch()));
        for _ in 0..2 {
            let world = world.clone();
            spawn(async move { world.put() });
        }
        for fetch in fetches {
            let _ = fetch.await;
        }
    })
}

/// Two fetches, one thing to do, and one of the fetches is dropped at some moment: the other one gets it. If the one that left
/// was faster, there is another.
pub fn leaving() -> Model {
    Model::new("leaving the room", 2000, HORIZON, || async {
        let world = World::new();
        let gone = spawn(world.clone().fetch());
        let stays = spawn(world.clone().fetch());
        let putting = spawn({
            let world = world.clone();
            async move { world.put() }
        });
        gone.abort();
        if gone.await.is_ok() {
            world.put();
        }
        let _ = putting.await;
        let _ = stays.await;
    })
}
