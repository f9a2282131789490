//! The far side of a buffer: gathers batches and sends them, one at a time.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep, timeout_at};

use super::room::{BufferOptions, Places, State};
use crate::client::Client;
use crate::error::Error;
use crate::push::{NewMessage, PushStatus, Pushed};
use crate::retry::RetryPolicy;

/// What comes out of the buffer.
#[derive(Debug)]
pub(crate) enum Entry {
    /// A message and its places.
    Message(NewMessage, Places),
    /// Say when everything before this is sent.
    Flush(oneshot::Sender<()>),
}

impl Entry {
    pub(crate) fn into_message(self) -> Option<NewMessage> {
        match self {
            Self::Message(message, _) => Some(message),
            Self::Flush(_) => None,
        }
    }
}

/// Messages that are sent together, and their places.
#[derive(Debug, Default)]
pub(crate) struct Part {
    messages: Vec<NewMessage>,
    places: Vec<Places>,
}

impl Part {
    fn add(&mut self, message: NewMessage, places: Places) {
        self.messages.push(message);
        self.places.push(places);
    }

    /// The second half, taken away.
    fn split(&mut self) -> Self {
        let half = self.messages.len() / 2;
        Self { messages: self.messages.split_off(half), places: self.places.split_off(half) }
    }

    fn into_iter(self) -> impl Iterator<Item = (NewMessage, Places)> {
        self.messages.into_iter().zip(self.places)
    }
}

/// Why a batch is gathered no further.
enum End {
    Full,
    Flush(oneshot::Sender<()>),
    Closed,
}

/// The task that sends.
pub(crate) struct Sending {
    client: Client,
    options: BufferOptions,
    entries: mpsc::Receiver<Entry>,
    state: Arc<State>,
    /// Between tries while the server is away; the client's own retries come first.
    pauses: RetryPolicy,
}

impl Sending {
    pub(crate) fn new(
        client: Client,
        options: BufferOptions,
        entries: mpsc::Receiver<Entry>,
        state: Arc<State>,
    ) -> Self {
        let pauses = RetryPolicy::new(1, Duration::from_millis(100), Duration::from_secs(5));
        Self { client, options, entries, state, pauses }
    }

    /// Until the buffer is closed; what could not be sent.
    pub(crate) async fn run(mut self) -> Vec<NewMessage> {
        loop {
            let (part, end) = self.gather().await;
            if let Err(mut unsent) = self.send(part).await {
                self.entries.close();
                while let Some(entry) = self.entries.recv().await {
                    unsent.extend(entry.into_message());
                }
                return unsent;
            }
            match end {
                End::Full => {}
                End::Flush(done) => drop(done.send(())),
                End::Closed => return Vec::new(),
            }
        }
    }

    async fn gather(&mut self) -> (Part, End) {
        let (mut part, mut bytes, mut deadline) = (Part::default(), 0usize, None);
        loop {
            let entry = match deadline {
                None => self.entries.recv().await,
                Some(deadline) => match timeout_at(deadline, self.entries.recv()).await {
                    Ok(entry) => entry,
                    Err(_) => return (part, End::Full),
                },
            };
            match entry {
                None => return (part, End::Closed),
                Some(Entry::Flush(done)) => return (part, End::Flush(done)),
                Some(Entry::Message(message, places)) => {
                    bytes = bytes.saturating_add(message.size());
                    part.add(message, places);
                    deadline.get_or_insert_with(|| Instant::now() + self.options.linger);
                    if part.messages.len() >= self.options.batch_messages || bytes >= self.options.batch_bytes
                    {
                        return (part, End::Full);
                    }
                }
            }
        }
    }

    /// Send a batch, however long it takes. A batch that is refused for something in it is halved until what is wrong
    /// stands alone, so that no message suffers for its neighbours. The error is what was not sent when time was up.
    async fn send(&self, whole: Part) -> Result<(), Vec<NewMessage>> {
        let mut open = vec![whole];
        let mut failures = 0;
        while let Some(mut part) = open.pop() {
            if part.messages.is_empty() {
                continue;
            }
            let pushed = tokio::select! {
                biased;
                () = self.state.abandon.cancelled() => None,
                pushed = self.client.push_all(&part.messages) => Some(pushed),
            };
            match pushed {
                Some(Ok(pushed)) => {
                    failures = 0;
                    self.refuse_failed(part, pushed);
                }
                Some(Err(Error::Refused { status: 400 | 413, .. })) if part.messages.len() > 1 => {
                    let second = part.split();
                    open.extend([second, part]);
                }
                Some(Err(error @ (Error::Unavailable { .. } | Error::OutcomeUnknown { .. }))) => {
                    failures += 1;
                    let count = part.messages.len();
                    open.push(part);
                    if !self.go_on(failures, count, &error).await {
                        return Err(unsent(open));
                    }
                }
                Some(Err(error)) => self.state.refuse(part.into_iter(), error),
                None => {
                    open.push(part);
                    return Err(unsent(open));
                }
            }
        }
        Ok(())
    }

    /// Wait after a failure; whether to try again.
    async fn go_on(&self, failures: u32, count: usize, error: &Error) -> bool {
        if self.entries.is_closed() && !self.state.closing.load(Ordering::Acquire) {
            tracing::error!(count, %error, "a buffer was dropped, and what it held cannot be sent");
            return false;
        }
        tracing::warn!(count, failures, %error, "buffered messages wait for the server");
        tokio::select! {
            biased;
            () = self.state.abandon.cancelled() => false,
            () = sleep(self.pauses.pause(failures, None, fastrand::f64())) => true,
        }
    }

    /// The server took the request but could not store some of its messages.
    fn refuse_failed(&self, part: Part, pushed: Vec<Pushed>) {
        for ((message, places), pushed) in part.into_iter().zip(pushed) {
            if pushed.status == PushStatus::Failed {
                let text = pushed.error.unwrap_or_else(|| "no reason given".to_owned());
                let error = Error::Rejected { message: text, reason: None };
                self.state.refuse(std::iter::once((message, places)), error);
            }
        }
    }
}

/// What is left, in its order: the last part is the next one.
fn unsent(open: Vec<Part>) -> Vec<NewMessage> {
    open.into_iter().rev().flat_map(|part| part.messages).collect()
}
