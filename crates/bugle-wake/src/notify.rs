//! LISTEN/NOTIFY as a transport: one listening connection of its own, publishing through the pool.
//!
//! A NOTIFY takes a lock for the whole database until its transaction is over, the flush to disk included. So it is
//! never part of a transaction with data, it is one statement alone, and it does not wait for the disk.

use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD_NO_PAD;
use bugle_pg::{Config, Listener, PgError, Pool, Schema, Statement, Type, channel_name};
use bytes::Bytes;
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::{Instant, sleep, timeout};

use crate::hint::Source;
use crate::transport::{Carrier, Event, Job, Line, Running, Shape, Transport};

/// PostgreSQL takes payloads shorter than 8,000 bytes; base64 makes four of three.
pub(crate) const FRAME: usize = 5_900;
/// Longest time for publishing.
const PUBLISH: Duration = Duration::from_secs(5);

const PUBLISH_SQL: &str = "SELECT set_config('synchronous_commit', 'off', true), pg_notify($1, payload) \
                           FROM unnest($2::text[]) AS payload";

/// How the NOTIFY carrier reaches the database.
#[derive(Clone)]
pub struct NotifyOptions {
    /// Where to listen: the database itself or a pooler in session mode, never one in transaction mode.
    pub listen: Config,
    /// What to publish through; may be behind any pooler.
    pub publish: Pool,
    /// The channel; longer names than PostgreSQL allows are shortened by [`channel_name`].
    pub channel: String,
    /// Shown in the server's list of connections.
    pub application_name: String,
    /// Longest time for opening the listening connection.
    pub connect_timeout: Duration,
    /// Shortest wait before connecting again.
    pub backoff_min: Duration,
    /// Longest wait before connecting again.
    pub backoff_max: Duration,
}

impl NotifyOptions {
    /// The usual options.
    pub fn new(listen: Config, publish: Pool, channel: impl Into<String>) -> Self {
        Self {
            listen,
            publish,
            channel: channel.into(),
            application_name: "bugle listen".to_owned(),
            connect_timeout: Duration::from_secs(5),
            backoff_min: Duration::from_millis(50),
            backoff_max: Duration::from_secs(5),
        }
    }
}

impl Carrier {
    /// Hints through the database.
    pub fn notify(options: NotifyOptions) -> Self {
        let channel = channel_name(&options.channel);
        Self::custom(NotifyTransport { options: NotifyOptions { channel, ..options } })
    }
}

struct NotifyTransport {
    options: NotifyOptions,
}

impl Transport for NotifyTransport {
    fn source(&self) -> Source {
        Source::Notify
    }

    fn shape(&self) -> Shape {
        Shape::Everyone
    }

    fn max_frame(&self) -> usize {
        FRAME
    }

    fn run(self: Box<Self>, line: Line) -> Running {
        Box::pin(async move {
            let reset = Notify::new();
            let Line { jobs, events, .. } = line;
            tokio::select! {
                () = publish(&self.options, jobs, &events, &reset) => {}
                () = listen(&self.options, &events, &reset) => {}
            }
        })
    }
}

async fn publish(
    options: &NotifyOptions,
    mut jobs: mpsc::Receiver<Job>,
    events: &mpsc::Sender<Event>,
    reset: &Notify,
) {
    let none = Schema::new("unused").expect("a plain word is a schema name");
    let statement = Statement::new(&none, PUBLISH_SQL, &[Type::TEXT, Type::TEXT_ARRAY]);
    while let Some(job) = jobs.recv().await {
        let Job::Send { frames, .. } = job else {
            reset.notify_one();
            continue;
        };
        let payloads: Vec<String> = frames.iter().map(|f| BASE64_STANDARD_NO_PAD.encode(f)).collect();
        let sending = async {
            let mut conn = options.publish.get().await?;
            conn.query(&statement, &[&options.channel, &payloads]).await?;
            Ok::<(), PgError>(())
        };
        let sent = match timeout(PUBLISH, sending).await {
            Ok(Ok(())) => true,
            Ok(Err(error)) => {
                tracing::debug!(%error, "a hint could not be published");
                false
            }
            Err(_) => false,
        };
        if events.send(Event::Sent(sent)).await.is_err() {
            return;
        }
    }
}

/// Listen for ever, connecting again whenever that ends.
async fn listen(options: &NotifyOptions, events: &mpsc::Sender<Event>, reset: &Notify) {
    let mut wait = options.backoff_min;
    let mut told = false;
    loop {
        let begun = Instant::now();
        let mut timelines = options.publish.timelines();
        let opening = Listener::connect(
            &options.listen,
            &options.channel,
            &options.application_name,
            options.connect_timeout,
        );
        let error = match opening.await {
            Ok(listener) => {
                (told, wait) = (false, if told { wait } else { options.backoff_min });
                if events.send(Event::Up).await.is_err() {
                    return;
                }
                receive(listener, &mut timelines, events, reset).await
            }
            Err(error) => Some(error),
        };
        if events.send(Event::Down).await.is_err() {
            return;
        }
        // A connection that lasted is no reason for patience.
        if begun.elapsed() > options.backoff_max {
            wait = options.backoff_min;
        }
        let pause = wait.mul_f64(0.5 + fastrand::f64() / 2.0);
        if let Some(error) = error.filter(|_| !std::mem::replace(&mut told, true)) {
            tracing::warn!(%error, database = %options.listen, next_attempt_in = ?pause, "not listening for other servers");
        }
        sleep(pause).await;
        wait = (wait * 2).min(options.backoff_max);
    }
}

/// Pass payloads on until the connection ends; `None`: on request, or because the database went on elsewhere, and the server
/// that is listened to may not know it.
async fn receive(
    mut listener: Listener,
    timelines: &mut watch::Receiver<u64>,
    events: &mpsc::Sender<Event>,
    reset: &Notify,
) -> Option<PgError> {
    loop {
        let payload = tokio::select! {
            payload = listener.recv() => payload,
            () = reset.notified() => return None,
            Ok(()) = timelines.changed() => return None,
        };
        let event = match payload {
            Ok(text) => BASE64_STANDARD_NO_PAD
                .decode(text)
                .map_or(Event::Garbage, |bytes| Event::Frame { from: None, bytes: Bytes::from(bytes) }),
            Err(error) => return Some(error),
        };
        if events.send(event).await.is_err() {
            return None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_frame_fits_into_a_payload() {
        assert!(BASE64_STANDARD_NO_PAD.encode(vec![255; FRAME]).len() < 8_000);
    }
}
