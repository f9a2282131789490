//! Switches that operators set for all servers of a store, as this server follows them.
//!
//! What every push and pop asks is one atomic load. A change made elsewhere is a change of the catalog: told by a hint, found by
//! the floor, or by the first request after a silence.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tokio::sync::watch;

use bugle_store::{PutSwitches, Switches};

use crate::api::Refused;
use crate::inner::Inner;
use crate::news::News;

/// See the module.
pub(crate) struct Board {
    /// Pushes may not go straight to the store: it is maintained, or earlier ones wait in the spool.
    detours: AtomicBool,
    pops_paused: AtomicBool,
    now: watch::Sender<Switches>,
    /// Held by whoever follows a change, so that the last one to do so saw the latest.
    pub(crate) turn: Mutex<()>,
}

impl Board {
    pub(crate) fn new(now: Switches) -> Self {
        Self {
            detours: AtomicBool::new(now.push_maintenance),
            pops_paused: AtomicBool::new(now.pop_maintenance),
            now: watch::Sender::new(now),
            turn: Mutex::default(),
        }
    }

    /// Whether a push must look where to go.
    pub(crate) fn detours(&self) -> bool {
        self.detours.load(Ordering::Acquire)
    }

    /// To be called in one's turn.
    pub(crate) fn set_detours(&self, detours: bool) {
        self.detours.store(detours, Ordering::Release);
    }

    /// Whether pops get nothing.
    pub(crate) fn pops_paused(&self) -> bool {
        self.pops_paused.load(Ordering::Acquire)
    }

    /// The switches now.
    pub(crate) fn now(&self) -> Switches {
        *self.now.borrow()
    }

    /// Tells of changes.
    pub(crate) fn watch(&self) -> watch::Receiver<Switches> {
        self.now.subscribe()
    }

    /// Let everybody who watches look again.
    pub(crate) fn poke(&self) {
        self.now.send_modify(|_| ());
    }
}

impl Inner {
    /// See [`crate::Broker::switch`].
    pub(crate) async fn switch(self: &Arc<Self>, change: PutSwitches) -> Result<Switches, Refused> {
        let switches = self.watch(self.engine.put_switches(change).await)?;
        self.catalog.learn_switches(switches);
        self.follow_switches();
        self.tell(News::Catalog);
        Ok(switches)
    }

    /// Do as the catalog says.
    pub(crate) fn follow_switches(self: &Arc<Self>) {
        let paused = {
            let _turn = self.board.turn.lock();
            let now = self.catalog.switches();
            let before = self.board.now();
            if now == before {
                return;
            }
            tracing::info!(push = now.push_maintenance, pop = now.pop_maintenance, "maintenance");
            self.board.pops_paused.store(now.pop_maintenance, Ordering::Release);
            self.board.now.send_replace(now);
            now.pop_maintenance
        };
        if paused {
            self.answer_waiting();
        }
        self.spool_changed();
        self.floor.changed();
    }

    /// The switches as they are in the store, unless it takes long to tell.
    pub(crate) async fn latest_switches(self: &Arc<Self>) -> Switches {
        if !self.engine.exclusive() {
            let _ = tokio::time::timeout(self.config.floor.max, self.refresh_catalog()).await;
        }
        self.board.now()
    }

    /// Whether nobody may wait for messages here now.
    pub(crate) fn turns_away(&self) -> bool {
        self.draining.load(Ordering::Acquire) || self.board.pops_paused()
    }
}
