//! tokio's channel for one value, with a moment for others before every step.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::sync::oneshot;

pub use tokio::sync::oneshot::error;

use crate::model::others_first;

/// A channel for one value.
pub fn channel<T>() -> (Sender<T>, Receiver<T>) {
    let (sender, receiver) = oneshot::channel();
    (Sender(sender), Receiver(receiver))
}

/// Where the value goes in.
#[derive(Debug)]
pub struct Sender<T>(oneshot::Sender<T>);

/// Where it comes out.
#[derive(Debug)]
pub struct Receiver<T>(oneshot::Receiver<T>);

impl<T> Sender<T> {
    /// Send; gives the value back if nobody will receive it.
    pub fn send(self, value: T) -> Result<(), T> {
        others_first();
        self.0.send(value)
    }

    /// Whether nobody will receive it.
    pub fn is_closed(&self) -> bool {
        others_first();
        self.0.is_closed()
    }
}

impl<T> Receiver<T> {
    /// From now on nothing can be sent.
    pub fn close(&mut self) {
        others_first();
        self.0.close();
    }

    /// The value, if it is there.
    pub fn try_recv(&mut self) -> Result<T, error::TryRecvError> {
        others_first();
        self.0.try_recv()
    }
}

impl<T> Future for Receiver<T> {
    type Output = Result<T, error::RecvError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(cx)
    }
}
