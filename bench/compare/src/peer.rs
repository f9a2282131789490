//! What the run needs of a system to measure it. An adapter is one file in `peers/` that can start it and speak to it.

use std::time::Duration;

use anyhow::Result;
use async_trait::async_trait;

use crate::lab::Process;

/// How messages are sent and asked for: the same for everybody.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Shape {
    pub(crate) batch: usize,
    pub(crate) connections: usize,
}

/// How long is measured, after how long a warm-up.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Window {
    pub(crate) warmup: Duration,
    pub(crate) measured: Duration,
}

/// The two halves of a message's life that are measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Verb {
    Push,
    Pop,
}

/// What one window gave.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Measured {
    pub(crate) messages: u64,
    pub(crate) seconds: f64,
    /// CPU of the server's processes, in microseconds.
    pub(crate) server_cpu: u64,
    /// CPU of whoever sends and receives.
    pub(crate) client_cpu: u64,
}

impl Measured {
    pub(crate) fn per_second(&self) -> f64 {
        if self.seconds > 0.0 { self.messages as f64 / self.seconds } else { 0.0 }
    }
}

/// What a reader must know about a system to judge its figures.
#[derive(Debug, Clone)]
pub(crate) struct Facts {
    pub(crate) version: String,
    /// Settings that differ from its defaults or matter for what it promises, and the calls that are used.
    pub(crate) settings: String,
}

/// A system that is running.
pub(crate) struct Running {
    pub(crate) facts: Facts,
    /// Roots of the trees of processes that are its server side.
    pub(crate) pids: Vec<u32>,
    pub(crate) driver: Driver,
    /// Processes that end with it.
    pub(crate) processes: Vec<Process>,
}

/// Who makes the load.
pub(crate) enum Driver {
    /// This process, through connections of the adapter.
    Clients(Box<dyn Clients>),
    /// The adapter as a whole: a generator of its own.
    Whole(Box<dyn Whole>),
}

/// A system with a client that lives in this process.
#[async_trait(?Send)]
pub(crate) trait Clients {
    /// Makes a new, empty queue, which all connections made after it use.
    async fn fresh(&mut self) -> Result<()>;
    async fn producer(&self) -> Result<Box<dyn Producer>>;
    async fn consumer(&self) -> Result<Box<dyn Consumer>>;
    /// Whether there is something to take out again; a floor only takes in.
    fn consumes(&self) -> bool {
        true
    }
}

/// One connection that sends.
#[async_trait(?Send)]
pub(crate) trait Producer {
    /// Returns when the system has promised to keep all of them.
    async fn push(&mut self, payloads: &[Vec<u8>]) -> Result<()>;
}

/// One connection that receives.
#[async_trait(?Send)]
pub(crate) trait Consumer {
    /// Takes up to `batch` messages, shows each payload, and returns how many when the system has promised to forget
    /// them. None means that there was nothing to take at the moment.
    async fn take(&mut self, batch: usize, show: &mut dyn for<'p> FnMut(&'p [u8])) -> Result<usize>;
}

/// A system that is measured by a generator of its own.
#[async_trait(?Send)]
pub(crate) trait Whole {
    async fn push(&mut self, shape: Shape, window: Window) -> Result<Measured>;
    /// Drains `stock` messages or as many as the window allows.
    async fn pop(&mut self, shape: Shape, window: Window, stock: u64) -> Result<Measured>;
    fn consumes(&self) -> bool {
        true
    }
    /// Removes what it has left outside of its processes.
    async fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}
