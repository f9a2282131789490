//! Ten groups at a fifth of the knee: every group keeps up, and a push does not feel them. Pushes come at a fixed rate while each group's
//! consumers wait for messages; how far each group is behind is looked at all the time.

use std::cell::{Cell, RefCell};
use std::fmt::Write;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::load::{acknowledge, receive};
use super::report::Bar;
use crate::cli::{AckStyle, Common};
use crate::cli_growth::GrowthArgs;
use crate::cli_servers::Servers;
use crate::client::Target;
use crate::curve::{Windows, pushes_to};
use crate::curve_report::knee;
use crate::launch::{Place, Server};
use crate::offer::offer;
use crate::open::Pushes;
use crate::stats::{Backoff, median, round};

/// Messages per request; each has its own knee.
const BATCHES: [usize; 2] = [1, 100];
/// The crowd, against one.
const GROUPS: usize = 10;
/// Part of the knee that is pushed.
const PART: f64 = 0.2;
/// Steps in which the knee is looked for, as parts of what a closed loop reached.
const STEPS: [f64; 6] = [0.1, 0.5, 0.6, 0.7, 0.85, 1.0];
/// Consumers of each group.
const CONSUMERS: usize = 2;
/// Between two looks at who is how far behind.
const LOOK: Duration = Duration::from_millis(10);
/// What is owed must have come this long after the last push.
const LATE: Duration = Duration::from_secs(10);
/// Nobody may be behind for longer than this, in milliseconds of pushes.
const BOUND_MS: f64 = 1000.0;
/// Push p99 with the crowd against that with one group.
const TIMES: f64 = 1.5;

/// One window.
#[derive(Debug, Clone, Copy)]
struct Window {
    p99: f64,
    /// Furthest that a group was behind, and its mean in each half of the window, in milliseconds of pushes.
    worst_ms: f64,
    halves_ms: (f64, f64),
    /// Milliseconds from the end of the pushes until every group had everything; none if that never came.
    late_ms: Option<f64>,
}

/// What was found for one batch size.
#[derive(Debug, Clone)]
pub(crate) struct Lag {
    engine: &'static str,
    batch: usize,
    knee: f64,
    one: Vec<Window>,
    many: Vec<Window>,
}

fn of(windows: &[Window], way: impl Fn(&Window) -> f64) -> f64 {
    median(&windows.iter().map(way).collect::<Vec<_>>())
}

impl Lag {
    fn times(&self) -> f64 {
        of(&self.many, |w| w.p99) / of(&self.one, |w| w.p99).max(0.001)
    }

    fn worst_ms(&self) -> f64 {
        self.many.iter().map(|w| w.worst_ms).fold(0.0, f64::max)
    }

    fn all_came(&self) -> bool {
        self.many.iter().all(|w| w.late_ms.is_some())
    }

    pub(crate) fn bars(&self) -> Vec<Bar> {
        let (engine, batch, worst) = (self.engine, self.batch, self.worst_ms());
        let what = |what: &str| format!("{GROUPS} groups at a fifth of the knee, batch {batch}: {what}");
        let found =
            if self.all_came() { format!("{worst:.0}") } else { format!("{worst:.0}, and not all came") };
        vec![
            Bar {
                engine,
                what: what("furthest behind, ms of pushes"),
                wanted: format!("≤ {BOUND_MS:.0}"),
                found,
                met: self.all_came() && worst <= BOUND_MS,
            },
            Bar {
                engine,
                what: what("push p99 against one group, times"),
                wanted: format!("≤ {TIMES}"),
                found: format!("{:.2}", self.times()),
                met: self.times() <= TIMES,
            },
        ]
    }

    pub(crate) fn json(&self) -> Value {
        let windows = |windows: &[Window]| {
            let each = windows.iter().map(|w| {
                json!({"push_p99_ms": w.p99, "worst_lag_ms": round(w.worst_ms), "first_half_lag_ms": round(w.halves_ms.0),
                       "second_half_lag_ms": round(w.halves_ms.1), "late_ms": w.late_ms.map(round)})
            });
            each.collect::<Vec<_>>()
        };
        json!({"engine": self.engine, "batch": self.batch, "knee": round(self.knee), "rate": round(self.knee * PART),
               "groups": GROUPS, "one": windows(&self.one), "many": windows(&self.many), "times": round(self.times())})
    }
}

