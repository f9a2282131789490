//! Runs the user's handler and turns how it went into acknowledgements.

use std::any::Any;
use std::fmt::Display;
use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;
use tokio_util::sync::CancellationToken;

use crate::ack::{Ack, Verdict};
use crate::message::Message;

/// When to begin no further message.
pub(crate) struct Hold<'a> {
    pub(crate) stop: &'a CancellationToken,
    /// The lease is over, so somebody else may have the messages by now.
    pub(crate) lost: &'a CancellationToken,
}

impl Hold<'_> {
    fn is_over(&self) -> bool {
        self.stop.is_cancelled() || self.lost.is_cancelled()
    }
}

/// What is done with a delivery.
pub(crate) trait Handler: Send + Sync + 'static {
    /// Handle the messages; what is to be said of them.
    fn handle(&self, messages: Vec<Message>, hold: &Hold<'_>) -> impl Future<Output = Vec<Ack>> + Send;
}

/// One message at a time.
pub(crate) struct Each<F>(pub(crate) F);

impl<F, Fut> Handler for Each<F>
where
    F: Fn(Message) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Verdict> + Send,
{
    async fn handle(&self, messages: Vec<Message>, hold: &Hold<'_>) -> Vec<Ack> {
        let mut acks = Vec::with_capacity(messages.len());
        // The lane in which nothing more is begun: its rest comes again in its order.
        let mut closed = None;
        let mut messages = messages.into_iter().peekable();
        while let Some(message) = messages.next() {
            let lane = message.partition_id;
            if closed == Some(lane) {
                continue;
            }
            if hold.is_over() {
                acks.push(Ack::retry(&message));
                closed = Some(lane);
                continue;
            }
            let ack = Ack::completed(&message);
            let verdict = caught(async { Ok::<_, String>((self.0)(message).await) }).await;
            let ack = ack.judged(verdict.unwrap_or_else(Verdict::Failed));
            let done = ack.status == "completed";
            acks.push(ack);
            if !done {
                // If this one becomes a dead letter the rest is still leased: it is given back by name.
                acks.extend(messages.next_if(|next| next.partition_id == lane).map(|next| Ack::retry(&next)));
                closed = Some(lane);
            }
        }
        acks
    }
}

/// All messages at once.
pub(crate) struct Batches<F>(pub(crate) F);

impl<F, Fut, E> Handler for Batches<F>
where
    F: Fn(Vec<Message>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<(), E>> + Send,
    E: Display + Send,
{
    async fn handle(&self, messages: Vec<Message>, hold: &Hold<'_>) -> Vec<Ack> {
        if hold.is_over() {
            return messages.iter().map(Ack::retry).collect();
        }
        let acks: Vec<Ack> = messages.iter().map(Ack::completed).collect();
        match caught(async { (self.0)(messages).await }).await {
            Ok(()) => acks,
            Err(text) => acks.into_iter().map(|ack| ack.judged(Verdict::Failed(text.clone()))).collect(),
        }
    }
}

/// Run a handler; its error, or its panic, as text.
async fn caught<T, E: Display>(handling: impl Future<Output = Result<T, E>>) -> Result<T, String> {
    let handling = async { handling.await.map_err(|error| error.to_string()) };
    match AssertUnwindSafe(handling).catch_unwind().await {
        Ok(handled) => handled,
        Err(panic) => Err(format!("handler panicked: {}", text(&*panic))),
    }
}

fn text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no text")
}
