//! Two servers that hear each other, a waiter on the second, and the faults that can be done to them.

use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::cli_servers::MatrixArgs;
use crate::datagrams::{Proxy, free_address};
use crate::launch::{Place, Server};
use crate::moment;
use crate::rest::Rest;

/// Every waiter of the matrix waits this long at most.
const TIMEOUT_MS: u64 = 30_000;
/// Only the two servers know it; it guards nothing.
const SECRET: &str = "--udp-secret=a secret of two servers under test";
const RESTART_LIMIT: Duration = Duration::from_secs(60);

/// How two servers hear of each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Carrier {
    Notify,
    Udp,
    /// Not at all.
    None,
}

/// What a waiter got, and when.
pub(crate) struct Delivery {
    pub(crate) answer: Value,
    pub(crate) at: Instant,
    /// The same moment by the wall clock, in microseconds.
    pub(crate) clock: i64,
}

impl Delivery {
    /// The first message of the answer.
    pub(crate) fn message(&self) -> &Value {
        &self.answer["messages"][0]
    }
}

/// A waiter that is parked on the second server.
pub(crate) struct Waiter(JoinHandle<Result<Delivery>>);

impl Waiter {
    /// Its answer, which must be this message, told by its payload: sent back, it has another transaction id.
    pub(crate) async fn delivery(self, transaction: &str) -> Result<Delivery> {
        let delivery = self.0.await??;
        let found = &delivery.message()["data"]["n"];
        ensure!(found == transaction, "the waiter got {found} instead of {transaction}");
        Ok(delivery)
    }
}

/// The servers A, where things happen, and B, where somebody waits.
pub(crate) struct Pair {
    first: Option<Server>,
    second: Server,
    pub(crate) a: Rest,
    pub(crate) b: Rest,
    pub(crate) proxy: Option<Proxy>,
    carrier: Carrier,
    first_flags: Vec<String>,
}

impl Pair {
    /// Starts A and then B, and returns when they hear each other.
    pub(crate) async fn start(place: &Place, carrier: Carrier, more: &[&str]) -> Result<Self> {
        let (one, two) = (free_address()?, free_address()?);
        let proxy = if carrier == Carrier::Udp { Some(Proxy::between(one, two).await?) } else { None };
        let peer = proxy.as_ref().map(|p| p.address);
        let (first_flags, second_flags) = (flags(carrier, one, peer, more), flags(carrier, two, peer, more));
        let first = place.start(&first_flags).await?;
        let a = first.rest()?;
        if carrier == Carrier::Notify {
            // The order in which they begin to listen is how their connections are told apart.
            a.until("bugle_carrier_up{carrier=\"notify\"}", |up| up == 1.0).await?;
        }
        let second = place.start(&second_flags).await?;
        let b = second.rest()?;
        let pair = Self { first: Some(first), second, a, b, proxy, carrier, first_flags };
        pair.until_hearing().await?;
        Ok(pair)
    }

    /// Returns when each of them hears the other.
    pub(crate) async fn until_hearing(&self) -> Result<()> {
        let carrier = match self.carrier {
            Carrier::Notify => "notify",
            Carrier::Udp => "udp",
            Carrier::None => return Ok(()),
        };
        self.a.until_hearing(carrier).await?;
        self.b.until_hearing(carrier).await
    }

    /// Parks a waiter on B.
    pub(crate) async fn park(&self, queue: &str) -> Result<Waiter> {
        let mut rest = self.second.rest()?;
        let path = format!("{queue}?wait=true&timeout={TIMEOUT_MS}&autoAck=true");
        let task = tokio::task::spawn_local(async move {
            let answer = rest.pop(&path).await?;
            Ok(Delivery { answer, at: Instant::now(), clock: moment::now() })
        });
        self.b.until("bugle_waiters_parked", |parked| parked >= 1.0).await?;
        Ok(Waiter(task))
    }

    /// Ends A as a crash would.
    pub(crate) fn kill_first(&mut self) -> Result<()> {
        self.first.take().context("A runs")?.kill()
    }

    /// Starts A again.
    pub(crate) async fn restart_first(&mut self, place: &Place) -> Result<()> {
        let first = place.start(&self.first_flags).await?;
        self.a = first.rest()?;
        self.first = Some(first);
        self.until_hearing().await
    }
}

fn flags(carrier: Carrier, own: SocketAddr, peer: Option<SocketAddr>, more: &[&str]) -> Vec<String> {
    let mut flags: Vec<String> = more.iter().map(|flag| (*flag).to_owned()).collect();
    if carrier != Carrier::Notify {
        flags.push("--notify=false".to_owned());
    }
    if let Some(peer) = peer {
        flags.extend([format!("--udp-listen={own}"), format!("--udp-peers={peer}"), SECRET.to_owned()]);
    }
    flags
}

/// One message for a queue, in a lane of its own name.
pub(crate) fn item(queue: &str, transaction: &str) -> Value {
    json!({"queue": queue, "partition": "p", "transactionId": transaction, "payload": {"n": transaction}})
}

/// Cuts the connection on which B listens: of all that listen for this schema it is the youngest.
pub(crate) async fn cut_listener(place: &Place, database: &tokio_postgres::Client) -> Result<()> {
    let query = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                 WHERE application_name = 'bugle listen' AND query LIKE '%' || $1::text || '%' \
                 ORDER BY backend_start DESC LIMIT 1";
    let row = database.query_opt(query, &[&place.schema]).await?;
    ensure!(row.is_some_and(|row| row.get(0)), "no listening connection was found");
    Ok(())
}

/// Ends PostgreSQL as a power cut would, starts it again, and returns when it was first seen to take connections.
pub(crate) async fn restart_database(args: &MatrixArgs, place: &Place) -> Result<Instant> {
    pg_ctl(args, &["-m", "immediate", "-w", "stop"]).await?;
    pg_ctl(args, &["-W", "start"]).await?;
    let deadline = Instant::now() + RESTART_LIMIT;
    while let Err(error) = place.database().await {
        ensure!(Instant::now() < deadline, "PostgreSQL does not come back: {error:#}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    Ok(Instant::now())
}

async fn pg_ctl(args: &MatrixArgs, what: &[&str]) -> Result<()> {
    let data = args.pg_data.as_ref().context("--pg-data is missing")?;
    let program = args.pg_bin.join("pg_ctl");
    // It refuses to run as root; the owner of the data may.
    let mut command = if std::fs::metadata("/proc/self")?.uid() == 0 {
        let owner = std::fs::metadata(data).context("--pg-data")?;
        let mut command = Command::new("setpriv");
        command.args([format!("--reuid={}", owner.uid()), format!("--regid={}", owner.gid())]);
        command.arg("--clear-groups").arg(program);
        command
    } else {
        Command::new(program)
    };
    command.arg("-D").arg(data).arg("-l").arg(data.join("restarted.log")).args(what).current_dir(data);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let status = tokio::task::spawn_blocking(move || command.status()).await?.context("run pg_ctl")?;
    ensure!(status.success(), "pg_ctl {what:?}: {status}");
    Ok(())
}
