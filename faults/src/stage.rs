//! Where one round is played: a directory, servers on an engine, load, and the judgement at the end.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use bugle_history::{History, Load, Op, Outcome as Answer, Report, Running, Terms, check};
use fastrand::Rng;

use crate::database::{Database, DatabaseOptions};
use crate::scenario::{Engine, Outcome};
use crate::servers::{Manner, Server};

/// While there is service again, requests go on. Without one for so long, there is none.
const NO_SERVICE: Duration = Duration::from_secs(90);

/// What a round is given.
pub struct Stage {
    /// The `bugle` program.
    pub binary: PathBuf,
    /// Where everything of the round is kept. Removed when it went well.
    pub dir: PathBuf,
    /// How long faults are made.
    pub time: Duration,
    /// Only a check that all of this works: everything is small.
    pub short: bool,
    /// Whether PostgreSQL waits for the disk.
    pub fsync: bool,
    /// What clients do.
    pub seed: u64,
    /// What the scenario does.
    pub rng: Rng,
}

impl Stage {
    /// A stage in a fresh directory.
    pub fn new(binary: &Path, time: Duration, short: bool, fsync: bool, seed: u64) -> Result<Self> {
        let dir = tempfile::Builder::new().prefix("bugle-faults-").tempdir().context("make a directory")?;
        // PostgreSQL runs as another user.
        std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o755)).context("open it")?;
        let (binary, dir) = (binary.to_owned(), dir.keep());
        Ok(Self { binary, dir, time, short, fsync, seed, rng: Rng::with_seed(seed) })
    }

    /// A server that keeps everything in a directory of its own.
    pub async fn embedded(&self) -> Result<Server> {
        self.server("server", embedded()).await
    }

    /// Some server.
    pub async fn server(&self, name: &str, manner: Manner) -> Result<Server> {
        Server::start(&self.binary, &self.dir, name, manner).await
    }

    /// A database of this round.
    pub async fn database(&self) -> Result<Database> {
        let options = DatabaseOptions { fsync: self.fsync, ..DatabaseOptions::default() };
        Database::start(&self.dir, options).await
    }

    /// Servers that share a database.
    pub async fn sharing(&self, address: &str, count: usize) -> Result<Vec<Server>> {
        let mut servers = Vec::new();
        for n in 0..count {
            servers.push(self.server(&format!("server{n}"), sharing(address)).await?);
        }
        Ok(servers)
    }

    /// What a server of an engine needs: a directory, or a database and a second server.
    pub async fn cast(&self, engine: Engine, servers: usize) -> Result<(Option<Database>, Vec<Server>)> {
        match engine {
            Engine::Embedded => Ok((None, vec![self.embedded().await?])),
            Engine::Postgres => {
                let database = self.database().await?;
                let servers = self.sharing(&database.address(), servers).await?;
                Ok((Some(database), servers))
            }
        }
    }

    /// Clients of these servers, as many as a busy small installation has.
    pub fn load<'u>(&self, urls: impl IntoIterator<Item = &'u str>) -> Load {
        let (producers, consumers) = if self.short { (3, 2) } else { (8, 4) };
        let load = Load::seeded(urls, self.seed);
        Load { producers, consumers, partitions: 12, timeout: Duration::from_secs(3), ..load }
    }

    /// Start the load.
    pub fn begin(&self, load: &Load) -> Result<Trial> {
        let running = Running::start(load)?;
        let least = if self.short { 2 } else { 1 };
        let until = Instant::now() + self.time;
        Ok(Trial { running, until, least, injected: 0, figures: Vec::new(), returns: Vec::new() })
    }

    /// The same for servers that nothing stands in front of.
    pub fn begin_on(&self, servers: &[Server]) -> Result<Trial> {
        self.begin(&self.load(servers.iter().map(Server::url)))
    }
}

/// The embedded engine.
pub fn embedded() -> Manner {
    let flags = ["--store=embedded", "--data-dir=data", "--log-level=info"];
    Manner { flags: flags.map(str::to_owned).to_vec(), ..Manner::default() }
}

/// A database that others use too.
pub fn sharing(address: &str) -> Manner {
    let flags = vec![format!("--store={address}"), "--log-level=info".to_owned()];
    Manner { flags, ..Manner::default() }
}

/// A round under load.
pub struct Trial {
    running: Running,
    until: Instant,
    least: u64,
    /// Faults so far.
    pub injected: u64,
    /// What else was measured.
    pub figures: Vec<String>,
    /// When service became possible again, by the recorder's clock.
    returns: Vec<u64>,
}

impl Trial {
    /// A fault is over just now: how long it takes to the next delivery is measured.
    pub fn healed(&mut self) {
        self.returns.push(self.running.recorder().elapsed().as_micros() as u64);
    }

    /// Whether another fault is to be made.
    pub fn goes_on(&self) -> bool {
        self.injected < self.least || Instant::now() < self.until
    }

