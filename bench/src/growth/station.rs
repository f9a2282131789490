//! A server brought into a shape, and one round of what is timed there.

use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Parser;
use serde_json::json;
use tokio::task::JoinSet;

use super::load::{Done, Load, Pops};
use super::shape::{PAYLOAD, Shape, Step};
use crate::cli::{Cli, Command};
use crate::cli_growth::GrowthArgs;
use crate::cli_servers::Servers;
use crate::content::Content;
use crate::launch::{Place, Server};
use crate::line::{Exchange, MAX_HTTP1_WAITERS};
use crate::preload::{self, Fill};
use crate::waiters::{Parking, Tally};
use crate::{probe, setup, wake};

/// The group that does not read.
const BEHIND: &str = "behind";
/// How long it may take to read what brought the lanes into being.
const DRAIN_LIMIT: Duration = Duration::from_secs(240);
/// Pops of a window may take so many times as long as its pushes, and never less than the second number of seconds.
const POP_LIMIT: (f64, f64) = (6.0, 20.0);
/// Memory is at rest when it has not fallen for so many looks; how long after each other they are, and in a quick run.
const CALM_LOOKS: u32 = 6;
const LOOKS_APART: [Duration; 2] = [Duration::from_millis(500), Duration::from_millis(20)];
const MOST_LOOKS: u32 = 40;
/// Waiters ask again after this long: the longest the server grants.
const REPOLL: Duration = Duration::from_secs(120);
const STARTS_PER_SECOND: f64 = 4000.0;

/// One timed step.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) step: Step,
    pub(crate) messages: u64,
    pub(crate) seconds: f64,
    /// Microseconds of CPU of the server and, if its process is known, of the database.
    pub(crate) cpu: (u64, Option<u64>),
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    pub(crate) errors: serde_json::Value,
    /// Messages that did not come in time: so slow that the window was cut.
    pub(crate) undelivered: u64,
}

/// A running server in its shape.
pub(crate) struct Station {
    pub(crate) shape: Shape,
    place: Place,
    server: Server,
    load: Rc<Load>,
    window: f64,
    quick: bool,
    pg_pid: Option<u32>,
    /// Memory before anything was done and when its contents had come to rest.
    pub(crate) fresh_kib: Option<u64>,
    pub(crate) rest_kib: Option<u64>,
    /// Ended when dropped.
    waiting: JoinSet<()>,
    tally: Rc<Tally>,
}

impl Station {
    /// Starts a server on fresh data and brings it into the shape.
    pub(crate) async fn prepare(args: &GrowthArgs, servers: &Servers, shape: Shape) -> Result<Self> {
        let place = Place::new(servers)?;
        let server = match place.start(&shape.flags()).await {
            Ok(server) => server,
            Err(error) => {
                place.remove().await?;
                return Err(error);
            }
        };
        // Servers of a test may share their queues.
        let queue = format!("growth-{:08x}", fastrand::u32(..));
        let load =
            Load::new(server.target()?, &queue, shape.lanes, (shape.payload, shape.batch), args.connections);
        let mut station = Self {
            fresh_kib: probe::rss_kib(server.pid()),
            rest_kib: None,
            window: args.window() * shape.longer,
            quick: args.quick,
            pg_pid: servers.pg.as_ref().and(args.pg_pid),
            waiting: JoinSet::new(),
            tally: Rc::default(),
            shape,
            place,
            server,
            load,
        };
        match Box::pin(station.shape_up()).await {
            Ok(()) => Ok(station),
            Err(error) => {
                station.end().await?;
                Err(error)
            }
        }
    }

