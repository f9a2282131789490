//! A connection that only listens.
//!
//! It belongs to one caller and is driven by its waiting: no task, no buffer of its own. When it ends the caller is told
//! and decides; nothing is connected again in silence, because what was published in between is lost.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::pin;
use std::task::{Context, Poll};
use std::time::Duration;

use aws_lc_rs::digest;
use tokio_postgres::AsyncMessage;

use crate::config::Config;
use crate::error::{PgError, PgErrorKind};
use crate::hosts::{connect_error, open_best};

/// A silent connection is probed after this time, so often, this many times.
const KEEPALIVE: (Duration, Duration, u32) = (Duration::from_secs(30), Duration::from_secs(10), 3);

/// PostgreSQL's longest name.
const CHANNEL: usize = 63;

type Driven =
    Box<dyn FnMut(&mut Context<'_>) -> Poll<Option<Result<AsyncMessage, tokio_postgres::Error>>> + Send>;

/// The channel that is really used for a name: the name itself, or its beginning and a hash of it when it is too long
/// for PostgreSQL.
pub fn channel_name(name: &str) -> String {
    if name.len() <= CHANNEL {
        return name.to_owned();
    }
    let hash = digest::digest(&digest::SHA256, name.as_bytes());
    let hex: String = hash.as_ref().iter().take(16).map(|b| format!("{b:02x}")).collect();
    format!("{}_{hex}", &name[..name.floor_char_boundary(CHANNEL - 33)])
}

/// Hears what is published on one channel.
pub struct Listener {
    /// The connection ends when this is dropped.
    _client: tokio_postgres::Client,
    next: Driven,
    /// Came in while LISTEN was still being answered.
    early: VecDeque<String>,
}

impl Listener {
    /// Connect and listen on `channel`, any name of 1 to 63 bytes. Of several hosts it is that one which takes writes.
    pub async fn connect(
        config: &Config,
        channel: &str,
        application_name: &str,
        limit: Duration,
    ) -> Result<Self, PgError> {
        if channel.is_empty() || channel.len() > CHANNEL || channel.contains('\0') {
            return Err(PgError::new(PgErrorKind::Refused, "channel: must have 1 to 63 bytes and no NUL"));
        }
        tokio::time::timeout(limit, Self::open(config, channel, application_name, limit))
            .await
            .unwrap_or_else(|_| {
                Err(PgError::new(PgErrorKind::Connect, format!("{config}: no listening connection in time")))
            })
    }

    async fn open(
        config: &Config,
        channel: &str,
        application_name: &str,
        limit: Duration,
    ) -> Result<Self, PgError> {
        let host = if config.hosts() > 1 { open_best(config, limit, None).await?.host } else { 0 };
        let mut driver = config.drivers[host].clone();
        let (idle, interval, retries) = KEEPALIVE;
        driver.application_name(application_name).keepalives(true).keepalives_idle(idle);
        driver.keepalives_interval(interval).keepalives_retries(retries);
        let opened = driver.connect(config.tls.clone()).await;
        let (client, mut connection) = opened.map_err(|e| connect_error(config, host, &e))?;
        let mut next: Driven = Box::new(move |cx| connection.poll_message(cx));
        let mut early = VecDeque::new();
        let sql = format!("LISTEN \"{}\"", channel.replace('"', "\"\""));
        {
            let mut listening = pin!(client.batch_execute(&sql));
            poll_fn(|cx| {
                while let Poll::Ready(message) = next(cx) {
                    match message {
                        Some(Ok(AsyncMessage::Notification(heard))) => {
                            early.push_back(heard.payload().to_owned());
                        }
                        Some(Ok(_)) => {}
                        Some(Err(error)) => return Poll::Ready(Err(PgError::from(error))),
                        None => return Poll::Ready(Err(ended())),
                    }
                }
                listening.as_mut().poll(cx).map_err(PgError::from)
            })
            .await?;
        }
        Ok(Self { _client: client, next, early })
    }

    /// Wait for the next payload. An error means that the connection is gone. Can be dropped and called again.
    pub async fn recv(&mut self) -> Result<String, PgError> {
        loop {
            if let Some(payload) = self.early.pop_front() {
                return Ok(payload);
            }
            match poll_fn(|cx| (self.next)(cx)).await {
                Some(Ok(AsyncMessage::Notification(heard))) => return Ok(heard.payload().to_owned()),
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(error.into()),
                None => return Err(ended()),
            }
        }
    }
}

fn ended() -> PgError {
    PgError::new(PgErrorKind::Broken, "the listening connection ended")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channel_names_fit_and_stay_apart() {
        assert_eq!(channel_name("bugle_main"), "bugle_main");
        let (one, two) = (channel_name(&"ä".repeat(40)), channel_name(&"ä".repeat(41)));
        assert!(one.len() <= CHANNEL && two.len() <= CHANNEL, "{one} {two}");
        assert_ne!(one, two);
        assert_eq!(one, channel_name(&"ä".repeat(40)));
    }
}
