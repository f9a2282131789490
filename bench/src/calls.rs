//! `calls`: how many calls of the store it takes to serve many consumers: pops that come together, a burst for a thousand
//! waiters, and one message that a thousand consumers wait for.

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::Outcome;
use crate::cli_servers::CallsArgs;
use crate::client::Target;
use crate::gauge;
use crate::launch::{Place, Server};
use crate::rest::Rest;
use crate::samples::Samples;
use crate::waiters::Ramp;

const CLAIMS: &str = "bugle_claim_calls_total";
const STORE: &str = "bugle_store_calls_total";
/// The `batch` of the waiters of a burst.
const BATCH: usize = 10;
/// A burst that is not delivered by then is not delivered.
const LIMIT: Duration = Duration::from_secs(30);
/// After this long whoever wanted to claim has done so.
const AFTERMATH: Duration = Duration::from_millis(1500);

/// Runs the command.
pub(crate) async fn run(args: CallsArgs) -> Result<Outcome> {
    args.check()?;
    let place = Place::new(&args.servers)?;
    let measured = Box::pin(measure(&args, &place)).await;
    let engine = place.engine();
    let removed = place.remove().await;
    let (together, burst, single) = measured?;
    removed?;
    let json = json!({
        "command": "calls", "engine": engine, "rounds": args.rounds, "pops": args.pops, "waiters": args.waiters,
        "messages": args.messages, "pops_together": together, "burst": burst, "one_message": single,
    });
    Ok(Outcome { json, ok: true, table: None })
}

async fn measure(args: &CallsArgs, place: &Place) -> Result<(Value, Value, Value)> {
    let mut together = serde_json::Map::new();
    for (name, flags) in [("batching", &[][..]), ("no_batching", &["--pop-batching=false"][..])] {
        let server = place.start(flags).await?;
        together.insert(name.to_owned(), Box::pin(pops_together(args, &server)).await?);
        server.kill()?;
    }
    let server = place.start::<&str>(&[]).await?;
    let mut bursts = Vec::new();
    for number in 0..args.rounds {
        bursts.push(Box::pin(burst(args, &server, &format!("burst-{number}"))).await?);
    }
    server.kill()?;
    let single = match place.engine() {
        // One process owns the data.
        "embedded" => Value::Null,
        _ => Box::pin(one_message(args, place)).await?,
    };
    Ok((Value::Object(together), Value::Array(bursts), single))
}

async fn count(target: &Target, name: &str) -> Result<f64> {
    gauge::number(target, name).await.with_context(|| format!("the server has no number {name}"))
}

/// One message in each of the first lanes.
fn items(queue: &str, lanes: usize, messages: usize) -> Value {
    (0..messages)
        .map(|n| json!({"queue": queue, "partition": format!("p{}", n % lanes), "payload": {"n": n}}))
        .collect()
}

/// Pops that come at once, each for a message that is there.
async fn pops_together(args: &CallsArgs, server: &Server) -> Result<Value> {
    let target = server.target()?;
    let (mut times, mut calls, mut empty) = (Samples::default(), Vec::new(), 0);
    let mut lines: Vec<Rest> = (0..args.pops).map(|_| Rest::new(target.clone())).collect();
    for line in &mut lines {
        line.get("/health").await?;
    }
    for number in 0..args.rounds {
        // Both servers of this part have the same data; what the first has leased is no work for the second.
        let queue = format!("together-{:08x}-{number}", fastrand::u32(..));
        lines[0].push(items(&queue, args.pops, args.pops)).await?;
        let before = count(&target, CLAIMS).await?;
        let (mut tasks, epoch) = (JoinSet::new(), Instant::now());
        for mut line in lines.drain(..) {
            let path = format!("/api/v1/pop/queue/{queue}");
            tasks.spawn_local(async move {
                let start = epoch.elapsed();
                let popped = line.get(&path).await;
                (line, start, epoch.elapsed(), popped)
            });
        }
        while let Some(done) = tasks.join_next().await {
            let (line, start, end, popped) = done?;
            let (status, _) = popped?;
            ensure!(matches!(status, 200 | 204), "pop: {status}");
            // There is a message for each of them; who gets none has lost a race.
            empty += u32::from(status == 204);
            times.span(start.as_nanos() as u64, end.as_nanos() as u64);
            lines.push(line);
        }
        calls.push(count(&target, CLAIMS).await? - before);
    }
    Ok(json!({"claim_calls": calls, "latency_ms": times.json(), "empty_answers": empty}))
}

/// What the waiters of a burst share.
#[derive(Default)]
struct Burst {
    answered: Cell<usize>,
    messages: Cell<usize>,
    failed: Cell<usize>,
}

