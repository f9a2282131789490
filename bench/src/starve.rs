//! `starve`: whether waiting pops take anything from those who work. The same load without and with parked waiters, in turn,
//! because a shared machine changes more from minute to minute than what is looked for.

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde_json::{Map, Value, json};
use tokio::task::JoinSet;

use crate::cli_servers::StarveArgs;
use crate::client::Target;
use crate::launch::{Place, Server};
use crate::line::Exchange;
use crate::rest::Rest;
use crate::stats::{median, round};
use crate::waiters::{Parking, Tally};
use crate::{Outcome, gauge, setup};

/// Messages in each lane of those that are acknowledged.
const RUN: usize = 100;
const START_LIMIT: Duration = Duration::from_secs(60);
/// Between the last waiter's first request and the load.
const SETTLE: Duration = Duration::from_secs(1);
const VERBS: [Verb; 3] = [Verb::Push, Verb::Ack, Verb::Transaction];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verb {
    Push,
    Ack,
    Transaction,
}

impl Verb {
    fn name(self) -> &'static str {
        match self {
            Self::Push => "push",
            Self::Ack => "ack",
            Self::Transaction => "transaction",
        }
    }

    fn path(self) -> &'static str {
        match self {
            Self::Push => "/api/v1/push",
            Self::Ack => "/api/v1/ack",
            Self::Transaction => "/api/v1/transaction",
        }
    }
}

/// Rates of one verb, by round.
#[derive(Debug, Default)]
struct Rates {
    without: Vec<f64>,
    with: Vec<f64>,
}

/// Runs the command.
pub(crate) async fn run(args: StarveArgs) -> Result<Outcome> {
    args.check()?;
    let place = Place::new(&args.servers)?;
    let server = place.start::<&str>(&[]).await;
    let measured = match &server {
        Ok(server) => Box::pin(measure(&args, server)).await,
        Err(error) => Err(anyhow::anyhow!("{error:#}")),
    };
    drop(server);
    let engine = place.engine();
    let removed = place.remove().await;
    let rates = measured?;
    removed?;
    let verbs: Map<String, Value> =
        VERBS.iter().zip(&rates).map(|(verb, rates)| (verb.name().to_owned(), rates.json())).collect();
    let json = json!({
        "command": "starve", "engine": engine, "server_flags": args.servers.server_flag, "waiters": args.waiters,
        "keys": args.keys, "connections": args.connections, "seconds": args.seconds, "rounds": args.rounds,
        "verbs": verbs,
    });
    Ok(Outcome { json, ok: true, table: None })
}

async fn measure(args: &StarveArgs, server: &Server) -> Result<Vec<Rates>> {
    let target = server.target()?;
    let keys: Vec<String> = (0..args.keys).map(|key| format!("waited-for-{key}")).collect();
    setup::create_queues(&target, keys.clone()).await?;
    let parking = Parking {
        waiters: args.waiters,
        keys: keys.into_iter().map(|queue| (queue, "g".to_owned())).collect(),
        repoll_ms: 30_000,
        starts_per_second: 2_000.0,
    };
    let mut rates: Vec<Rates> = VERBS.iter().map(|_| Rates::default()).collect();
    // Round 0 warms up.
    for number in 0..=args.rounds {
        for (verb, rates) in VERBS.iter().zip(&mut rates) {
            let rate = load(args, &target, *verb, number * 2).await?;
            if number > 0 {
                rates.without.push(rate);
            }
        }
        let (tally, mut tasks) = (Rc::new(Tally::default()), JoinSet::new());
        let mut exchange = [Exchange::open(target.clone(), None).await?];
        parking.start(&mut exchange, &tally, &mut tasks).await?;
        tally.all_waiting(args.waiters, START_LIMIT).await?;
        tokio::time::sleep(SETTLE).await;
        for (verb, rates) in VERBS.iter().zip(&mut rates) {
            let rate = load(args, &target, *verb, number * 2 + 1).await?;
            if number > 0 {
                rates.with.push(rate);
            }
        }
        let there = gauge::waiters(&target).await;
        ensure!(
            there.is_none_or(|w| w.count >= args.waiters as f64 * 0.98) && tally.unexpected.get() == 0,
            "waiters went away: {there:?}"
        );
        tasks.shutdown().await;
        Rest::new(target.clone()).until("bugle_waiters", |count| count == 0.0).await?;
    }
    Ok(rates)
}

/// Requests per second of one verb.
async fn load(args: &StarveArgs, target: &Target, verb: Verb, number: usize) -> Result<f64> {
    let mut bodies = Vec::new();
    for connection in 0..args.connections {
        bodies.push(match verb {
            Verb::Push => vec![push_body(connection)],
            _ => stock(args.stock, target, verb, (number, connection)).await?,
        });
    }
    let (ended, start) = (Rc::new(Cell::new(None)), Instant::now());
    let deadline = start + Duration::from_secs_f64(args.seconds);
    let mut workers = JoinSet::new();
    for bodies in bodies {
        workers.spawn_local(work(target.clone(), verb, bodies, deadline, Rc::clone(&ended)));
    }
    let mut total = 0;
    while let Some(count) = workers.join_next().await {
        total += count??;
    }
    let end = ended.get().unwrap_or(deadline);
    Ok(total as f64 / end.duration_since(start).as_secs_f64())
}

