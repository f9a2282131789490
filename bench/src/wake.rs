//! `wake`: how long a message takes from its push to a consumer that waits for it, with producers on a fixed schedule.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::Result;
use serde_json::{Map, Value, json};
use tokio::sync::Mutex;
use tokio::task::JoinSet;

use crate::cli_wait::WakeArgs;
use crate::client::Target;
use crate::consumer::Consumer;
use crate::content::Content;
use crate::correlate::{Books, Report};
use crate::gauge::Waiters;
use crate::line::{Exchange, pop_path};
use crate::observe::Observer;
use crate::producer::{Run, produce};
use crate::schedule::{Schedule, pace};
use crate::stats::Errors;
use crate::waiters::{Parking, Ramp, Tally, assign};
use crate::{Outcome, gauge, probe, setup};

/// Every first request must be under way this soon after the last waiter was started.
const START_LIMIT: Duration = Duration::from_secs(60);
/// A push that takes longer has failed.
const PUSH_LIMIT: Duration = Duration::from_secs(30);

/// Everything that waits.
struct Crowd {
    servers: Vec<Exchange>,
    tally: Rc<Tally>,
    others: Rc<Tally>,
    tasks: JoinSet<()>,
}

/// Runs the command.
pub(crate) async fn run(args: WakeArgs) -> Result<Outcome> {
    args.check()?;
    let prefix = args.reach.prefix()?;
    let schedule =
        Schedule::new(args.rate, args.warmup_seconds, args.seconds, args.queues as u64, args.partitions);
    let run = Rc::new(Run {
        schedule,
        content: Content::new(fastrand::u64(..), args.payload_bytes)?,
        queues: (0..args.queues).map(|queue| format!("{prefix}-{queue}")).collect(),
        books: RefCell::new(Books::new(schedule, args.groups.max(1))),
        push_errors: RefCell::new(Errors::default()),
        epoch: Cell::new(Instant::now()),
    });
    let observer = Observer::new(&args.watch).await?;
    let fdatasync = probe::fdatasync_median_ms(&args.fsync_dir)?;
    let pushed_to = Target::new(&args.reach.url, args.reach.token.as_deref(), PUSH_LIMIT)?;
    let other_queues: Vec<String> = (0..args.other_queues()).map(|q| format!("{prefix}-other-{q}")).collect();
    setup::create_queues(&pushed_to, run.queues.iter().chain(&other_queues).cloned().collect()).await?;

    let mut crowd = gather(&args, &run, other_queues).await?;
    tokio::time::sleep(Duration::from_secs_f64(args.settle_seconds)).await;
    let parked = gauge::waiters(&crowd.servers[0].target).await;
    let window = observer.begin().await?;
    push_all(&args, &run, &pushed_to).await?;
    let usage = observer.end(&window).await?;
    drain(&args, &run).await;
    crowd.tasks.shutdown().await;

    let report = run.books.borrow().close();
    let mut json = parameters(&args, &prefix, &crowd);
    json.extend(results(&run, &crowd, &report));
    json.insert("server_waiters_before".to_owned(), Waiters::json(parked));
    json.insert("fdatasync_ms".to_owned(), json!(crate::stats::round(fdatasync)));
    json.extend(usage);
    Ok(Outcome { json: Value::Object(json), ok: report.ok(), table: None })
}

