//! RabbitMQ: one quorum queue on one node, publisher confirms, consumer acks.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use async_trait::async_trait;
use futures_util::StreamExt;
use lapin::options::{
    BasicAckOptions, BasicConsumeOptions, BasicPublishOptions, BasicQosOptions, ConfirmSelectOptions,
    QueueDeclareOptions, QueueDeleteOptions,
};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties};

use crate::lab::{Lab, Process, free_port, output};
use crate::peer::{Clients, Consumer, Driver, Facts, Producer, Running};

/// The server without Debian's wrapper, which insists on the system's own data directory and user.
const PROGRAM: &str = "/usr/lib/rabbitmq/bin/rabbitmq-server";
/// A message marked so is written to disk.
const PERSISTENT: u8 = 2;
/// How long an empty queue is listened to before it counts as empty.
const EMPTY: Duration = Duration::from_millis(50);

pub(crate) async fn start(lab: &Lab) -> Result<Running> {
    let (port, names, distribution) = (free_port()?, free_port()?, free_port()?);
    let data = lab.directory.join(format!("rabbitmq-{port}"));
    std::fs::create_dir(&data).context("create a directory for RabbitMQ")?;
    std::fs::write(data.join("enabled_plugins"), "[].").context("switch plugins off")?;
    // The node's names are looked up by a daemon of its own, which would otherwise stay behind on a well-known port.
    let mut epmd = Command::new("epmd");
    epmd.args(["-address", "127.0.0.1", "-port", &names.to_string()]);
    let mut names_process = Process::start(&mut epmd, &lab.directory, "epmd")?;
    names_process.listening(names).await?;
    let mut command = Command::new(PROGRAM);
    command
        .env("HOME", &data)
        .env("RABBITMQ_MNESIA_BASE", data.join("mnesia"))
        .env("RABBITMQ_LOG_BASE", &data);
    command.env("RABBITMQ_NODENAME", "compare@localhost").env("RABBITMQ_NODE_IP_ADDRESS", "127.0.0.1");
    command.env("RABBITMQ_NODE_PORT", port.to_string()).env("RABBITMQ_DIST_PORT", distribution.to_string());
    command.env("ERL_EPMD_PORT", names.to_string()).env("ERL_EPMD_ADDRESS", "127.0.0.1");
    command.env("RABBITMQ_ENABLED_PLUGINS_FILE", data.join("enabled_plugins"));
    command.env("RABBITMQ_CONFIG_FILE", data.join("none")).env("RABBITMQ_PID_FILE", data.join("pid"));
    command.env("RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS", "-kernel inet_dist_use_interface {127,0,0,1}");
    let mut process = Process::start(&mut command, &lab.directory, "rabbitmq")?;
    process.listening(port).await?;
    let version = output(Command::new("dpkg-query").args(["-W", "-f", "${Version}", "rabbitmq-server"]))?;
    let settings = "x-queue-type quorum on one node (its log is synced before a confirm), persistent messages, a confirm \
                    awaited for every message of a batch; consumers with prefetch 2 n, basic.ack multiple per batch (which \
                    the server does not confirm)";
    let rabbit =
        RabbitMq { url: format!("amqp://guest:guest@127.0.0.1:{port}/%2f"), queue: String::new(), count: 0 };
    Ok(Running {
        facts: Facts { version, settings: settings.to_owned() },
        pids: vec![process.pid()],
        driver: Driver::Clients(Box::new(rabbit)),
        // The server first: it wants to take its name back from the daemon.
        processes: vec![process, names_process],
    })
}

struct RabbitMq {
    url: String,
    queue: String,
    count: u64,
}

impl RabbitMq {
    async fn connect(&self) -> Result<(Connection, Channel)> {
        let mut tries = 0;
        // It accepts connections a little before it lets anybody in.
        let connection = loop {
            match Connection::connect(&self.url, ConnectionProperties::default()).await {
                Ok(connection) => break connection,
                Err(error) if tries == 100 => bail!("connect to RabbitMQ: {error}"),
                Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            }
            tries += 1;
        };
        let channel = connection.create_channel().await?;
        Ok((connection, channel))
    }
}

#[async_trait(?Send)]
impl Clients for RabbitMq {
    async fn fresh(&mut self) -> Result<()> {
        let (_connection, channel) = self.connect().await?;
        if !self.queue.is_empty() {
            channel.queue_delete(self.queue.as_str().into(), QueueDeleteOptions::default()).await?;
        }
        self.count += 1;
        self.queue = format!("q{}", self.count);
        let mut arguments = FieldTable::default();
        arguments.insert("x-queue-type".into(), AMQPValue::LongString("quorum".into()));
        channel.queue_declare(self.queue.as_str().into(), QueueDeclareOptions::durable(), arguments).await?;
        Ok(())
    }

    async fn producer(&self) -> Result<Box<dyn Producer>> {
        let (connection, channel) = self.connect().await?;
        channel.confirm_select(ConfirmSelectOptions::default()).await?;
        Ok(Box::new(Publisher { _connection: connection, channel, queue: self.queue.clone() }))
    }

    async fn consumer(&self) -> Result<Box<dyn Consumer>> {
        let (connection, channel) = self.connect().await?;
        Ok(Box::new(Subscriber {
            _connection: connection,
            channel,
            queue: self.queue.clone(),
            deliveries: None,
        }))
    }
}

struct Publisher {
    _connection: Connection,
    channel: Channel,
    queue: String,
}

#[async_trait(?Send)]
impl Producer for Publisher {
    async fn push(&mut self, payloads: &[Vec<u8>]) -> Result<()> {
        let mut confirms = Vec::with_capacity(payloads.len());
        for payload in payloads {
            let properties = BasicProperties::default().with_delivery_mode(PERSISTENT);
            let options = BasicPublishOptions::default();
            let sent = self.channel.basic_publish(
                "".into(),
                self.queue.as_str().into(),
                options,
                payload,
                properties,
            );
            confirms.push(sent.await?);
        }
        for confirm in confirms {
            ensure!(confirm.await?.is_ack(), "RabbitMQ refused a message");
        }
        Ok(())
    }
}

struct Subscriber {
    _connection: Connection,
    channel: Channel,
    queue: String,
    /// Begins with the first batch asked for, because it says how much may come ahead.
    deliveries: Option<lapin::Consumer>,
}

#[async_trait(?Send)]
impl Consumer for Subscriber {
    async fn take(&mut self, batch: usize, show: &mut dyn for<'p> FnMut(&'p [u8])) -> Result<usize> {
        if self.deliveries.is_none() {
            let ahead = u16::try_from(batch * 2)?;
            self.channel.basic_qos(ahead, BasicQosOptions::default()).await?;
            let (queue, options) = (self.queue.as_str().into(), BasicConsumeOptions::default());
            let consumer = self.channel.basic_consume(queue, "".into(), options, FieldTable::default());
            self.deliveries = Some(consumer.await?);
        }
        let deliveries = self.deliveries.as_mut().context("not subscribed")?;
        let (mut taken, mut last) = (0, 0);
        while taken < batch {
            let Ok(next) = tokio::time::timeout(EMPTY, deliveries.next()).await else { break };
            let delivery = next.context("RabbitMQ has ended the subscription")??;
            show(&delivery.data);
            last = delivery.delivery_tag;
            taken += 1;
        }
        if taken > 0 {
            self.channel.basic_ack(last, BasicAckOptions { multiple: true }).await?;
        }
        Ok(taken)
    }
}
