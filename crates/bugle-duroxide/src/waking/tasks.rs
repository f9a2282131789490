//! The three tasks behind the waiting room: one hears, one watches the clock, one looks now and then in any case.

use std::sync::{Arc, Weak};

use bugle_wake::Heard;
use tokio::sync::{Mutex, mpsc};
use tokio_util::sync::CancellationToken;

use crate::db::Db;
use crate::waking::counters::count;
use crate::waking::room::Room;
use crate::waking::supervise::supervise;
use crate::waking::tiding::Hint;
use crate::waking::watch::Watch;
use crate::waking::work::Queue;

/// What makes a task panic, for tests.
pub(crate) type Faults = Arc<[tokio::sync::Notify; 3]>;

/// Start them; they end when `stop` is cancelled or the watch is gone.
pub(crate) fn start(
    watch: &Arc<Watch>,
    db: &Arc<Db>,
    heard: mpsc::Receiver<Heard<Hint>>,
    fallback: std::time::Duration,
    stop: &CancellationToken,
    faults: &Faults,
) {
    let counters = Arc::clone(&watch.room.counters);
    let heard = Arc::new(Mutex::new(heard));
    let (weak, fault) = (Arc::downgrade(watch), Arc::clone(faults));
    supervise("listener", stop.clone(), Arc::clone(&counters), move || {
        let (weak, heard, fault) = (weak.clone(), Arc::clone(&heard), Arc::clone(&fault));
        async move { or_fault(&fault[0], hear(weak, heard)).await }
    });
    let (room, fault) = (Arc::clone(&watch.room), Arc::clone(faults));
    supervise("timer", stop.clone(), Arc::clone(&counters), move || {
        let (room, fault) = (Arc::clone(&room), Arc::clone(&fault));
        async move { or_fault(&fault[1], alarms(room)).await }
    });
    let (weak, db, fault) = (Arc::downgrade(watch), Arc::clone(db), Arc::clone(faults));
    supervise("fallback", stop.clone(), counters, move || {
        let (weak, db, fault) = (weak.clone(), Arc::clone(&db), Arc::clone(&fault));
        async move { or_fault(&fault[2], look_now_and_then(weak, db, fallback)).await }
    });
}

async fn or_fault(fault: &tokio::sync::Notify, task: impl Future<Output = ()>) {
    tokio::select! {
        () = task => {}
        () = fault.notified() => panic!("made to panic by a test"),
    }
}

/// Take in what the bell hears.
async fn hear(watch: Weak<Watch>, heard: Arc<Mutex<mpsc::Receiver<Heard<Hint>>>>) {
    let mut heard = heard.lock().await;
    // This may be a new start after a panic: what was in hand then is lost.
    if let Some(watch) = watch.upgrade() {
        watch.room.rouse();
    }
    while let Some(news) = heard.recv().await {
        let Some(watch) = watch.upgrade() else { return };
        match news {
            Heard::Tidings { tidings, .. } => tidings.into_iter().for_each(|hint| watch.heard(hint)),
            Heard::Recheck { reason, .. } => {
                tracing::debug!(reason, "something may have been missed; everybody looks");
                watch.room.rouse();
            }
            Heard::Health(hearing) => {
                tracing::info!(state = %hearing.state, "hearing of other nodes changed");
                watch.room.rouse();
            }
        }
    }
}

/// Wake those whose instant has come.
async fn alarms(room: Arc<Room>) {
    // As above.
    room.rouse();
    loop {
        let due = room.alarms.due().await;
        room.alarmed(&due);
    }
}

/// Find what nobody told of: rows inserted by hand, and what a crash swallowed.
async fn look_now_and_then(watch: Weak<Watch>, db: Arc<Db>, every: std::time::Duration) {
    loop {
        // A little apart, so that many nodes do not look in step.
        tokio::time::sleep(every.mul_f64(0.9 + fastrand::f64() * 0.1)).await;
        let Some(watch) = watch.upgrade() else { return };
        count(&watch.room.counters.fallbacks);
        let found = match db.look(watch.bell.take_ping()).await {
            Ok(found) => found,
            Err(error) => {
                tracing::debug!(%error, "the fallback could not look");
                continue;
            }
        };
        let counters = &watch.room.counters;
        counters.adopted.fetch_add(found.adopted, std::sync::atomic::Ordering::Relaxed);
        let queues = [(Queue::Orchestrations, found.orchestrations), (Queue::Activities, found.activities)];
        for (queue, at) in queues {
            if let Some(at) = at {
                watch.room.expect(queue, watch.instant(at));
            }
        }
    }
}
