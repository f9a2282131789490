//! `lists`: how long the lists of all queues and of all groups take, on a server with many queues: at first, right after
//! everything changed, while some of it changes, and at rest.

use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::Outcome;
use crate::cli_servers::ListsArgs;
use crate::client::{Connection, Target};
use crate::launch::{Place, Server};
use crate::rest::Rest;
use crate::stats::{Latency, round};

/// Items of one push.
const AT_ONCE: usize = 1000;
/// Connections that pop while the queues are filled.
const CONSUMERS: usize = 16;
const PATHS: [(&str, &str); 3] = [
    ("queues", "/api/v1/resources/queues"),
    ("groups", "/api/v1/consumer-groups"),
    ("overview", "/api/v1/resources/overview"),
];

/// Runs the command.
pub(crate) async fn run(args: ListsArgs) -> Result<Outcome> {
    args.check()?;
    let place = Place::new(&args.servers)?;
    let server = place.start::<&str>(&[]).await;
    let measured = match &server {
        Ok(server) => Box::pin(measure(&args, server)).await,
        Err(error) => Err(anyhow::anyhow!("{error:#}")),
    };
    drop(server);
    let engine = place.engine();
    place.remove().await?;
    let json = json!({
        "command": "lists", "engine": engine, "queues": args.queues, "partitions": args.partitions,
        "rounds": args.rounds, "changes": args.changes, "settle_seconds": args.settle_seconds, "ms": measured?,
    });
    Ok(Outcome { json, ok: true, table: None })
}

async fn measure(args: &ListsArgs, server: &Server) -> Result<Value> {
    let (target, mut rest) = (server.target()?, server.rest()?);
    fill(args, &target, &mut rest).await?;
    let mut asker = Asker { target: target.clone(), connection: target.connection(), queues: args.queues };
    let first = round(asker.ask(PATHS[0].1).await?.as_secs_f64() * 1e3);
    let after = asker.rounds(args, None).await?;
    // The one that filled the queues may have been quiet for too long.
    rest = server.rest()?;
    touch(args, &mut rest, args.queues).await?;
    let again = round(asker.ask(PATHS[0].1).await?.as_secs_f64() * 1e3);
    let moving = asker.rounds(args, Some(&mut rest)).await?;
    tokio::time::sleep(Duration::from_secs_f64(args.settle_seconds)).await;
    // A connection that was quiet for so long is closed by then, and the first to ask finds nothing warm.
    asker.connection = target.connection();
    asker.ask(PATHS[0].1).await?;
    let settled = asker.rounds(args, None).await?;
    Ok(json!({
        "first_question": first, "after_changes_to_all": after, "first_question_after_a_push_to_all": again,
        "between_pushes": moving, "settled": settled,
    }))
}

fn name(queue: usize) -> String {
    format!("list-{queue:05}")
}

/// Queues with a message in each of their partitions and a group that has taken and acknowledged one of them.
async fn fill(args: &ListsArgs, target: &Target, rest: &mut Rest) -> Result<()> {
    for partition in 0..args.partitions {
        let items: Vec<Value> = (0..args.queues)
            .map(|queue| json!({"queue": name(queue), "partition": format!("p{partition}"), "payload": {"n": queue}}))
            .collect();
        for some in items.chunks(AT_ONCE) {
            rest.push(some.into()).await?;
        }
    }
    let mut consumers = JoinSet::new();
    for first in 0..CONSUMERS {
        let (mut rest, queues) = (Rest::new(target.clone()), args.queues);
        consumers.spawn_local(async move {
            for queue in (first..queues).step_by(CONSUMERS) {
                let path = format!("{}?consumerGroup=readers&subscriptionMode=all&batch=1", name(queue));
                let popped = rest.pop(&path).await?;
                rest.ack(&popped, "completed").await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(ended) = consumers.join_next().await {
        ended??;
    }
    Ok(())
}

/// One more message in so many of the queues.
async fn touch(args: &ListsArgs, rest: &mut Rest, queues: usize) -> Result<()> {
    let start = fastrand::usize(..args.queues);
    let items: Vec<Value> = (0..queues)
        .map(|n| json!({"queue": name((start + n) % args.queues), "partition": "p0", "payload": n}))
        .collect();
    for some in items.chunks(AT_ONCE) {
        rest.push(some.into()).await?;
    }
    Ok(())
}

struct Asker {
    target: Target,
    connection: Connection,
    queues: usize,
}

impl Asker {
    /// Each list some times, after some changes each time if there is a connection to make them.
    async fn rounds(&mut self, args: &ListsArgs, mut changes: Option<&mut Rest>) -> Result<Value> {
        let mut all = serde_json::Map::new();
        for (label, path) in PATHS {
            let mut times = Latency::new()?;
            for _ in 0..args.rounds {
                if let Some(rest) = &mut changes {
                    touch(args, rest, args.changes).await?;
                }
                times.record(self.ask(path).await?);
            }
            all.insert(label.to_owned(), times.json());
        }
        Ok(all.into())
    }

    async fn ask(&mut self, path: &str) -> Result<Duration> {
        let request = self.target.get(path);
        let begun = Instant::now();
        let answer = match self.connection.call(&request).await {
            Ok(answer) => answer,
            Err(failure) => bail!("{path}: {}", failure.kind()),
        };
        let time = begun.elapsed();
        ensure!(answer.status == 200, "{path}: {}", answer.status);
        if path == PATHS[0].1 {
            let end = format!("\"total\":{}}}", self.queues);
            ensure!(answer.body.ends_with(end.as_bytes()), "{path}: not all queues are listed");
        }
        Ok(time)
    }
}
