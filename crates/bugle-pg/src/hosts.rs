//! Opening a connection: to one host, or to that of several which takes writes and is furthest ahead.
//!
//! With several hosts in the address all are asked at once: the first in the list may be a standby, gone, or a former
//! primary that does not know yet that it was replaced.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::task::{JoinHandle, JoinSet};
use tokio_postgres::{AsyncMessage, Client};

use crate::config::Config;
use crate::error::{PgError, PgErrorKind};
use crate::timeline::{IDENTITY, Identity, Place, TIME};

/// Once one host takes writes, how long the others have to say that they are further ahead.
const OTHERS: Duration = Duration::from_millis(500);

/// The function of the server that says so when a commit stops waiting for its standby. Unlike its text this is never
/// translated.
const SYNC_WAIT: &str = "SyncRepWaitForLSN";

/// Time for a connection that nobody uses any more to end in order.
const ENDING: Duration = Duration::from_secs(2);

/// The task that moves a connection's bytes. Without its client it waits for answers that are still to come, and then ends: on
/// a connection that is half open that would be never, so it is ended by force if it takes long.
pub(crate) struct Driving(JoinHandle<()>);

impl Drop for Driving {
    fn drop(&mut self) {
        let ending = self.0.abort_handle();
        if ending.is_finished() {
            return;
        }
        let Ok(runtime) = Handle::try_current() else { return ending.abort() };
        runtime.spawn(async move {
            tokio::time::sleep(ENDING).await;
            ending.abort();
        });
    }
}

/// A connection, and what its server told of itself.
pub(crate) struct Opened {
    pub(crate) host: usize,
    pub(crate) client: Client,
    pub(crate) driving: Driving,
    pub(crate) identity: Identity,
    /// What was known when it was asked.
    pub(crate) before: Option<Place>,
    pub(crate) sent: Instant,
    pub(crate) received: Instant,
    /// A commit was answered without having reached the standby it waited for.
    pub(crate) unreplicated: Arc<AtomicBool>,
}

/// Open a connection to the host with this number within `limit`. A standby is refused.
pub(crate) async fn open(
    config: &Config,
    host: usize,
    limit: Duration,
    before: Option<Place>,
) -> Result<Opened, PgError> {
    let place = config.place_of(host);
    let opened = tokio::time::timeout(limit, connect(config, host, before)).await.unwrap_or_else(|_| {
        Err(PgError::new(PgErrorKind::Connect, format!("{place}: no connection in time")))
    })?;
    if opened.identity.standby {
        return Err(PgError::new(PgErrorKind::Connect, format!("{place}: takes no writes: it is a standby")));
    }
    Ok(opened)
}

/// Ask all hosts at once, and take the one that is furthest ahead of those that take writes.
pub(crate) async fn open_best(
    config: &Config,
    limit: Duration,
    before: Option<Place>,
) -> Result<Opened, PgError> {
    let mut asking = JoinSet::new();
    for host in 0..config.hosts() {
        let config = config.clone();
        asking.spawn(async move { open(&config, host, limit, before).await });
    }
    let mut best: Option<Opened> = None;
    let mut reasons = Vec::new();
    loop {
        let next = match &best {
            None => asking.join_next().await,
            Some(_) => tokio::time::timeout(OTHERS, asking.join_next()).await.unwrap_or(None),
        };
        match next {
            None => break,
            Some(Ok(Ok(opened))) => {
                let rank = |o: &Opened| {
                    o.identity.place.map(|p| (before.is_none_or(|b| b.system == p.system), p.timeline))
                };
                if best.as_ref().is_none_or(|best| rank(&opened) > rank(best)) {
                    best = Some(opened);
                }
            }
            Some(Ok(Err(error))) => reasons.push(error),
            Some(Err(_)) => {}
        }
    }
    best.ok_or_else(|| {
        let refused = !reasons.is_empty() && reasons.iter().all(|e| e.kind() == PgErrorKind::Refused);
        let kind = if refused { PgErrorKind::Refused } else { PgErrorKind::Connect };
        let texts: Vec<String> = reasons.iter().map(ToString::to_string).collect();
        PgError::new(kind, texts.join("; "))
    })
}

async fn connect(config: &Config, host: usize, before: Option<Place>) -> Result<Opened, PgError> {
    let opening = config.drivers[host].connect(config.tls.clone()).await;
    let (client, mut connection) = opening.map_err(|error| connect_error(config, host, &error))?;
    let unreplicated = Arc::new(AtomicBool::new(false));
    let doubt = Arc::clone(&unreplicated);
    let driving = Driving(tokio::spawn(async move {
        loop {
            match poll_fn(|cx| connection.poll_message(cx)).await {
                // It comes before the answer to the commit, which is then seen with the mark already set.
                Some(Ok(AsyncMessage::Notice(notice))) if notice.routine() == Some(SYNC_WAIT) => {
                    doubt.store(true, Ordering::Release);
                }
                Some(Ok(_)) => {}
                Some(Err(error)) => return tracing::debug!(%error, "database connection ended"),
                None => return,
            }
        }
    }));
    let sent = Instant::now();
    let asked = client.query_typed(IDENTITY, &[]).await;
    let rows = match asked {
        // Not every database has these functions, or lets everybody call them.
        Err(error) if error.as_db_error().is_some() => client.query_typed(TIME, &[]).await,
        other => other,
    };
    let rows = rows.map_err(|error| connect_error(config, host, &error))?;
    let row =
        rows.first().ok_or_else(|| PgError::new(PgErrorKind::Unexpected, "the database told no time"))?;
    let identity = Identity::read(row)?;
    Ok(Opened { host, client, driving, identity, before, sent, received: Instant::now(), unreplicated })
}

/// Why no connection could be opened.
pub(crate) fn connect_error(config: &Config, host: usize, error: &tokio_postgres::Error) -> PgError {
    let refused = error.as_db_error().is_some_and(|e| e.code().code().starts_with("28"));
    let kind = if refused { PgErrorKind::Refused } else { PgErrorKind::Connect };
    PgError::new(kind, format!("{}: {}", config.place_of(host), reason(error)))
}

/// The error with what caused it: the driver's own text stops at "error performing TLS handshake".
fn reason(error: &tokio_postgres::Error) -> String {
    if let Some(db) = error.as_db_error() {
        return format!("{} ({})", db.message(), db.code().code());
    }
    match std::error::Error::source(error) {
        Some(source) if !error.to_string().contains(&source.to_string()) => format!("{error}: {source}"),
        _ => error.to_string(),
    }
}
