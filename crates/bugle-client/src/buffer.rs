//! Pushes that are gathered into large requests.
//!
//! One task sends one batch at a time, so that the messages of a partition keep their order. A message takes its place
//! before it enters and gives it back when the server has it (or the caller has it again): so the buffer is bounded
//! from end to end, and a producer that is faster than the server waits.

mod room;
mod sending;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::client::Client;
use crate::push::NewMessage;
use room::{Room, State};
use sending::{Entry, Sending};

pub use room::{BufferError, BufferOptions, Refusal};

/// Gathers pushes into large requests; made by [`Client::buffer`].
///
/// [`push`](Self::push) waits while the buffer is full. While the server is away the buffer keeps what it has and tries
/// again; nothing is ever dropped. What the server refuses is given back to the caller by the next call.
///
/// Close it with [`close`](Self::close). A buffer that is just dropped tries once more to send what it holds, in the
/// background, and nobody is told how that went.
#[derive(Debug)]
pub struct Buffer {
    entries: mpsc::Sender<Entry>,
    room: Room,
    state: Arc<State>,
    sending: JoinHandle<Vec<NewMessage>>,
}

impl Client {
    /// A buffer in front of [`push_all`](Self::push_all). Must be called inside a Tokio runtime.
    pub fn buffer(&self, options: BufferOptions) -> Buffer {
        let room = Room::new(options);
        // As many entries as there are places: to send one that has its place never waits.
        let (entries, receiver) = mpsc::channel(room.messages);
        let state = Arc::new(State::default());
        let sending = Sending::new(self.clone(), options, receiver, state.clone());
        Buffer { entries, room, state, sending: tokio::spawn(sending.run()) }
    }
}

impl Buffer {
    /// Put a message into the buffer, as soon as there is room. An error is about earlier messages, which it gives
    /// back; it gives this one back too.
    pub async fn push(&self, message: NewMessage) -> Result<(), BufferError> {
        let mut trouble = self.state.trouble.subscribe();
        let places = tokio::select! {
            biased;
            _ = trouble.wait_for(|trouble| *trouble) => None,
            places = self.room.places(message.size()) => places,
        };
        let Some(places) = places else {
            return Err(BufferError { refused: self.state.take(), unsent: vec![message] });
        };
        match self.entries.send(Entry::Message(message, places)).await {
            Ok(()) => Ok(()),
            Err(closed) => {
                let unsent = closed.0.into_message().into_iter().collect();
                Err(BufferError { refused: self.state.take(), unsent })
            }
        }
    }

    /// Wait until everything pushed so far is with the server. Takes as long as the server is away.
    pub async fn flush(&self) -> Result<(), BufferError> {
        let (done, flushed) = oneshot::channel();
        if self.entries.send(Entry::Flush(done)).await.is_ok() {
            let _ = flushed.await;
        }
        self.state.told(Vec::new())
    }

    /// Messages in the buffer, those on their way included.
    pub fn len(&self) -> usize {
        self.room.messages - self.room.count.available_permits()
    }

    /// Whether everything is with the server.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Send the rest and end. What the server does not have after `within` is given back; as each message keeps its
    /// id, it can be pushed again even if it did arrive.
    pub async fn close(self, within: Duration) -> Result<(), BufferError> {
        let Self { entries, state, mut sending, .. } = self;
        state.closing.store(true, Ordering::Release);
        drop(entries);
        let ended = match timeout(within, &mut sending).await {
            Ok(ended) => ended,
            Err(_) => {
                state.abandon.cancel();
                sending.await
            }
        };
        state.told(ended.unwrap_or_default())
    }
}
