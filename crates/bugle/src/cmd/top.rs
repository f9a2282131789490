//! `bugle top`: a live view of a server on the whole screen.
//!
//! Each look reads the server's counters, its groups and its totals; what is shown are differences between two looks. `frame.rs`
//! makes lines of that, `screen.rs` is the terminal.

mod counters;
mod frame;
mod screen;

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use bugle_client::Client;
use clap::Args;
use serde_json::Value;
use tokio::signal::unix::{SignalKind, signal};

use crate::connection::ConnectionArgs;
use crate::output::put;
use crate::settings::Span;
use counters::Counters;
use frame::{Look, Size};
use screen::Screen;

/// Of `--once` where the output has no size.
const PAPER: Size = Size { columns: 80, lines: 24 };

/// Arguments of `bugle top`.
#[derive(Debug, Args)]
pub(crate) struct TopArgs {
    /// Time between two looks
    #[arg(long, default_value = "1s", value_name = "DURATION")]
    interval: Span,
    /// Print one frame as text and end
    #[arg(long)]
    once: bool,
    #[command(flatten)]
    connection: ConnectionArgs,
}

/// `bugle top`.
pub(crate) async fn run(args: TopArgs) -> Result<()> {
    let client = args.connection.client()?;
    let interval = args.interval.0.max(Duration::from_millis(50));
    let first = look(&client).await?;
    if args.once {
        tokio::time::sleep(interval).await;
        let lines = frame::lines(&args.connection.server, &first, &look(&client).await?, PAPER);
        return put(&format!("{}\n", lines.join("\n")));
    }
    let mut screen = Screen::open()?;
    let shown = watch(&client, &args.connection.server, interval, first, &mut screen).await;
    drop(screen);
    shown
}

async fn watch(
    client: &Client,
    server: &str,
    interval: Duration,
    first: Look,
    screen: &mut Screen,
) -> Result<()> {
    let mut ends = [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()]
        .map(|kind| signal(kind).context("signals"));
    let [Ok(terminate), Ok(interrupt), Ok(hangup)] = &mut ends else {
        return ends.into_iter().collect::<Result<Vec<_>>>().map(drop);
    };
    let mut resized = signal(SignalKind::window_change()).context("SIGWINCH")?;
    let mut ticks = tokio::time::interval(interval);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    ticks.tick().await;
    let (mut before, mut now) = (first.clone(), first);
    let mut trouble = None;
    loop {
        let mut lines = frame::lines(server, &before, &now, screen.size());
        if let (Some(trouble), Some(top)) = (&trouble, lines.first_mut()) {
            *top = frame::cut(&format!("{server}: {trouble}"), screen.size().columns);
        }
        screen.draw(&lines)?;
        tokio::select! {
            key = screen.key() => {
                if matches!(key, None | Some(b'q' | b'Q' | 0x03 | 0x1b)) {
                    return Ok(());
                }
            }
            _ = resized.recv() => {}
            _ = terminate.recv() => return Ok(()),
            _ = interrupt.recv() => return Ok(()),
            _ = hangup.recv() => return Ok(()),
            _ = ticks.tick() => match look(client).await {
                Ok(next) => {
                    before = std::mem::replace(&mut now, next);
                    trouble = None;
                }
                // A server that went away is shown as such, and looked for again.
                Err(error) => trouble = Some(format!("{error:#}")),
            },
        }
    }
}

async fn look(client: &Client) -> Result<Look> {
    let counters = Counters::read(&client.metrics().await?);
    let overview: Value = client.read_json(&["api", "v1", "resources", "overview"], &[]).await?;
    let groups = client.admin().groups().await?;
    Ok(Look { at: Instant::now(), counters, overview, groups })
}
