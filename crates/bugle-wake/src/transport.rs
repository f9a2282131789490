//! What a carrier's transport must do: move frames, say when it is up or down. Everything else is the same for all.
//!
//! A transport is a future that takes jobs from one channel and puts events into another. It may lose, double or
//! reorder frames as it likes.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::mpsc;

use crate::hint::Source;
use crate::status::Counters;

/// How a transport reaches others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Everybody hears every frame, the sender too: its own frames coming back prove its health.
    Everyone,
    /// Each peer is sent to by itself and must answer; here are their names.
    Peers(Vec<String>),
}

/// Where frames go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destination {
    /// To everybody.
    Everyone,
    /// To the peer at this place of the list.
    Peer(usize),
    /// Back to where a frame came from.
    Back(SocketAddr),
}

/// Something for a transport to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Job {
    /// Send frames. With [`Shape::Everyone`] each job is answered by one [`Event::Sent`].
    Send {
        /// Where to.
        to: Destination,
        /// The frames, each at most [`Transport::max_frame`] bytes.
        frames: Vec<Bytes>,
    },
    /// Nothing is heard from there for too long: connect again, or look the address up again.
    Reset(Destination),
}

/// Something that happened to a transport.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// It can hear now. Again after a [`Event::Down`]: what was sent in between is lost.
    Up,
    /// It cannot hear.
    Down,
    /// A frame came in.
    Frame {
        /// Where an answer can be sent, if there is such a place.
        from: Option<SocketAddr>,
        /// The frame.
        bytes: Bytes,
    },
    /// Something came in that is no frame.
    Garbage,
    /// A job was done, or failed.
    Sent(bool),
}

/// A transport's ends of the channels.
#[derive(Debug)]
pub struct Line {
    /// What to do; closed when the transport should end after what is left.
    pub jobs: mpsc::Receiver<Job>,
    /// What happened.
    pub events: mpsc::Sender<Event>,
    /// To count what is dropped on the way.
    pub counters: Arc<Counters>,
}

/// The future that a transport runs as.
pub type Running = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Moves frames between servers.
pub trait Transport: Send + 'static {
    /// What it is called.
    fn source(&self) -> Source;

    /// How it reaches others.
    fn shape(&self) -> Shape;

    /// Longest frame it can move; at least 1,024 bytes.
    fn max_frame(&self) -> usize;

    /// Move frames until `line.jobs` is closed and empty.
    fn run(self: Box<Self>, line: Line) -> Running;
}

/// A way between servers, to be given to a bell.
pub struct Carrier {
    pub(crate) transport: Box<dyn Transport>,
}

impl Carrier {
    /// A carrier over any transport.
    pub fn custom(transport: impl Transport) -> Self {
        Self { transport: Box::new(transport) }
    }
}

impl std::fmt::Debug for Carrier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Carrier")
            .field("source", &self.transport.source())
            .field("shape", &self.transport.shape())
            .finish()
    }
}
