//! Load from many clients at once, written down; then everything that is left is taken out.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bugle_client::Error;
use fastrand::Rng;
use tokio::task::JoinSet;

use crate::consumer::Consumer;
use crate::load::Load;
use crate::producer::{Ids, produce};
use crate::record::History;
use crate::recorder::Recorder;
use crate::session::Session;

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
                    Consumer::new(&load, &group, session, ids, rng).consume(&stop).await
                });
            }
        }
        Ok(running)
    }

    /// Requests so far.
    pub fn requests(&self) -> usize {
        self.recorder.len()
    }

    /// Where requests are written down; it stays readable when [`Self::finish`] fails.
    pub fn recorder(&self) -> Recorder {
        self.recorder.clone()
    }

    /// End the load and leave what is left. Nothing can be said then about what is lost.
    pub async fn stop(mut self) -> Result<History, DriveError> {
        self.end_clients().await?;
        Ok(self.recorder.take())
    }

    async fn end_clients(&mut self) -> Result<(), DriveError> {
        self.stop.store(true, Ordering::Relaxed);
        while let Some(ended) = self.clients.join_next().await {
            match ended {
                Ok(outcome) => outcome?,
                Err(panicked) => std::panic::resume_unwind(panicked.into_panic()),
            }
        }
        Ok(())
    }

    /// End the load, take out what is left, and answer what was written down. Faults should be over.
    pub async fn finish(mut self) -> Result<History, DriveError> {
        self.end_clients().await?;
        let mut drains = JoinSet::new();
        for group in self.load.all_groups() {
            for queue in [&self.load.queue, &self.load.outputs] {
                let (session, load) = (self.session(drains.len())?, self.load.clone());
                let (group, queue) = (group.clone(), queue.clone());
                drains.spawn(async move {
                    let (ids, rng) = (Ids::new(String::new()), Rng::with_seed(load.seed));
                    let mut consumer = Consumer::new(&load, &group, session, ids, rng);
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
        Ok(Session::new(&self.load, first, self.recorder.clone())?)
    }
}

/// Load for some time.
pub async fn drive(load: &Load, time: Duration) -> Result<History, DriveError> {
    let running = Running::start(load)?;
    tokio::time::sleep(time).await;
    running.finish().await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Outcome, record::Op};

    #[test]
    fn load_without_a_server_is_refused() {
        assert!(matches!(Running::start(&Load::new::<String>([])), Err(DriveError::Client(_))));
    }

    #[tokio::test]
    async fn clients_go_on_where_no_server_is_and_say_that_nothing_could_be_taken_out() {
        // A port that was free a moment ago, and that nobody listens at.
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let load = Load { drain_limit: Duration::ZERO, ..Load::new([format!("http://127.0.0.1:{port}")]) };
        let running = Running::start(&load).unwrap();
        while running.requests() < 30 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let recorder = running.recorder.clone();
        assert!(matches!(running.finish().await, Err(DriveError::NotDrained { .. })));
        let refused = |op: &Op| {
            matches!(op, Op::Push { outcome: Outcome::Not, .. } | Op::Pop { outcome: Outcome::Not, .. })
        };
        assert!(recorder.take().records.iter().all(|record| refused(&record.op)));
    }
}
