//! A store with a copy that can stop following it, and takes its place when the first one fails: a failover to a standby.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use bugle_store::*;

const FOLLOWING: u8 = 0;
const LAGGING: u8 = 1;
const PROMOTED: u8 = 2;

/// See the module. While the copy follows, whatever changes the first is done to it too.
pub struct Histories {
    first: Arc<dyn Engine>,
    copy: Arc<dyn Engine>,
    state: AtomicU8,
    timeline: AtomicU64,
}

impl Histories {
    pub fn new(first: Arc<dyn Engine>, copy: Arc<dyn Engine>) -> Arc<Self> {
        let (state, timeline) = (AtomicU8::new(FOLLOWING), AtomicU64::new(0));
        Arc::new(Self { first, copy, state, timeline })
    }

    /// From now on the copy gets nothing.
    pub fn lag(&self) {
        self.state.store(LAGGING, Ordering::SeqCst);
    }

    /// The copy is the store from now on, as it is.
    pub fn fail_over(&self) {
        self.state.store(PROMOTED, Ordering::SeqCst);
        self.timeline.fetch_add(1, Ordering::SeqCst);
    }

    fn now_serving(&self) -> &Arc<dyn Engine> {
        if self.state.load(Ordering::SeqCst) == PROMOTED { &self.copy } else { &self.first }
    }

    fn follows(&self) -> bool {
        self.state.load(Ordering::SeqCst) == FOLLOWING
    }
}

macro_rules! changes {
    ($($name:ident($($arg:ident: $type:ty),*) -> $answer:ty;)*) => {$(
        fn $name(&self, $($arg: $type),*) -> Answer<'_, $answer> {
            let called = self.timeline();
            Box::pin(async move {
                if self.timeline() != called {
                    return Err(Unavailable::new("another timeline"));
                }
                if self.follows() {
                    self.copy.$name($($arg.clone()),*).await?;
                }
                self.now_serving().$name($($arg),*).await
            })
        }
    )*};
}

macro_rules! questions {
    ($($name:ident($($arg:ident: $type:ty),*) -> $answer:ty;)*) => {$(
        fn $name(&self, $($arg: $type),*) -> Answer<'_, $answer> {
            Box::pin(async move { self.now_serving().$name($($arg),*).await })
        }
    )*};
}

impl Store for Histories {
    fn now(&self) -> Now {
        self.first.now()
    }

    fn exclusive(&self) -> bool {
        false
    }

    fn timeline(&self) -> u64 {
        self.timeline.load(Ordering::SeqCst)
    }

    engine_calls!(append, swap, changes => changes);

    engine_calls!(questions => questions);
}

impl Catalog for Histories {
    engine_calls!(catalog_changes => changes);

    engine_calls!(catalog_questions => questions);
}

impl Engine for Histories {
    fn close(&self) -> Answer<'_, ()> {
        self.first.close()
    }
}
