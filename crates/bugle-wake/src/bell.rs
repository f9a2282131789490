//! The bell: what moved here goes out over every carrier, what moved elsewhere comes in through one channel.

use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_STANDARD_NO_PAD;
use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::core::{Core, Gate};
use crate::driver::{Board, Driver, Seat};
use crate::frame::{Body, Frame, HEADER};
use crate::hint::{Audience, Heard, Hearing, Source, Tiding};
use crate::notify;
use crate::options::BellOptions;
use crate::outbox::pack;
use crate::planted::race;
use crate::status::{CarrierStatus, Counters};
use crate::transport::{Carrier, Line};

/// Jobs and events between a carrier and its transport.
const LINE: usize = 1024;

/// Tells other servers what moved here, and hears what moved there. Cloning shares it; when the last clone is dropped
/// its carriers end.
pub struct Bell<T> {
    inner: Arc<Inner<T>>,
}

struct Inner<T> {
    seats: Vec<Arc<Seat<T>>>,
    board: Arc<Board>,
    cancel: CancellationToken,
    tasks: TaskTracker,
    /// Keeps the channel open while there is no carrier to do so.
    _heard: mpsc::Sender<Heard<T>>,
}

impl<T> Clone for Bell<T> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner) }
    }
}

impl<T> std::fmt::Debug for Bell<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Inner { seats, board, .. } = &*self.inner;
        f.debug_struct("Bell").field("carriers", &seats.len()).field("hearing", &board.hearing()).finish()
    }
}

impl<T> Drop for Inner<T> {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}

impl<T: Tiding> Bell<T> {
    /// A bell with carriers, and what it hears. Without carriers it is silent: ringing does nothing, the state stays
    /// isolated. Must be called inside a tokio runtime.
    pub fn start(options: BellOptions, carriers: Vec<Carrier>) -> (Self, mpsc::Receiver<Heard<T>>) {
        let (heard, receiver) = mpsc::channel(options.heard.max(1));
        let board = Arc::new(Board::new(carriers.len()));
        let (cancel, tasks) = (CancellationToken::new(), TaskTracker::new());
        let now = Instant::now();
        let mut seats = Vec::new();
        for (place, Carrier { transport }) in carriers.into_iter().enumerate() {
            let counters = Arc::new(Counters::default());
            let (source, shape, room) = (transport.source(), transport.shape(), transport.max_frame());
            let core = Core::new(options.clone(), source, shape, room, now, Arc::clone(&counters));
            let seat = Arc::new(Seat { core: Mutex::new(core), wake: Notify::new() });
            let (jobs, todo) = mpsc::channel(LINE);
            let (happened, events) = mpsc::channel(LINE);
            let running = transport.run(Line { jobs: todo, events: happened, counters });
            let driver = Driver {
                place,
                seat: Arc::clone(&seat),
                board: Arc::clone(&board),
                heard: heard.clone(),
                jobs,
                events,
                transport: tokio::spawn(running),
                cancel: cancel.clone(),
            };
            tokio::spawn(tasks.track_future(driver.run()));
            seats.push(seat);
        }
        tasks.close();
        (Self { inner: Arc::new(Inner { seats, board, cancel, tasks, _heard: heard }) }, receiver)
    }

    /// Tell the other servers, after the change is durable. Never waits, never fails. Where nobody else is heard
    /// nothing is sent.
    pub fn ring(&self, tiding: T) {
        let now = Instant::now();
        for seat in &self.inner.seats {
            let early = race("wake the driver before the hint is there");
            if early {
                seat.wake.notify_one();
            }
            let look = seat.core.lock().ring(tiding.clone(), now);
            if look && !early {
                seat.wake.notify_one();
            }
        }
    }

    /// Somebody waits here for a topic. Counted: each call is undone by one [`Bell::unwant`]. Until a re-check with
    /// the reason "interest announced" peers may not know it yet.
    pub fn want(&self, topic: u64) {
        let now = Instant::now();
        for seat in &self.inner.seats {
            let look = seat.core.lock().want(topic, now);
            if look {
                seat.wake.notify_one();
            }
        }
    }

    /// Undo one [`Bell::want`]. The topic stays wanted for [`BellOptions::linger`].
    pub fn unwant(&self, topic: u64) {
        let now = Instant::now();
        for seat in &self.inner.seats {
            seat.core.lock().unwant(topic, now);
        }
    }

    /// Whether other servers are heard.
    pub fn hearing(&self) -> Hearing {
        self.inner.board.hearing()
    }

    /// For health pages and metrics: one entry per carrier, in the order given.
    pub fn status(&self) -> Vec<CarrierStatus> {
        let now = Instant::now();
        self.inner.seats.iter().map(|seat| seat.core.lock().status(now)).collect()
    }

    /// A ping of the NOTIFY carrier that is due soon, to ride on a statement that is sent anyway: whoever takes it
    /// promises to publish the text on the channel now. `None`: not due.
    pub fn take_ping(&self) -> Option<String> {
        let now = Instant::now();
        self.inner.seats.iter().find_map(|seat| {
            let mut core = seat.core.lock();
            let frame = (core.source == Source::Notify).then(|| core.take_ping(now)).flatten()?;
            Some(BASE64_STANDARD_NO_PAD.encode(frame))
        })
    }

    /// Whether a ring would reach anybody.
    pub fn audience(&self) -> Audience {
        let now = Instant::now();
        let mut audience = Audience::Nobody;
        for seat in &self.inner.seats {
            match seat.core.lock().gate(now) {
                Gate::Open => return Audience::Somebody,
                Gate::Waiting => audience = Audience::NotKnownYet,
                Gate::Closed => {}
            }
        }
        audience
    }

    /// Tidings as a text to publish on the channel of the NOTIFY carrier by a statement of the caller's own: for a
    /// process that may end before its bell has rung. It is not numbered, so nobody notices if it is lost. `None`: too
    /// many for one payload.
    pub fn unsigned(tidings: &[T]) -> Option<String> {
        match pack(tidings.iter(), notify::FRAME - HEADER).as_slice() {
            [body @ Body::Hints(_)] => {
                let frame = Frame { sender: 0, to: 0, sequence: 0, body: body.clone() };
                Some(BASE64_STANDARD_NO_PAD.encode(frame.encode()))
            }
            _ => None,
        }
    }

    /// Say goodbye, so that the others forget this server, and stop.
    pub async fn close(&self) {
        self.inner.cancel.cancel();
        self.inner.tasks.wait().await;
    }
}