/// Starts all waiters and returns when their first requests are under way.
async fn gather(args: &WakeArgs, run: &Rc<Run>, other_queues: Vec<String>) -> Result<Crowd> {
    let limit = Duration::from_millis(args.timeout_ms) + Duration::from_secs(15);
    let urls = if args.pop_url.is_empty() { std::slice::from_ref(&args.reach.url) } else { &args.pop_url };
    let mut crowd =
        Crowd { servers: Vec::new(), tally: Rc::default(), others: Rc::default(), tasks: JoinSet::new() };
    for url in urls {
        let target = Target::new(url, args.reach.token.as_deref(), limit)?;
        crowd.servers.push(Exchange::open(target, args.reach.streams()).await?);
    }
    let Crowd { servers, tally, others, tasks } = &mut crowd;
    if args.other_waiters > 0 {
        let parking = Parking {
            waiters: args.other_waiters,
            keys: other_queues.into_iter().map(|queue| (queue, "g0".to_owned())).collect(),
            repoll_ms: args.timeout_ms,
            starts_per_second: args.reach.starts_per_second,
        };
        parking.start(servers, others, tasks).await?;
    }
    let groups: Vec<Rc<str>> = match args.groups {
        0 => vec!["__QUEUE_MODE__".into()],
        count => (0..count).map(|group| format!("g{group}").into()).collect(),
    };
    let mut ramp = Ramp::new(args.reach.starts_per_second);
    for index in 0..args.waiters {
        let (key, server) = assign(index, args.queues * groups.len(), servers.len());
        let (queue, group) = (key % args.queues, key / args.queues);
        let server = &mut servers[server];
        let path = pop_path(&run.queues[queue], &groups[group], args.timeout_ms, args.batch, args.auto_ack);
        let consumer = Consumer {
            run: Rc::clone(run),
            tally: Rc::clone(tally),
            target: server.target.clone(),
            request: server.get(&path)?,
            line: server.line(),
            queue: queue as u64,
            group,
            group_name: Rc::clone(&groups[group]),
            auto_ack: args.auto_ack,
        };
        tasks.spawn_local(consumer.consume());
        ramp.step().await;
    }
    tally.all_waiting(args.waiters, START_LIMIT).await?;
    others.all_waiting(args.other_waiters, START_LIMIT).await?;
    Ok(crowd)
}

/// Returns when every push of the schedule has been answered or has failed.
async fn push_all(args: &WakeArgs, run: &Rc<Run>, target: &Target) -> Result<()> {
    // The first message is due a little later, when all producers stand ready.
    run.epoch.set(Instant::now() + Duration::from_millis(20));
    let due = Rc::new(Mutex::new(pace(run.schedule, run.epoch.get())?));
    let mut producers = JoinSet::new();
    for _ in 0..args.producers {
        producers.spawn_local(produce(Rc::clone(run), target.clone(), Rc::clone(&due)));
    }
    while let Some(ended) = producers.join_next().await {
        ended?;
    }
    Ok(())
}

/// Waits for what is still owed, and then a little longer for what comes twice.
async fn drain(args: &WakeArgs, run: &Run) {
    let deadline = Instant::now() + Duration::from_secs_f64(args.drain_seconds);
    while !run.books.borrow().complete() && Instant::now() < deadline {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    tokio::time::sleep(Duration::from_secs_f64(args.linger_seconds)).await;
}

fn parameters(args: &WakeArgs, prefix: &str, crowd: &Crowd) -> Map<String, Value> {
    let json = json!({
        "command": "wake", "url": args.reach.url, "pop_url": args.pop_url, "queue": prefix,
        "waiters": args.waiters, "queues": args.queues, "groups": args.groups, "partitions": args.partitions,
        "rate": args.rate, "producers": args.producers, "seconds": args.seconds,
        "warmup_seconds": args.warmup_seconds, "other_waiters": args.other_waiters,
        "other_queues": args.other_queues(), "timeout_ms": args.timeout_ms, "batch": args.batch,
        "auto_ack": args.auto_ack, "payload_bytes": args.payload_bytes, "h2": args.reach.h2,
        "streams_per_connection": crowd.servers.iter().filter_map(Exchange::streams).min(),
        "coordinated_omission_corrected": true,
    });
    json.as_object().cloned().unwrap_or_default()
}

fn results(run: &Run, crowd: &Crowd, report: &Report) -> Map<String, Value> {
    let mut errors = run.push_errors.borrow().clone();
    errors.add(&crowd.tally.errors.borrow());
    errors.count("message missing", report.missing);
    errors.count("message doubled", report.doubled);
    errors.count("message corrupt", report.corrupt);
    errors.count("message for an idle waiter", crowd.others.unexpected.get());
    let mut others = Errors::default();
    others.add(&crowd.others.errors.borrow());
    let mut json = report.json().as_object().cloned().unwrap_or_default();
    json.insert("messages".to_owned(), json!(run.schedule.total));
    json.insert("pops".to_owned(), json!(crowd.tally.polls.get()));
    json.insert("errors".to_owned(), errors.json());
    json.insert("other_waiters_errors".to_owned(), others.json());
    json
}