/// The findings as markdown.
pub(crate) fn table(lags: &[Lag]) -> String {
    let mut text = format!(
        "\n## Ten groups at a fifth of the knee\n\nPushes at a fixed rate, timed from when they were due; {CONSUMERS} consumers of each group wait for them. How far a group is \
         behind (sent and not delivered) is looked at every {} ms and given in milliseconds of pushes: the worst of all groups.\n\n\
         | engine | batch | knee, msgs/s | pushed, msgs/s | push p99, ms: one group → {GROUPS} | times | furthest behind, ms: one → {GROUPS} | mean behind in the first → second half, ms | all had everything, ms after the last push |\n\
         |---|--:|--:|--:|--:|--:|--:|--:|--:|\n",
        LOOK.as_millis()
    );
    for lag in lags {
        let one_worst = lag.one.iter().map(|w| w.worst_ms).fold(0.0, f64::max);
        let late = of(&lag.many, |w| w.late_ms.unwrap_or(f64::INFINITY));
        let late = if late.is_finite() { format!("{late:.0}") } else { "never".to_owned() };
        let _ = writeln!(
            text,
            "| {} | {} | {:.0} | {:.0} | {:.2} → {:.2} | **{:.2}** | {one_worst:.0} → {:.0} | {:.0} → {:.0} | {late} |",
            lag.engine,
            lag.batch,
            lag.knee,
            lag.knee * PART,
            of(&lag.one, |w| w.p99),
            of(&lag.many, |w| w.p99),
            lag.times(),
            lag.worst_ms(),
            of(&lag.many, |w| w.halves_ms.0),
            of(&lag.many, |w| w.halves_ms.1),
        );
    }
    text
}

/// Measures both batch sizes on one server.
pub(crate) async fn measure(args: &GrowthArgs, servers: &Servers) -> Result<Vec<Lag>> {
    let place = Place::new(servers)?;
    let measured = match place.start::<&str>(&[]).await {
        Ok(server) => Box::pin(on_server(args, &place, &server)).await,
        Err(error) => Err(error),
    };
    let removed = place.remove().await;
    let lags = measured?;
    removed?;
    Ok(lags)
}

async fn on_server(args: &GrowthArgs, place: &Place, server: &Server) -> Result<Vec<Lag>> {
    let mut lags = Vec::new();
    for batch in BATCHES {
        let common = Common { batch, connections: 64, ..pushes_to(server, place)? };
        let windows = Windows { connections: 64, warmup_seconds: 0.2, seconds: args.window() };
        let closed = windows.closed_loop(&common).await?;
        let steps = windows.climb(&common, closed, &STEPS).await?;
        let knee = knee(&steps).context("even a tenth of what a closed loop reached was not kept up with")?;
        let mut lag = Lag { engine: place.engine(), batch, knee, one: Vec::new(), many: Vec::new() };
        let windows = Windows { seconds: args.window() * 4.0, ..windows };
        // The first round warms up.
        for round in 0..=args.rounds() {
            for groups in [1, GROUPS] {
                let common =
                    Common { queue: Some(format!("lag-{batch}-{round}-{groups}")), ..common.clone() };
                let window = Box::pin(window(server, &common, windows, knee * PART, groups)).await?;
                if round > 0 {
                    if groups == 1 { &mut lag.one } else { &mut lag.many }.push(window);
                }
            }
        }
        lags.push(lag);
    }
    Ok(lags)
}