/// One push for as many waiters as there are lanes: calls and time until each has an answer, and until all is delivered.
async fn burst(args: &CallsArgs, server: &Server, queue: &str) -> Result<Value> {
    let target = server.target()?;
    let mut rest = Rest::new(target.clone());
    rest.configure(queue, &json!({"leaseTime": 600})).await?;
    let state = Rc::new(Burst::default());
    let (more, go) = tokio::sync::watch::channel(false);
    let (mut tasks, mut ramp) = (JoinSet::new(), Ramp::new(2_000.0));
    for _ in 0..args.waiters {
        tasks.spawn_local(consume(target.clone(), queue.to_owned(), Rc::clone(&state), go.clone()));
        ramp.step().await;
    }
    let all = args.waiters as f64;
    rest.until("bugle_waiters_parked", |parked| parked >= all).await?;
    let (store, claims) = (count(&target, STORE).await?, count(&target, CLAIMS).await?);
    let begun = Instant::now();
    rest.push(items(queue, args.waiters, args.messages)).await?;
    let answered = begun.elapsed();
    let first = until(&state, begun, |state| state.answered.get() >= args.waiters).await?;
    let served = (count(&target, STORE).await? - store, count(&target, CLAIMS).await? - claims);
    let delivered_first = state.messages.get();
    more.send_replace(true);
    let last = until(&state, begun, |state| state.messages.get() >= args.messages).await?;
    let whole = count(&target, STORE).await? - store;
    tasks.shutdown().await;
    rest.until("bugle_waiters", |count| count == 0.0).await?;
    ensure!(state.messages.get() == args.messages, "{} messages came", state.messages.get());
    let ms = |time: Duration| crate::stats::round(time.as_secs_f64() * 1e3);
    Ok(json!({
        "push_answered_ms": ms(answered), "all_waiters_answered_ms": ms(first), "store_calls_until_then": served.0,
        "claim_calls_until_then": served.1, "messages_until_then": delivered_first, "all_delivered_ms": ms(last),
        "store_calls_in_all": whole, "failed_requests": state.failed.get(),
    }))
}

/// Waits once, then holds on until all have an answer, then asks again for the rest.
async fn consume(
    target: Target,
    queue: String,
    state: Rc<Burst>,
    mut go: tokio::sync::watch::Receiver<bool>,
) {
    let path = format!("/api/v1/pop/queue/{queue}?wait=true&timeout=30000&batch={BATCH}&autoAck=true");
    let (request, mut line) = (target.get(&path), target.waiting_connection());
    loop {
        match line.call(&request).await {
            Ok(response) if response.status == 200 => {
                let found = response.body.windows(16).filter(|w| w == b"\"transactionId\":").count();
                state.messages.set(state.messages.get() + found);
                state.answered.set(state.answered.get() + 1);
            }
            Ok(response) if response.status == 204 => {}
            _ => state.failed.set(state.failed.get() + 1),
        }
        // Fails only when the run is over.
        if go.wait_for(|go| *go).await.is_err() {
            return;
        }
    }
}

async fn until(state: &Burst, begun: Instant, done: impl Fn(&Burst) -> bool) -> Result<Duration> {
    while !done(state) {
        ensure!(
            begun.elapsed() < LIMIT,
            "after {LIMIT:?} {} waiters have answers, {} messages came",
            state.answered.get(),
            state.messages.get()
        );
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    Ok(begun.elapsed())
}

/// One message that consumers on two servers wait for: how often each server claims.
async fn one_message(args: &CallsArgs, place: &Place) -> Result<Value> {
    let servers = [place.start::<&str>(&[]).await?, place.start::<&str>(&[]).await?];
    let rests = [servers[0].rest()?, servers[1].rest()?];
    for rest in &rests {
        rest.until_hearing("notify").await?;
    }
    let queue = "single";
    let mut producer = servers[0].rest()?;
    producer.configure(queue, &json!({"leaseTime": 600})).await?;
    let state = Rc::new(Burst::default());
    let (_more, go) = tokio::sync::watch::channel(false);
    let (mut tasks, mut ramp) = (JoinSet::new(), Ramp::new(2_000.0));
    let mut calls = Vec::new();
    for index in 0..args.waiters + args.rounds {
        let target = rests[index % 2].target.clone();
        tasks.spawn_local(consume(target, queue.to_owned(), Rc::clone(&state), go.clone()));
        ramp.step().await;
    }
    for rest in &rests {
        rest.until("bugle_waiters_parked", |n| n >= ((args.waiters + args.rounds) / 2) as f64).await?;
    }
    for number in 0..args.rounds {
        let before = [count(&rests[0].target, CLAIMS).await?, count(&rests[1].target, CLAIMS).await?];
        let begun = Instant::now();
        producer.push(items(queue, 1, 1)).await?;
        until(&state, begun, |state| state.answered.get() > number).await?;
        tokio::time::sleep(AFTERMATH).await;
        calls.push(json!([
            count(&rests[0].target, CLAIMS).await? - before[0],
            count(&rests[1].target, CLAIMS).await? - before[1],
        ]));
        ensure!(state.messages.get() == number + 1, "{} messages came", state.messages.get());
    }
    tasks.shutdown().await;
    Ok(json!({"claim_calls_per_server": calls}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_dealt_out_over_its_lanes() {
        let items = items("q", 3, 7);
        let lanes: Vec<&str> =
            items.as_array().unwrap().iter().map(|i| i["partition"].as_str().unwrap()).collect();
        assert_eq!(lanes, ["p0", "p1", "p2", "p0", "p1", "p2", "p0"]);
    }
}
