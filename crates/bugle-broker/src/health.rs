//! The broker's view of the store: whether the last calls were answered, and what to do when it comes back.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bugle_store::{Timestamp, Unavailable};

use crate::api::Refused;
use crate::inner::Inner;

/// What the last calls said of the store.
#[derive(Clone, Debug, Default)]
pub(crate) struct StoreHealth {
    pub(crate) away: bool,
    pub(crate) last_error: Option<(String, Timestamp)>,
}

impl Inner {
    /// Note how a store call went.
    pub(crate) fn watch<T>(&self, answer: Result<T, Unavailable>) -> Result<T, Refused> {
        self.meters.store_calls.one();
        self.timeline();
        match answer {
            Ok(value) => {
                let mut health = self.health.lock();
                if health.away {
                    health.away = false;
                    tracing::info!("the store answers again");
                }
                Ok(value)
            }
            Err(error) => {
                self.meters.store_errors.one();
                self.meters.stir();
                let mut health = self.health.lock();
                if !health.away {
                    tracing::warn!(reason = %error.reason, "the store does not answer");
                }
                health.away = true;
                health.last_error = Some((error.reason.clone(), self.engine.now().latest));
                Err(error.into())
            }
        }
    }

    pub(crate) fn store_health(&self) -> StoreHealth {
        self.health.lock().clone()
    }

    /// After a failure with pops waiting: ask for the store until it answers, then serve them.
    pub(crate) fn recover(self: &Arc<Self>) {
        if self.recovering.swap(true, Ordering::AcqRel) {
            return;
        }
        let inner = self.clone();
        tokio::spawn(async move {
            let mut pause = Duration::from_millis(50);
            loop {
                tokio::select! {
                    () = tokio::time::sleep(pause) => (),
                    () = inner.stop.cancelled() => return,
                }
                if inner.watch(inner.engine.ping().await).is_ok() {
                    break;
                }
                pause = (pause * 2).min(Duration::from_secs(1));
            }
            inner.recovering.store(false, Ordering::Release);
            inner.ask_for_all();
        });
    }
}
