//! The server from start to end. Parts are started from the store outwards and stopped in reverse.

use std::io::Write;
use std::net::SocketAddr;

use anyhow::{Context, Result, bail};
use bugle_broker::Broker;
use bugle_http::HttpConfig;
use bugle_wake::BellOptions;
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::settings::{ServeArgs, Settings, Sources, WakingSettings};
use crate::{engine, logs};

/// `bugle serve`.
pub(crate) fn run(args: ServeArgs) -> Result<()> {
    let print_config = args.print_config;
    let sources = Sources::gather(args)?;
    if print_config {
        Settings::check(sources.raw.clone())?;
        say(&Settings::show(sources.raw)?);
        return Ok(());
    }
    let settings = Settings::check(sources.raw)?;
    logs::start(settings.log_format, &settings.log_level)?;
    if let Some(warning) = sources.warning {
        tracing::warn!("environment: {warning}");
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("runtime")?;
    runtime.block_on(serve(settings))
}

async fn serve(settings: Settings) -> Result<()> {
    tracing::debug!(?settings, "settings");
    let mut signals = Signals::listen()?;
    let listener = bind(&settings).await?;
    let address = listener.local_addr().context("listen address")?;
    let (store, carriers) = engine::open(&settings.store, &settings.waking)
        .await
        .with_context(|| format!("store {:?}", settings.store))?;
    if let Some(workers) = settings.waking.poll_workers {
        tracing::info!(workers, "poll-worker-count is ignored: waiting pops need no workers");
    }
    let bell = BellOptions { name: server_name(&settings.waking, address), ..BellOptions::default() };
    let broker = Broker::open_with(store, settings.broker, bell, carriers).await.context("broker")?;

    let draining = CancellationToken::new();
    let stop = CancellationToken::new();
    let config = HttpConfig { draining: draining.clone(), ..settings.http };
    let router = bugle_http::router(broker.clone(), config);
    let server = tokio::spawn(bugle_http::serve(listener, router, settings.serve, stop.clone()));
    tracing::info!(%address, store = ?settings.store, "serving");
    greet(address);

    let reason = signals.next().await;
    tracing::info!(reason, "stopping: no longer ready");
    draining.cancel();
    tokio::select! {
        () = tokio::time::sleep(settings.drain_delay) => {}
        reason = signals.next() => tracing::info!(reason, "not waiting for load balancers"),
    }
    stop.cancel();
    broker.drain();
    server.await.context("server")?;
    broker.shutdown().await;
    tracing::info!("stopped");
    Ok(())
}

/// What this server calls itself: the same name after every start.
fn server_name(waking: &WakingSettings, address: SocketAddr) -> String {
    waking.name.clone().unwrap_or_else(|| {
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let host = Some(host.trim()).filter(|host| !host.is_empty()).unwrap_or("bugle");
        format!("{host}:{}", address.port())
    })
}

/// Take the address before the store is opened, so that a second server on one machine fails before it touches data.
async fn bind(settings: &Settings) -> Result<TcpListener> {
    let listen = &settings.listen;
    let addresses: Vec<SocketAddr> =
        tokio::net::lookup_host(listen).await.with_context(|| format!("listen {listen}"))?.collect();
    if !settings.insecure && addresses.iter().any(|address| !address.ip().is_loopback()) {
        bail!(
            "listen {listen} is reachable from other machines, and there is no authentication: \
             anybody who can connect may read and write everything. Listen on 127.0.0.1, or say --insecure if the \
             network itself is trusted"
        );
    }
    TcpListener::bind(addresses.as_slice()).await.with_context(|| format!("listen {listen}"))
}

/// Tell people what to try first. Goes to standard output: logs go to standard error.
fn greet(address: SocketAddr) {
    let host = match address.ip() {
        ip if ip.is_unspecified() && ip.is_ipv4() => "127.0.0.1".to_owned(),
        ip if ip.is_unspecified() => "[::1]".to_owned(),
        ip if ip.is_ipv6() => format!("[{ip}]"),
        ip => ip.to_string(),
    };
    let url = format!("http://{host}:{}", address.port());
    let item = r#"{"items":[{"queue":"hello","payload":{"to":"world"}}]}"#;
    say(&format!("Bugle is ready at {url}\n  curl -s {url}/api/v1/push -d '{item}'\n"));
}

/// Write to standard output, whatever has become of it.
fn say(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// Tell on standard error why the command failed.
pub(crate) fn complain(text: &str) {
    let _ = writeln!(std::io::stderr(), "bugle: {text}");
}

/// The signals that end the server.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    fn listen() -> Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt()).context("SIGINT")?,
            terminate: signal(SignalKind::terminate()).context("SIGTERM")?,
        })
    }

    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.interrupt.recv() => "SIGINT",
            _ = self.terminate.recv() => "SIGTERM",
        }
    }
}
