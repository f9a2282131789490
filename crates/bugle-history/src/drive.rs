//! Load from many clients at once, written down; then everything that is left is taken out.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bugle_client::Error;
use fastrand::Rng;
use tokio::task::JoinSet;

use crate::consumer::Consumer;
use crate::producer::{Ids, produce};
use crate::record::History;
use crate::recorder::Recorder;
use crate::session::Session;

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
    /// Length of leases, in whole seconds.
    pub lease: Duration,
    /// Longest time for taking out what is left.
    pub drain_limit: Duration,
    /// What clients do is chosen by this number. What comes of it is up to the servers.
    pub seed: u64,
}

impl Load {
    /// Moderate load on queues of its own.
    pub fn new<S: Into<String>>(servers: impl IntoIterator<Item = S>) -> Self {
        let seed = fastrand::u64(..);
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
            lease: Duration::from_secs(1),
            drain_limit: Duration::from_secs(60),
            seed,
        }
    }

    fn all_groups(&self) -> Vec<String> {
        self.groups.iter().chain([&self.quick]).cloned().collect()
    }
}

/// Why there is no history.
#[derive(Debug)]
pub enum DriveError {
    /// No client can be made like this.
    Client(Error),
    /// What was left could not be taken out in time: nothing can be said about what is lost.
    NotDrained {
        /// From which queue.
        queue: String,
        /// For which group.
        group: String,
    },
}

impl fmt::Display for DriveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Client(error) => write!(f, "no client: {error}"),
            Self::NotDrained { queue, group } => {
                write!(f, "{group} could not be given all of {queue} in time")
            }
        }
    }
}

impl std::error::Error for DriveError {}

impl From<Error> for DriveError {
    fn from(error: Error) -> Self {
        Self::Client(error)
    }
}

/// Load that is running. Whoever makes faults makes them now.
pub struct Running {
    load: Arc<Load>,
    recorder: Recorder,
    stop: Arc<AtomicBool>,
    clients: JoinSet<Result<(), Error>>,
}

impl Running {
    /// Start all clients.
    pub fn start(load: &Load) -> Result<Self, DriveError> {
        let (recorder, stop) = (Recorder::default(), Arc::new(AtomicBool::new(false)));
        let mut running = Self { load: Arc::new(load.clone()), recorder, stop, clients: JoinSet::new() };
        let mut rng = Rng::with_seed(load.seed);
        for n in 0..load.producers {
            let (session, rng) = (running.session(n)?, rng.fork());
            let (load, stop) = (running.load.clone(), running.stop.clone());
            let ids = Ids::new(format!("{:x}-p{n}", load.seed));
            running.clients.spawn(async move { produce(&load, session, ids, rng, &stop).await });
        }
        for group in load.all_groups() {
            for n in 0..load.consumers {
                let (session, rng) = (running.session(n)?, rng.fork());
                let (load, stop, group) = (running.load.clone(), running.stop.clone(), group.clone());
                let ids = Ids::new(format!("{:x}-{group}{n}", load.seed));
                running.clients.spawn(async move {
                    Consumer { load: &load, group: &group, session, ids, rng }.consume(&stop).await
                });
            }
        }
        Ok(running)
    }

    /// Requests so far.
    pub fn requests(&self) -> usize {
        self.recorder.len()
    }

    /// End the load, take out what is left, and answer what was written down. Faults should be over.
    pub async fn finish(mut self) -> Result<History, DriveError> {
        self.stop.store(true, Ordering::Relaxed);
        while let Some(ended) = self.clients.join_next().await {
            match ended {
                Ok(outcome) => outcome?,
                Err(panicked) => std::panic::resume_unwind(panicked.into_panic()),
            }
        }
        let mut drains = JoinSet::new();
        for group in self.load.all_groups() {
            for queue in [&self.load.queue, &self.load.outputs] {
                let (session, load) = (self.session(drains.len())?, self.load.clone());
                let (group, queue) = (group.clone(), queue.clone());
                drains.spawn(async move {
                    let (ids, rng) = (Ids::new(String::new()), Rng::with_seed(load.seed));
                    let mut consumer = Consumer { load: &load, group: &group, session, ids, rng };
                    if consumer.drain(&queue).await {
                        Ok(())
                    } else {
                        Err(DriveError::NotDrained { queue, group })
                    }
                });
            }
        }
        while let Some(ended) = drains.join_next().await {
            match ended {
                Ok(outcome) => outcome?,
                Err(panicked) => std::panic::resume_unwind(panicked.into_panic()),
            }
        }
        Ok(self.recorder.take())
    }

    fn session(&self, first: usize) -> Result<Session, DriveError> {
        Ok(Session::new(&self.load.servers, first, self.recorder.clone())?)
    }
}

/// Load for some time.
pub async fn drive(load: &Load, time: Duration) -> Result<History, DriveError> {
    let running = Running::start(load)?;
    tokio::time::sleep(time).await;
    running.finish().await
}
