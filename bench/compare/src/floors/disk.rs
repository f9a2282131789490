//! The floor of anything on files: the same bytes appended to one file, synced before anybody is answered.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::sync::mpsc;

use anyhow::{Context, Result, bail};
use async_trait::async_trait;
use tokio::sync::oneshot;

use crate::lab::Lab;
use crate::peer::{Clients, Consumer, Driver, Facts, Producer, Running};

/// How many batches share a sync.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sync {
    EachBatch,
    /// All that have come while the last sync ran: at most one per connection.
    Together,
}

pub(crate) fn start(lab: &Lab, sync: Sync) -> Running {
    let how = match sync {
        Sync::EachBatch => "write and fdatasync for each batch in turn",
        Sync::Together => "one write and one fdatasync for all batches that wait, at most one per connection",
    };
    Running {
        facts: Facts {
            version: "none".to_owned(),
            settings: format!(
                "a thread that appends to one file: {how}; connections are channels inside the generator"
            ),
        },
        // No server of its own: its cost is in that of the generator.
        pids: Vec::new(),
        driver: Driver::Clients(Box::new(Disk { directory: lab.directory.clone(), sync, writer: None })),
        processes: Vec::new(),
    }
}

/// Bytes to keep, and who waits for them.
struct Append {
    bytes: Vec<u8>,
    done: oneshot::Sender<(Vec<u8>, std::io::Result<()>)>,
}

struct Disk {
    directory: PathBuf,
    sync: Sync,
    writer: Option<mpsc::Sender<Append>>,
}

#[async_trait(?Send)]
impl Clients for Disk {
    async fn fresh(&mut self) -> Result<()> {
        let path = self.directory.join("append");
        let file = File::create(&path).with_context(|| format!("create {}", path.display()))?;
        let (writer, appends) = mpsc::channel();
        let sync = self.sync;
        // Ends when the last connection has let go of its sender.
        std::thread::Builder::new().name("append".to_owned()).spawn(move || write(file, &appends, sync))?;
        self.writer = Some(writer);
        Ok(())
    }

    async fn producer(&self) -> Result<Box<dyn Producer>> {
        let writer = self.writer.clone().context("no file yet")?;
        Ok(Box::new(Channel { writer, bytes: Vec::new() }))
    }

    async fn consumer(&self) -> Result<Box<dyn Consumer>> {
        bail!("a floor only takes in")
    }

    fn consumes(&self) -> bool {
        false
    }
}

fn write(mut file: File, appends: &mpsc::Receiver<Append>, sync: Sync) {
    let mut group = Vec::new();
    let mut bytes = Vec::new();
    while let Ok(first) = appends.recv() {
        group.push(first);
        if sync == Sync::Together {
            group.extend(appends.try_iter());
        }
        bytes.clear();
        group.iter().for_each(|append| bytes.extend_from_slice(&append.bytes));
        let written = file.write_all(&bytes).and_then(|()| file.sync_data());
        for append in group.drain(..) {
            let result = match &written {
                Ok(()) => Ok(()),
                Err(error) => Err(std::io::Error::from(error.kind())),
            };
            // Whoever asked may have been stopped.
            let _ = append.done.send((append.bytes, result));
        }
    }
}

struct Channel {
    writer: mpsc::Sender<Append>,
    bytes: Vec<u8>,
}

#[async_trait(?Send)]
impl Producer for Channel {
    async fn push(&mut self, payloads: &[Vec<u8>]) -> Result<()> {
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.clear();
        payloads.iter().for_each(|payload| bytes.extend_from_slice(payload));
        let (done, answer) = oneshot::channel();
        if self.writer.send(Append { bytes, done }).is_err() {
            bail!("the writer has ended");
        }
        let (bytes, result) = answer.await.context("the writer has ended")?;
        self.bytes = bytes;
        result.context("append")
    }
}
