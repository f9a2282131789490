//! `bugle move`: a queue to another server or another engine. It is copied, counted, and deleted at the source only when that is asked for and
//! nobody pushes to it any more.

use std::time::Duration;

use anyhow::{Result, ensure};
use clap::Args;
use serde_json::json;

use super::copy::{CopyTerms, Route, STAYS, STILL_PUSHED, queue_over};
use super::place::Place;
use crate::confirm::ConfirmArgs;
use crate::ending::End;
use crate::output::{OutputArgs, plain};
use crate::settings::Span;

/// Arguments of `bugle move`.
#[derive(Debug, Args)]
pub(crate) struct MoveArgs {
    /// The queue
    queue: String,
    /// Where it is: a server's URL, or a data directory or postgres:// address that no server has in use
    #[arg(long, env = "BUGLE_SERVER", value_name = "URL|DIR|DSN", default_value = "http://127.0.0.1:6632")]
    from: String,
    /// Where it goes, in the same forms
    #[arg(long, value_name = "URL|DIR|DSN")]
    to: String,
    /// Delete it at the source when everything is over there and counted, and nothing came for a while
    #[arg(long)]
    delete_source: bool,
    /// How long nothing may have been pushed at the source before it is deleted there
    #[arg(long, default_value = "3s", value_name = "DURATION")]
    quiet: Span,
    #[command(flatten)]
    confirm: ConfirmArgs,
    #[command(flatten)]
    terms: CopyTerms,
    #[command(flatten)]
    output: OutputArgs,
}

/// `bugle move`.
pub(crate) async fn run(args: MoveArgs) -> Result<()> {
    ensure!(args.from != args.to, End::Usage("--from and --to are the same".into()));
    let queue = args.queue.as_str();
    if args.delete_source {
        args.confirm.ask(&format!("delete queue {queue} at {} once it is copied", args.from), queue)?;
    }
    let (from, to) = (Place::open(&args.from)?, Place::open(&args.to)?);
    let route = args.terms.route(from.url(), to.url())?;
    // The same for every try, so that one that was interrupted is gone on with.
    let group = format!("bugle-copy-move-{}", to_name(&args.to));
    let copied = queue_over(&route, queue, &group, &args.terms).await?;
    if args.delete_source {
        quiet(&route, queue, &group, args.quiet.0).await?;
        // The copy's group goes with it.
        route.from.admin().delete_queue(queue).await?;
    } else {
        route.forget(&group, queue).await?;
    }
    let deleted = if args.delete_source { "deleted at the source" } else { "kept at the source" };
    let (messages, groups) = (copied.messages, copied.groups);
    let told = json!({"queue": queue, "messages": messages, "groups": groups, "deletedAtSource": args.delete_source});
    let lines = format!(
        "{messages} messages and the positions of {groups} groups copied and counted; {deleted}\n{STAYS}\n"
    );
    args.output.one(&told, &lines)
}

/// What was pushed since it was copied would be lost: the copy's group has everything before it that came, in whatever partition.
async fn quiet(route: &Route, queue: &str, group: &str, span: Duration) -> Result<()> {
    tokio::time::sleep(span).await;
    let came = route.lag(queue, group).await?;
    ensure!(
        came == 0,
        "queue {}: nothing is deleted, {came} came since it was copied: {STILL_PUSHED}",
        plain(queue)
    );
    Ok(())
}

/// Of a place, in letters that a group's name may have; it says nothing of passwords.
fn to_name(place: &str) -> String {
    uuid::Uuid::from_u128(fnv(place)).simple().to_string()
}

/// A number for a text, the same in every run.
fn fnv(text: &str) -> u128 {
    text.bytes().fold(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d, |hash, byte| {
        (hash ^ u128::from(byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b)
    })
}