/// Sends one body after the other; a push again and again the same.
async fn work(
    target: Target,
    verb: Verb,
    bodies: Vec<Vec<u8>>,
    deadline: Instant,
    ended: Rc<Cell<Option<Instant>>>,
) -> Result<u64> {
    let (mut connection, mut post, mut count) = (target.connection(), target.post(verb.path()), 0);
    let mut bodies: Box<dyn Iterator<Item = Vec<u8>>> =
        if verb == Verb::Push { Box::new(bodies.into_iter().cycle()) } else { Box::new(bodies.into_iter()) };
    while ended.get().is_none() && Instant::now() < deadline {
        let Some(body) = bodies.next() else {
            ended.set(Some(Instant::now()));
            break;
        };
        post.begin().extend_from_slice(&body);
        post.finish();
        match connection.call(post.bytes()).await {
            Ok(response) => {
                let refused = response.body.windows(15).any(|w| w == b"\"success\":false");
                let ok = matches!(response.status, 200 | 201) && !refused;
                ensure!(
                    ok,
                    "{}: {} {}",
                    verb.name(),
                    response.status,
                    String::from_utf8_lossy(response.body)
                );
            }
            Err(failure) => anyhow::bail!("{}: {}", verb.name(), failure.kind()),
        }
        // What is answered after the end does not count.
        if ended.get().is_none() && Instant::now() < deadline {
            count += 1;
        }
    }
    Ok(count)
}

fn push_body(connection: usize) -> Vec<u8> {
    let item = json!({"queue": "load", "partition": format!("p{connection}"), "payload": {"n": connection}});
    json!({ "items": [item] }).to_string().into_bytes()
}

/// Fills a queue, takes a lease on all of it, and returns the bodies that commit it message by message.
async fn stock(size: usize, target: &Target, verb: Verb, place: (usize, usize)) -> Result<Vec<Vec<u8>>> {
    let (number, connection) = place;
    let queue = format!("{}-{number}-{connection}", verb.name());
    let mut rest = Rest::new(target.clone());
    let item = |n: usize| json!({"queue": queue, "partition": format!("p{}", n / RUN), "payload": {"n": n}});
    rest.push((0..size).map(item).collect()).await?;
    let all = format!("{queue}?batch={size}&partitions={}&leaseSeconds=600", size.div_ceil(RUN));
    let popped = rest.pop(&all).await?;
    let messages = popped["messages"].as_array().map_or(&[][..], Vec::as_slice);
    ensure!(messages.len() == size, "only {} of {size} messages came", messages.len());
    Ok(messages.iter().map(|m| commit_body(verb, m, connection).to_string().into_bytes()).collect())
}

fn commit_body(verb: Verb, message: &Value, connection: usize) -> Value {
    let mut ack = json!({
        "transactionId": message["transactionId"], "partitionId": message["partitionId"],
        "leaseId": message["leaseId"], "status": "completed",
    });
    if verb == Verb::Ack {
        return ack;
    }
    ack["type"] = json!("ack");
    let item = json!({"queue": "out", "partition": format!("p{connection}"), "payload": {"n": connection}});
    json!({"operations": [ack, {"type": "push", "items": [item]}]})
}

impl Rates {
    fn json(&self) -> Value {
        let (without, with) = (median(&self.without), median(&self.with));
        let whole = |rates: &[f64]| rates.iter().map(|rate| rate.round()).collect::<Vec<_>>();
        json!({
            "without_per_s": whole(&self.without), "with_per_s": whole(&self.with),
            "median_without": without.round(), "median_with": with.round(),
            "ratio": round(with / without.max(1e-9)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ratio_is_that_of_the_medians() {
        let rates = Rates { without: vec![100.0, 1.0, 102.0], with: vec![50.0, 999.0, 51.0] };
        let json = rates.json();
        assert_eq!((&json["median_without"], &json["median_with"]), (&json!(100.0), &json!(51.0)));
        assert_eq!(json["ratio"], 0.51);
    }

    #[test]
    fn a_transaction_commits_the_message_and_pushes_another() {
        let message = json!({"transactionId": "t", "partitionId": "p", "leaseId": "l"});
        let body = commit_body(Verb::Transaction, &message, 3);
        assert_eq!(body["operations"][0]["type"], "ack");
        assert_eq!(body["operations"][0]["leaseId"], "l");
        assert_eq!(body["operations"][1]["items"][0]["partition"], "p3");
        assert_eq!(commit_body(Verb::Ack, &message, 3)["status"], "completed");
    }
}
