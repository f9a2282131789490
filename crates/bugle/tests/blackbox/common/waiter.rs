//! A pop that waits, in the background.

use std::time::Instant;

use serde_json::Value;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::PATIENCE;
use super::client::Client;

/// Waits longer than any test; dropped, it goes on waiting.
pub(crate) struct Waiter(JoinHandle<(Option<Value>, Instant)>);

impl Client {
    /// Begin to wait at what stands behind `/api/v1/pop`.
    pub(crate) fn wait(&self, rest: &str) -> Waiter {
        let join = if rest.contains('?') { '&' } else { '?' };
        let (client, rest) = (self.clone(), format!("{rest}{join}wait=true&timeout=110000"));
        Waiter(tokio::spawn(async move { (client.pop(&rest).await, Instant::now()) }))
    }

    /// The same, and return when it is parked; nobody else may come or go meanwhile.
    pub(crate) async fn park(&self, rest: &str) -> Waiter {
        let before = self.metrics().await.parked();
        let waiter = self.wait(rest);
        self.until("parked", |m| m.parked() == before + 1.0).await;
        waiter
    }
}

impl Waiter {
    /// What it gets.
    pub(crate) async fn answer(self) -> Value {
        self.timed().await.0
    }

    /// What it gets, and when.
    pub(crate) async fn timed(self) -> (Value, Instant) {
        let (popped, at) = timeout(PATIENCE, self.0).await.expect("woken").unwrap();
        (popped.expect("a message"), at)
    }

    /// Go away, closing the connection.
    pub(crate) fn leave(self) {
        self.0.abort();
    }

    /// Whether it was answered.
    pub(crate) fn is_answered(&self) -> bool {
        self.0.is_finished()
    }
}