    pub(crate) fn engine(&self) -> &'static str {
        self.place.engine()
    }

    /// Memory now.
    pub(crate) fn rss_kib(&self) -> Option<u64> {
        probe::rss_kib(self.server.pid())
    }

    async fn shape_up(&mut self) -> Result<()> {
        let mut rest = self.server.rest()?;
        let mut options = json!({"leaseTime": 60});
        if self.shape.retention {
            options["retentionEnabled"] = json!(true);
            options["completedRetentionSeconds"] = json!(1);
        }
        rest.configure(&self.load.queue, &options).await?;
        self.fill(u64::from(self.shape.lanes), 1).await.context("make the lanes")?;
        match self.shape.backlog {
            None => self.pop(&self.groups(), u64::from(self.shape.lanes)).await?,
            Some(backlog) => {
                self.pop(&[BEHIND.to_owned()], 1).await?;
                self.fill(backlog, 100).await.context("make the backlog")?;
                self.subscribe().await?;
            }
        }
        self.park().await?;
        self.come_to_rest().await;
        Ok(())
    }

    fn groups(&self) -> Vec<String> {
        (0..self.shape.groups).map(|group| format!("g{group}")).collect()
    }

    /// Pushes so many messages, in large requests over all lanes.
    async fn fill(&self, messages: u64, run: usize) -> Result<()> {
        preload::fill(Fill {
            target: self.server.target()?,
            queue: self.load.queue.clone(),
            content: Rc::new(Content::new(fastrand::u64(..), PAYLOAD)?),
            lanes: self.shape.lanes,
            messages,
            run,
            batch: if run == 1 { 5000 } else { 2000 },
            legacy_status: false,
        })
        .await
    }

    /// Reads, without a word about its time.
    async fn pop(&self, groups: &[String], owed: u64) -> Result<()> {
        let (batch, claim) = if owed == 1 { (1, 1) } else { (1000, 1000) };
        let (groups, mode) = (groups.to_vec(), "all");
        let pops = Pops { groups, owed, claim, batch, auto_ack: true, mode, longest: DRAIN_LIMIT };
        let done = self.load.pop(&pops).await?;
        let wanted = owed * pops.groups.len() as u64;
        ensure!(
            done.messages >= wanted,
            "only {} of {wanted} messages came: {}",
            done.messages,
            done.errors.json()
        );
        Ok(())
    }

    /// Makes groups that begin with what comes from now on.
    async fn subscribe(&self) -> Result<()> {
        let (mut rest, queue) = (self.server.rest()?, &self.load.queue);
        for group in self.groups() {
            let path = format!(
                "/api/v1/pop/queue/{queue}?consumerGroup={group}&batch=1&wait=false&subscriptionMode=new"
            );
            let (status, answer) = rest.get(&path).await?;
            ensure!(status == 204, "a group that begins now got {status} {answer}");
        }
        Ok(())
    }

    /// Starts those who wait for other queues.
    async fn park(&mut self) -> Result<()> {
        let waiters = self.shape.waiters;
        if waiters == 0 {
            return Ok(());
        }
        let keys: Vec<String> = (0..waiters.min(2000)).map(|key| format!("waited-for-{key}")).collect();
        setup::create_queues(&self.server.target()?, keys.clone()).await?;
        let target = self.server.target_within(REPOLL + Duration::from_secs(60))?;
        let streams = (waiters > MAX_HTTP1_WAITERS).then_some(500);
        let mut exchange = [Exchange::open(target, streams).await?];
        let parking = Parking {
            waiters,
            keys: keys.into_iter().map(|queue| (queue, "g".to_owned())).collect(),
            repoll_ms: REPOLL.as_millis() as u64,
            starts_per_second: STARTS_PER_SECOND,
        };
        parking.start(&mut exchange, &self.tally, &mut self.waiting).await?;
        self.tally.all_waiting(waiters, Duration::from_secs(120)).await
    }

    /// Waits until the memory of the server does not fall any more.
    async fn come_to_rest(&mut self) {
        let (mut least, mut calm) = (u64::MAX, 0);
        for _ in 0..MOST_LOOKS {
            let now = self.rss_kib().unwrap_or(0);
            calm = if now < least { 0 } else { calm + 1 };
            least = least.min(now);
            if calm >= CALM_LOOKS {
                break;
            }
            tokio::time::sleep(LOOKS_APART[usize::from(self.quick)]).await;
        }
        self.rest_kib = self.rss_kib();
    }

    /// Everything that is timed, once.
    pub(crate) async fn round(&self) -> Result<Vec<Part>> {
        let (mut parts, mut pushed) = (Vec::new(), 0);
        for step in self.shape.steps.clone() {
            let part = self.step(step, pushed).await?;
            if let Step::Push(_) = step {
                pushed = part.messages;
            }
            parts.push(part);
        }
        let lost = self.shape.waiters.saturating_sub(self.tally.waiting() + self.shape.waiters / 50);
        ensure!(lost == 0, "{lost} waiters are gone: {}", self.tally.errors.borrow().json());
        Ok(parts)
    }

    async fn step(&self, step: Step, pushed: u64) -> Result<Part> {
        if step == Step::Wake {
            return Box::pin(self.wake()).await;
        }
        let pids: Vec<u32> = [self.server.pid()].into_iter().chain(self.pg_pid).collect();
        let before = probe::cpu(&pids)?;
        let done = Box::pin(self.load(step, pushed)).await?;
        let cpu = probe::cpu(&pids)?.since(&before);
        Ok(Part {
            step,
            messages: done.messages,
            seconds: done.seconds,
            cpu: (cpu[0], cpu.get(1).copied()),
            p50: done.latency.quantile_ms(0.5),
            p99: done.latency.quantile_ms(0.99),
            errors: done.errors.json(),
            undelivered: done.undelivered,
        })
    }

    async fn load(&self, step: Step, pushed: u64) -> Result<Done> {
        let longest = Duration::from_secs_f64((self.window * POP_LIMIT.0).max(POP_LIMIT.1));
        let mode = if self.shape.backlog.is_some() { "new" } else { "all" };
        let batch = self.shape.batch;
        let pops =
            Pops { groups: self.groups(), owed: pushed, claim: 1, batch, auto_ack: false, mode, longest };
        match step {
            Step::Push(spread) => self.load.push(spread, self.window, self.shape.most()).await,
            Step::Pop { claim } => self.load.pop(&Pops { claim, ..pops }).await,
            // As much as was pushed: the backlog stays as deep as it is.
            _ => self.load.pop(&Pops { groups: vec![BEHIND.to_owned()], mode: "all", ..pops }).await,
        }
    }

    /// Single messages to a consumer that waits.
    async fn wake(&self) -> Result<Part> {
        let seconds = (self.window * 2.0).to_string();
        let directory = self.place.directory().display().to_string();
        let fixed = [
            "--rate",
            "100",
            "--warmup-seconds",
            "0.2",
            "--settle-seconds",
            "0.2",
            "--linger-seconds",
            "0.1",
        ];
        let named = [
            "bugle-bench",
            "wake",
            "--url",
            self.server.url(),
            "--seconds",
            &seconds,
            "--fsync-dir",
            &directory,
        ];
        let Command::Wake(args) = Cli::try_parse_from(named.iter().chain(&fixed))?.command else {
            anyhow::bail!("not the command that was asked for")
        };
        let start = Instant::now();
        let outcome = wake::run(args).await?;
        ensure!(outcome.ok, "wake: {}", outcome.json);
        let time = |name: &str| outcome.json["push_answer_to_delivery_ms"][name].as_f64().unwrap_or(0.0);
        Ok(Part {
            step: Step::Wake,
            messages: outcome.json["messages"].as_u64().unwrap_or(0),
            seconds: start.elapsed().as_secs_f64(),
            cpu: (0, None),
            p50: time("p50"),
            p99: time("p99"),
            errors: outcome.json["errors"].clone(),
            undelivered: 0,
        })
    }

    /// Messages the server keeps now.
    pub(crate) async fn kept(&self) -> Option<u64> {
        let (_, answer) = self
            .server
            .rest()
            .ok()?
            .get(&format!("/api/v1/resources/queues/{}", self.load.queue))
            .await
            .ok()?;
        answer["segments"]["messages"].as_u64()
    }

    /// Ends the server and removes its data.
    pub(crate) async fn end(self) -> Result<()> {
        let Self { place, server, mut waiting, .. } = self;
        waiting.shutdown().await;
        drop(server);
        place.remove().await
    }
}
