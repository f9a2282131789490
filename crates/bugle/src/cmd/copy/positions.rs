//! Carries the positions of consumer groups. The protocol has no call that sets one, and times differ between the servers, so
//! each group is given at the target what it has behind it at the source, and acknowledges it by the delivery.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use bugle_client::{Ack, Subscription};

use super::route::{GROUPS, Route, positions};
use crate::output::plain;

/// Messages of one request.
const BATCH: u64 = 1000;

/// Bring all groups of a queue to where they are at the source. How many there were.
pub(super) async fn carry(route: &Route, queue: &str, own: &str) -> Result<usize> {
    let groups = route.from.admin().groups().await.context("source")?;
    let of_queue = groups.iter().filter(|group| group.queue_name == queue && group.name != own);
    let mut carried = 0;
    for group in of_queue.filter(|group| !group.name.starts_with(GROUPS)) {
        let about = || format!("group {}", plain(&group.name));
        carry_one(route, queue, &group.name).await.with_context(about)?;
        carried += 1;
    }
    Ok(carried)
}

async fn carry_one(route: &Route, queue: &str, group: &str) -> Result<()> {
    let source = positions(&route.from, queue, group).await.context("source")?;
    let there = positions(&route.to, queue, group).await.context("target")?;
    let there: BTreeMap<&str, u64> = there.iter().map(|at| (at.partition.as_str(), at.offset_lag)).collect();
    let totals = route.totals(&route.to, queue).await.context("target")?;
    let mut known = !there.is_empty();
    for at in &source {
        let total = totals.get(&at.partition).copied().unwrap_or_default();
        // What it has before it there now, less what it has before it here: behind it here, and not yet there.
        let behind = there.get(at.partition.as_str()).copied().unwrap_or(total).saturating_sub(at.offset_lag);
        known |= behind > 0;
        skip(route, queue, &at.partition, group, behind).await?;
    }
    if !known { register(route, queue, group).await } else { Ok(()) }
}

/// Let the group have so many messages, and be done with them.
async fn skip(route: &Route, queue: &str, partition: &str, group: &str, mut messages: u64) -> Result<()> {
    while messages > 0 {
        let pop =
            route.to.pop(queue).partition(partition).group(group).subscribe(Subscription::All).auto_ack();
        let given =
            pop.batch(messages.min(BATCH) as u32).send().await.context("target")?.messages.len() as u64;
        if given == 0 {
            bail!(
                "partition {}: {messages} messages that it has behind it are not to be had at the target",
                plain(partition)
            );
        }
        messages -= given.min(messages);
    }
    Ok(())
}

/// A group that has done nothing yet is known at the target as one that begins at the beginning: it takes a message and gives it
/// back.
async fn register(route: &Route, queue: &str, group: &str) -> Result<()> {
    let pop = route.to.pop(queue).group(group).subscribe(Subscription::All).batch(1);
    let taken = pop.send().await.context("target")?;
    let back: Vec<Ack> = taken.messages.iter().map(Ack::retry).collect();
    route.to.settle(&back).await.context("target")?;
    Ok(())
}