    /// Requests so far.
    pub fn requests(&self) -> usize {
        self.running.requests()
    }

    /// Wait for so many more requests with an outcome or without: every fault should meet traffic.
    pub async fn traffic(&self, more: usize) -> Result<()> {
        let (enough, since) = (self.running.requests() + more, Instant::now());
        while self.running.requests() < enough {
            if since.elapsed() > NO_SERVICE {
                bail!("clients sent less than {more} requests in {NO_SERVICE:?}");
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    }

    /// The recorder's clock.
    pub fn elapsed(&self) -> Duration {
        self.running.recorder().elapsed()
    }

    /// End the load, take out what is left, and have everything checked.
    pub async fn judge(mut self, stage: &Stage, terms: &Terms) -> Result<Outcome> {
        let (injected, mut figures) = (self.injected, std::mem::take(&mut self.figures));
        let returns = std::mem::take(&mut self.returns);
        let history = self.end(stage).await?;
        let report = judged(stage, &history, terms).await?;
        if let Some(longest) = resumed(&history, &returns) {
            figures
                .push(format!("deliveries again {:.2} s after it was back, at most", longest.as_secs_f64()));
        }
        Ok(Outcome { report, injected, gap: gap(&history), figures })
    }

    /// End the load and take out what is left.
    pub async fn end(self, stage: &Stage) -> Result<Arc<History>> {
        let recorder = self.running.recorder();
        match self.running.finish().await {
            Ok(history) => Ok(Arc::new(history)),
            Err(error) => {
                save(stage, &recorder.take())?;
                Err(error).context("the load did not end well")
            }
        }
    }

    /// End the load and leave what is left.
    pub async fn stop(self) -> Result<Arc<History>> {
        Ok(Arc::new(self.running.stop().await?))
    }
}

/// What the checker says of a history, which is kept if it says anything.
pub async fn judged(stage: &Stage, history: &Arc<History>, terms: &Terms) -> Result<Report> {
    let report = checked(history, terms).await?;
    if !report.is_clean() {
        save(stage, history)?;
    }
    Ok(report)
}

/// What the checker says. Seconds of work for a large history: on a thread of its own. (Never in place: a thread of the
/// runtime that is made a blocking one ends some time, and processes that it started are ended with it.)
pub async fn checked(history: &Arc<History>, terms: &Terms) -> Result<Report> {
    let (history, terms) = (history.clone(), *terms);
    tokio::task::spawn_blocking(move || check(&history, &terms)).await.context("the checker")
}

fn save(stage: &Stage, history: &History) -> Result<()> {
    let file = std::fs::File::create(stage.dir.join("history.jsonl")).context("keep the history")?;
    history.save(&mut std::io::BufWriter::new(file)).context("keep the history")
}

/// The longest time in which nothing was pushed, delivered or acknowledged.
pub fn gap(history: &History) -> Duration {
    let mut served: Vec<u64> =
        history.records.iter().filter(|r| is_service(&r.op)).map(|r| r.ended_at).collect();
    served.sort_unstable();
    let longest = served.windows(2).map(|pair| pair[1] - pair[0]).max();
    Duration::from_micros(longest.unwrap_or_default())
}

/// The longest time from one of these moments to the next delivery.
fn resumed(history: &History, moments: &[u64]) -> Option<Duration> {
    let delivery = |op: &Op| matches!(op, Op::Pop { outcome: Answer::Done((_, m)), .. } if !m.is_empty());
    let mut given: Vec<u64> =
        history.records.iter().filter(|r| delivery(&r.op)).map(|r| r.ended_at).collect();
    given.sort_unstable();
    let next = |moment: &u64| given.get(given.partition_point(|at| at < moment)).map(|at| at - moment);
    moments.iter().filter_map(next).max().map(Duration::from_micros)
}

fn is_service(op: &Op) -> bool {
    match op {
        Op::Push { outcome, .. } | Op::Transact { outcome, .. } => *outcome == Answer::Done(()),
        Op::Pop { outcome: Answer::Done((_, messages)), .. } => !messages.is_empty(),
        Op::Ack { outcome, .. } => matches!(outcome, Answer::Done(_)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bugle_history::Record;

    #[test]
    fn the_gap_is_between_answers_that_did_something() {
        let record = |at, outcome| Record {
            began: at,
            ended: at + 1,
            began_at: at,
            ended_at: at + 1,
            op: Op::Push { messages: Vec::new(), outcome },
        };
        let records = vec![
            record(40, Answer::Unknown),
            record(50, Answer::Done(())),
            record(10, Answer::Done(())),
            record(70, Answer::Not),
        ];
        assert_eq!(gap(&History { records }), Duration::from_micros(40));
        assert_eq!(gap(&History::default()), Duration::ZERO);
    }
}
