//! What load is made of.

use std::time::Duration;

/// Clients and what they do.
#[derive(Clone, Debug)]
pub struct Load {
    /// Addresses of servers of one store. A client that has trouble with one goes on with the next.
    pub servers: Vec<String>,
    /// Where producers push.
    pub queue: String,
    /// Where transactions of consumers push.
    pub outputs: String,
    /// Partitions of each queue.
    pub partitions: usize,
    /// Producers.
    pub producers: usize,
    /// Pause of a producer between two requests.
    pub pause: Duration,
    /// Groups that acknowledge.
    pub groups: Vec<String>,
    /// A group that commits by delivery.
    pub quick: String,
    /// Consumers in each group.
    pub consumers: usize,
    /// Of a hundred deliveries, of how many nothing is said until they have come again.
    pub careless: u32,
    /// Length of leases, in whole seconds.
    pub lease: Duration,
    /// Longest time for one request, on top of what it asks the server to wait.
    pub timeout: Duration,
    /// How long after the end of the load a server may be busy with requests that nobody waits for any more. What is left is
    /// taken out for so much longer before it counts as lost.
    pub settle: Duration,
    /// Longest time for taking out what is left.
    pub drain_limit: Duration,
    /// What clients do is chosen by this number. What comes of it is up to the servers.
    pub seed: u64,
}

impl Load {
    /// Moderate load on queues of its own.
    pub fn new<S: Into<String>>(servers: impl IntoIterator<Item = S>) -> Self {
        Self::seeded(servers, fastrand::u64(..))
    }

    /// The same, with clients that do what this number says.
    pub fn seeded<S: Into<String>>(servers: impl IntoIterator<Item = S>, seed: u64) -> Self {
        Self {
            servers: servers.into_iter().map(Into::into).collect(),
            queue: format!("history-{seed:016x}"),
            outputs: format!("history-{seed:016x}-outputs"),
            partitions: 6,
            producers: 3,
            pause: Duration::from_millis(2),
            groups: vec!["first".to_owned(), "second".to_owned()],
            quick: "quick".to_owned(),
            consumers: 2,
            careless: 2,
            lease: Duration::from_secs(1),
            timeout: Duration::from_secs(5),
            settle: Duration::ZERO,
            drain_limit: Duration::from_secs(60),
            seed,
        }
    }

    pub(crate) fn all_groups(&self) -> Vec<String> {
        self.groups.iter().chain([&self.quick]).cloned().collect()
    }
}