/// Pushes at a rate while so many groups read.
async fn window(
    server: &Server,
    common: &Common,
    windows: Windows,
    rate: f64,
    groups: usize,
) -> Result<Window> {
    let queue = common.queue_name()?;
    server.rest()?.configure(&queue, &json!({"leaseTime": 60})).await?;
    let got: Rc<Vec<Cell<u64>>> = Rc::new((0..groups).map(|_| Cell::new(0)).collect());
    let mut readers = JoinSet::new();
    for reader in 0..groups * CONSUMERS {
        readers.spawn_local(follow(server.target()?, queue.clone(), reader % groups, Rc::clone(&got)));
    }
    let pushes = Pushes::new(common)?;
    let behind = Rc::new(RefCell::new(Vec::new()));
    let looks = tokio::task::spawn_local(look(Rc::clone(&pushes), Rc::clone(&got), Rc::clone(&behind)));
    let requests = rate / common.batch as f64;
    let offered =
        offer(pushes.senders(windows.connections), requests, windows.warmup_seconds, windows.seconds).await?;
    looks.abort();
    let (end, owed) = (Instant::now(), pushes.sent_and_queued().1);
    let complete = || got.iter().all(|got| got.get() >= owed);
    while !complete() && end.elapsed() < LATE {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let late_ms = complete().then(|| end.elapsed().as_secs_f64() * 1e3);
    readers.shutdown().await;
    let (worst_ms, halves_ms) = summed(&behind.borrow(), rate);
    Ok(Window { p99: offered.latency.quantile_ms(0.99), worst_ms, halves_ms, late_ms })
}

/// Notes again and again how many messages the group that is furthest behind has not been given.
async fn look(pushes: Rc<Pushes>, got: Rc<Vec<Cell<u64>>>, behind: Rc<RefCell<Vec<u64>>>) {
    loop {
        tokio::time::sleep(LOOK).await;
        let least = got.iter().map(Cell::get).min().unwrap_or(0);
        behind.borrow_mut().push(pushes.sent_and_queued().0.saturating_sub(least));
    }
}

/// The most, and the mean of each half, in milliseconds of pushes.
fn summed(behind: &[u64], rate: f64) -> (f64, (f64, f64)) {
    let ms = |messages: f64| messages * 1e3 / rate;
    let mean = |part: &[u64]| ms(part.iter().sum::<u64>() as f64 / part.len().max(1) as f64);
    let (first, second) = behind.split_at(behind.len() / 2);
    let worst = behind.iter().max().copied().unwrap_or(0);
    (ms(worst as f64), (mean(first), mean(second)))
}

/// A consumer that waits, takes what comes from many lanes, and acknowledges the last of each.
async fn follow(target: Target, queue: String, group: usize, got: Rc<Vec<Cell<u64>>>) {
    let name = format!("g{group}");
    let path = format!(
        "/api/v1/pop/queue/{queue}?partitions=100&consumerGroup={name}&batch=1000&wait=true&timeout=10000&subscriptionMode=all"
    );
    let request = target.get(&path);
    let (mut connection, mut ack) = (target.connection(), target.post("/api/v1/ack/batch"));
    let mut backoff = Backoff::default();
    loop {
        let received = match receive(&mut connection, &request, &mut ack, &name, Some(AckStyle::Last)).await {
            Ok(0) => Ok(0),
            Ok(messages) => acknowledge(&mut connection, &ack).await.map(|()| messages),
            Err(why) => Err(why),
        };
        match received {
            Ok(messages) => {
                got[group].set(got[group].get() + messages);
                backoff.reset();
            }
            // What was not acknowledged comes again, and is missed until then.
            Err(_) => backoff.wait(Duration::from_millis(10), Duration::from_secs(1)).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(p99: f64, worst_ms: f64, late_ms: Option<f64>) -> Window {
        Window { p99, worst_ms, halves_ms: (1.0, 2.0), late_ms }
    }

    fn lag(many: Vec<Window>) -> Lag {
        let one = vec![window(2.0, 10.0, Some(1.0))];
        Lag { engine: "embedded", batch: 1, knee: 1000.0, one, many }
    }

    #[test]
    fn behind_is_told_in_the_time_the_pushes_took() {
        let (worst, halves) = summed(&[0, 10, 20, 40], 1000.0);
        assert_eq!((worst, halves), (40.0, (5.0, 30.0)));
        assert_eq!(summed(&[], 1000.0), (0.0, (0.0, 0.0)));
    }

    #[test]
    fn a_group_that_never_got_everything_does_not_keep_up() {
        let met = |many| lag(many).bars().iter().map(|bar| bar.met).collect::<Vec<_>>();
        assert_eq!(met(vec![window(3.0, 999.0, Some(5.0))]), [true, true]);
        assert_eq!(met(vec![window(3.1, 1001.0, Some(5.0))]), [false, false]);
        assert_eq!(met(vec![window(3.0, 1.0, None)]), [false, true]);
        assert!(table(&[lag(vec![window(3.0, 1.0, None)])]).contains("| never |"));
    }
}
