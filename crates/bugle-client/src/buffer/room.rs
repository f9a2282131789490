//! The bounds of a buffer, the places in it, and what was refused.

use std::fmt;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio_util::sync::CancellationToken;

use crate::error::Error;
use crate::push::NewMessage;

/// Bounds of a [`Buffer`](crate::Buffer).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct BufferOptions {
    /// Most messages in the buffer, those on their way included.
    pub max_messages: usize,
    /// Most bytes in the buffer, those on their way included. A larger message goes alone.
    pub max_bytes: usize,
    /// A request is sent when it has so many messages,
    pub batch_messages: usize,
    /// or so many bytes,
    pub batch_bytes: usize,
    /// or when its first message has waited so long.
    pub linger: Duration,
}

impl Default for BufferOptions {
    fn default() -> Self {
        Self {
            max_messages: 10_000,
            max_bytes: 32 << 20,
            batch_messages: 500,
            batch_bytes: 4 << 20,
            linger: Duration::from_millis(10),
        }
    }
}

impl BufferOptions {
    /// Most messages and bytes in the buffer.
    #[must_use]
    pub fn hold(mut self, messages: usize, bytes: usize) -> Self {
        (self.max_messages, self.max_bytes) = (messages, bytes);
        self
    }

    /// When a request is sent: with so many messages, so many bytes, or after so long.
    #[must_use]
    pub fn batch(mut self, messages: usize, bytes: usize, linger: Duration) -> Self {
        (self.batch_messages, self.batch_bytes, self.linger) = (messages, bytes, linger);
        self
    }
}

/// Messages that did not get through.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct BufferError {
    /// Refused by the server, each with the reason.
    pub refused: Vec<Refusal>,
    /// Not sent, or sent without an answer.
    pub unsent: Vec<NewMessage>,
}

/// A message that the server refused.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Refusal {
    /// The message.
    pub message: NewMessage,
    /// Why. Shared by those that were refused together.
    pub error: Arc<Error>,
}

impl fmt::Display for BufferError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} messages refused, {} not sent", self.refused.len(), self.unsent.len())
    }
}

impl std::error::Error for BufferError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.refused.first().map(|refusal| &*refusal.error as _)
    }
}

/// The places of a buffer.
#[derive(Debug)]
pub(crate) struct Room {
    pub(crate) messages: usize,
    bytes: u32,
    pub(crate) count: Arc<Semaphore>,
    size: Arc<Semaphore>,
}

/// What a message holds while it is in the buffer.
#[derive(Debug)]
pub(crate) struct Places {
    _one: OwnedSemaphorePermit,
    _bytes: OwnedSemaphorePermit,
}

impl Room {
    pub(crate) fn new(options: BufferOptions) -> Self {
        let messages = options.max_messages.clamp(1, Semaphore::MAX_PERMITS);
        let bytes = u32::try_from(options.max_bytes.clamp(1, 1 << 31)).unwrap_or(1 << 31);
        let (count, size) = (Semaphore::new(messages), Semaphore::new(bytes as usize));
        Self { messages, bytes, count: Arc::new(count), size: Arc::new(size) }
    }

    /// Places for a message of `size`. One that is larger than the buffer takes all of it.
    pub(crate) async fn places(&self, size: usize) -> Option<Places> {
        let size = u32::try_from(size).unwrap_or(u32::MAX).min(self.bytes);
        let _one = self.count.clone().acquire_owned().await.ok()?;
        let _bytes = self.size.clone().acquire_many_owned(size).await.ok()?;
        Some(Places { _one, _bytes })
    }
}

/// What both sides of a buffer know.
#[derive(Debug, Default)]
pub(crate) struct State {
    /// Refused messages keep their places until the caller has them: nothing here grows beyond the buffer's bounds.
    refused: Mutex<Vec<(Refusal, Places)>>,
    /// There are some.
    pub(crate) trouble: watch::Sender<bool>,
    /// The end was asked for; otherwise an end is a drop.
    pub(crate) closing: AtomicBool,
    /// Give back what is left.
    pub(crate) abandon: CancellationToken,
}

impl State {
    pub(crate) fn refuse(&self, part: impl Iterator<Item = (NewMessage, Places)>, error: Error) {
        let error = Arc::new(error);
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        refused.extend(part.map(|(message, places)| (Refusal { message, error: error.clone() }, places)));
        self.trouble.send_replace(true);
    }

    pub(crate) fn take(&self) -> Vec<Refusal> {
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        self.trouble.send_replace(false);
        refused.drain(..).map(|(refusal, _)| refusal).collect()
    }

    pub(crate) fn told(&self, unsent: Vec<NewMessage>) -> Result<(), BufferError> {
        let refused = self.take();
        if refused.is_empty() && unsent.is_empty() { Ok(()) } else { Err(BufferError { refused, unsent }) }
    }
}
