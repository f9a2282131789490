//! Renews a lease for as long as somebody works under it.

use std::time::Duration;

use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::client::Client;
use crate::error::Error;
use crate::message::Lease;

/// Shortest time between two renewals.
const SHORTEST: Duration = Duration::from_millis(200);

/// Keeps a lease until it is dropped.
pub(crate) struct Keeper {
    /// The server says that the lease is over.
    pub(crate) lost: CancellationToken,
    _task: Option<AbortOnDropHandle<()>>,
}

impl Keeper {
    pub(crate) fn new(client: &Client, lease: Option<Lease>) -> Self {
        let lost = CancellationToken::new();
        // A task of its own: a handler that keeps its thread busy does not keep the lease from being renewed.
        let task = lease.map(|lease| tokio::spawn(keep(client.clone(), lease, lost.clone())));
        Self { lost, _task: task.map(AbortOnDropHandle::new) }
    }
}

async fn keep(client: Client, lease: Lease, lost: CancellationToken) {
    // The length may be told up to a second too long; a third of it is early enough for a lease of one second.
    let pause = (lease.length / 3).max(SHORTEST);
    loop {
        sleep(pause).await;
        match client.renew(&lease, lease.length).await {
            Ok(_) => {}
            Err(Error::Rejected { message, .. }) => {
                tracing::warn!(lease = %lease.id, message, "the lease is over while its messages are handled");
                lost.cancel();
                return;
            }
            Err(error) => tracing::warn!(lease = %lease.id, %error, "the lease could not be renewed yet"),
        }
    }
}
