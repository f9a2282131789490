//! NATS JetStream with file storage. It answers when a message is written, not when it is synced: that is said beside its
//! figures.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};
use async_nats::jetstream::consumer::pull::Config as Pull;
use async_nats::jetstream::consumer::{AckPolicy, PullConsumer};
use async_nats::jetstream::stream::{Config, StorageType};
use async_nats::jetstream::{self, Context};
use async_trait::async_trait;
use futures_util::StreamExt;

use crate::lab::{Lab, Process, free_port, output};
use crate::peer::{Clients, Consumer, Driver, Facts, Producer, Running};

/// Messages that may be out with consumers: enough for every shape.
const PENDING: i64 = 100_000;
const DURABLE: &str = "workers";

pub(crate) async fn start(lab: &Lab) -> Result<Running> {
    let port = free_port()?;
    let data = lab.directory.join(format!("nats-{port}"));
    std::fs::create_dir(&data).context("create a directory for NATS")?;
    let mut command = Command::new("nats-server");
    command
        .args(["--addr", "127.0.0.1", "--port", &port.to_string(), "--jetstream", "--store_dir"])
        .arg(&data);
    let mut process = Process::start(&mut command, &lab.directory, "nats")?;
    process.listening(port).await?;
    let version = output(Command::new("nats-server").arg("--version"))?;
    let settings = "file storage, one replica; this version answers when a message is written and syncs every two minutes \
                    (it cannot be told to sync first): NOT the same promise; publish with ack, fetch of n by a shared \
                    pull consumer, ack of every message, the last one of a batch awaited";
    let nats = Nats { url: format!("nats://127.0.0.1:{port}"), stream: String::new(), count: 0 };
    Ok(Running {
        facts: Facts {
            version: version.trim_start_matches("nats-server: ").to_owned(),
            settings: settings.to_owned(),
        },
        pids: vec![process.pid()],
        driver: Driver::Clients(Box::new(nats)),
        processes: vec![process],
    })
}

struct Nats {
    url: String,
    stream: String,
    count: u64,
}

impl Nats {
    async fn connect(&self) -> Result<Context> {
        Ok(jetstream::new(async_nats::connect(&self.url).await.context("connect to NATS")?))
    }
}

#[async_trait(?Send)]
impl Clients for Nats {
    async fn fresh(&mut self) -> Result<()> {
        let context = self.connect().await?;
        if !self.stream.is_empty() {
            context.delete_stream(&self.stream).await?;
        }
        self.count += 1;
        self.stream = format!("s{}", self.count);
        let config = Config {
            name: self.stream.clone(),
            subjects: vec![self.stream.clone()],
            storage: StorageType::File,
            ..Config::default()
        };
        let stream = context.create_stream(config).await?;
        let pull = Pull {
            durable_name: Some(DURABLE.to_owned()),
            ack_policy: AckPolicy::Explicit,
            max_ack_pending: PENDING,
            ..Pull::default()
        };
        stream.create_consumer(pull).await?;
        Ok(())
    }

    async fn producer(&self) -> Result<Box<dyn Producer>> {
        Ok(Box::new(Publisher { context: self.connect().await?, subject: self.stream.clone() }))
    }

    async fn consumer(&self) -> Result<Box<dyn Consumer>> {
        let stream = self.connect().await?.get_stream(&self.stream).await?;
        let consumer = stream.get_consumer(DURABLE).await.map_err(|error| anyhow!(error))?;
        Ok(Box::new(Fetcher { consumer }))
    }
}

struct Publisher {
    context: Context,
    subject: String,
}

#[async_trait(?Send)]
impl Producer for Publisher {
    async fn push(&mut self, payloads: &[Vec<u8>]) -> Result<()> {
        let mut acks = Vec::with_capacity(payloads.len());
        for payload in payloads {
            acks.push(self.context.publish(self.subject.clone(), payload.clone().into()).await?);
        }
        for ack in acks {
            ack.await?;
        }
        Ok(())
    }
}

struct Fetcher {
    consumer: PullConsumer,
}

#[async_trait(?Send)]
impl Consumer for Fetcher {
    async fn take(&mut self, batch: usize, show: &mut dyn for<'p> FnMut(&'p [u8])) -> Result<usize> {
        let fetch = self.consumer.fetch().max_messages(batch).expires(Duration::from_millis(200));
        let mut messages = fetch.messages().await?;
        let mut taken = Vec::with_capacity(batch);
        while let Some(message) = messages.next().await {
            let message = message.map_err(|error| anyhow!(error))?;
            show(&message.payload);
            taken.push(message);
        }
        if let Some((last, others)) = taken.split_last() {
            for message in others {
                message.ack().await.map_err(|error| anyhow!(error))?;
            }
            last.double_ack().await.map_err(|error| anyhow!(error))?;
        }
        Ok(taken.len())
    }
}
