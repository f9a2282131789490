//! The server from start to end. Parts are started from the store outwards and stopped in reverse.

use std::io::Write;
use std::net::SocketAddr;

use anyhow::{Context, Result, bail};
use bugle_broker::Broker;
use bugle_http::{Exporter, Gate, GateConfig, HttpConfig, ServeConfig, Telemetry, TelemetryConfig};
use bugle_wake::BellOptions;
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::reload::{Reload, read_tls};
use crate::settings::{ServeArgs, Settings, Sources, WakingSettings};
use crate::{descriptors, engine, logs};

/// `bugle serve`.
pub(crate) fn run(args: ServeArgs) -> Result<()> {
    let print_config = args.print_config;
    let sources = Sources::gather(args.clone())?;
    if print_config {
        Settings::check(sources.raw.clone())?;
        say(&Settings::show(sources.raw)?);
        return Ok(());
    }
    let settings = Settings::check(sources.raw)?;
    let logs = logs::start(settings.log_format, &settings.log_level)?;
    if let Some(warning) = sources.warning {
        tracing::warn!("environment: {warning}");
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(settings.worker_threads)
        .enable_all()
        .build()
        .context("runtime")?;
    runtime.block_on(serve(settings, args, logs))
}

async fn serve(settings: Settings, args: ServeArgs, logs: logs::Logs) -> Result<()> {
    tracing::debug!(?settings, "settings");
    for warning in &settings.auth.warnings {
        tracing::warn!("{warning}");
    }
    let descriptors = descriptors::raise();
    let mut signals = Signals::listen()?;
    let (listener, loopback) = bind(&settings).await?;
    let address = listener.local_addr().context("listen address")?;
    let gate = Gate::open(GateConfig { loopback, ..settings.auth.gate.clone() })?;
    let name = server_name(&settings.waking, &settings.broker.hostname, address);
    let (telemetry, exporter) = telemetry(settings.telemetry, &name, &gate);
    let gate = gate.traced(telemetry);
    let tls = settings.auth.tls.as_ref().map(read_tls).transpose()?;
    if tls.is_none() && !loopback && settings.auth.on() {
        tracing::warn!("without tls-cert and tls-key, credentials and messages cross the network in clear");
    }
    let reload = Reload { args, logs, gate: gate.clone(), tls: tls.clone(), loopback };
    let (store, carriers) = engine::open(&settings.store, &settings.waking)
        .await
        .with_context(|| format!("store {:?}", settings.store))?;
    if let Some(workers) = settings.waking.poll_workers {
        tracing::info!(workers, "poll-worker-count is ignored: waiting pops need no workers");
    }
    let bell = BellOptions { name, ..BellOptions::default() };
    let spool = engine::open_spool(settings.spool).await?;
    let broker =
        Broker::open_spooling(store, Some(spool), settings.broker, bell, carriers).await.context("broker")?;

    let exporting = exporter.map(|exporter| exporter.start(broker.clone()));
    let draining = CancellationToken::new();
    let stop = CancellationToken::new();
    let config = HttpConfig { draining: draining.clone(), edge: gate.edge(), ..settings.http };
    let router = bugle_http::router(broker.clone(), config);
    let scheme = if tls.is_some() { "https" } else { "http" };
    let max_connections = descriptors::connections(settings.serve.max_connections, descriptors);
    let serve = ServeConfig { gate, tls, max_connections, ..settings.serve };
    let server = tokio::spawn(bugle_http::serve(listener, router, serve, stop.clone()));
    tracing::info!(%address, store = ?settings.store, auth = settings.auth.on(), scheme, "serving");
    greet(scheme, address);

    let reason = signals.end(&reload).await;
    tracing::info!(reason, "stopping: no longer ready");
    draining.cancel();
    tokio::select! {
        () = tokio::time::sleep(settings.drain_delay) => {}
        reason = signals.next() => tracing::info!(reason, "not waiting for load balancers"),
    }
    stop.cancel();
    broker.drain();
    server.await.context("server")?;
    if let Some(exporting) = exporting {
        exporting.end().await;
    }
    broker.shutdown().await;
    tracing::info!("stopped");
    Ok(())
}

/// What traces requests, and what sends that and the metrics, if they go anywhere.
fn telemetry(config: Option<TelemetryConfig>, name: &str, gate: &Gate) -> (Telemetry, Option<Exporter>) {
    let Some(mut config) = config else { return (Telemetry::default(), None) };
    if !config.resource.iter().any(|(key, _)| key == "service.instance.id") {
        config.resource.push(("service.instance.id".into(), name.to_owned()));
    }
    tracing::info!(
        traces = config.traces.is_some(),
        metrics = config.metrics.is_some(),
        ratio = config.ratio,
        "telemetry is sent"
    );
    let (telemetry, exporter) = bugle_http::telemetry(config, gate.edge());
    (telemetry, Some(exporter))
}

/// What this server calls itself: the same name after every start.
fn server_name(waking: &WakingSettings, host: &str, address: SocketAddr) -> String {
    waking.name.clone().unwrap_or_else(|| format!("{host}:{}", address.port()))
}

/// Take the address before the store is opened, so that a second server on one machine fails before it touches data.
///
/// Also says whether only this machine can reach it.
async fn bind(settings: &Settings) -> Result<(TcpListener, bool)> {
    let listen = &settings.listen;
    let addresses: Vec<SocketAddr> =
        tokio::net::lookup_host(listen).await.with_context(|| format!("listen {listen}"))?.collect();
    let loopback = addresses.iter().all(|address| address.ip().is_loopback());
    if !settings.insecure && !settings.auth.on() && !loopback {
        bail!(
            "listen {listen} is reachable from other machines, and there is no authentication: \
             anybody who can connect may read and write everything. Give --api-keys-file or one of the --jwt settings, \
             listen on 127.0.0.1, or say --insecure if the network itself is trusted"
        );
    }
    let listener =
        TcpListener::bind(addresses.as_slice()).await.with_context(|| format!("listen {listen}"))?;
    Ok((listener, loopback))
}

/// Tell people what to try first. Goes to standard output: logs go to standard error.
fn greet(scheme: &str, address: SocketAddr) {
    let host = match address.ip() {
        ip if ip.is_unspecified() && ip.is_ipv4() => "127.0.0.1".to_owned(),
        ip if ip.is_unspecified() => "[::1]".to_owned(),
        ip if ip.is_ipv6() => format!("[{ip}]"),
        ip => ip.to_string(),
    };
    let url = format!("{scheme}://{host}:{}", address.port());
    let item = r#"{"items":[{"queue":"hello","payload":{"to":"world"}}]}"#;
    say(&format!("Bugle is ready at {url}\n  curl -s {url}/api/v1/push -d '{item}'\n"));
}

/// Write to standard output, whatever has become of it.
pub(crate) fn say(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// Tell on standard error why the command failed.
pub(crate) fn complain(text: &str) {
    let _ = writeln!(std::io::stderr(), "bugle: {text}");
}

/// The signals that end the server, and the one that has it read its files again.
struct Signals {
    hangup: Signal,
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    fn listen() -> Result<Self> {
        Ok(Self {
            hangup: signal(SignalKind::hangup()).context("SIGHUP")?,
            interrupt: signal(SignalKind::interrupt()).context("SIGINT")?,
            terminate: signal(SignalKind::terminate()).context("SIGTERM")?,
        })
    }

    /// Reload when asked to, until it is time to end.
    async fn end(&mut self, reload: &Reload) -> &'static str {
        loop {
            tokio::select! {
                _ = self.hangup.recv() => reload.run(),
                _ = self.interrupt.recv() => return "SIGINT",
                _ = self.terminate.recv() => return "SIGTERM",
            }
        }
    }

    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.interrupt.recv() => "SIGINT",
            _ = self.terminate.recv() => "SIGTERM",
        }
    }
}
