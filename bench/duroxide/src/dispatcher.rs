//! What a dispatcher of the runtime does until it has an item, without the runtime: parked in fetch, again and again.

use std::future::Future;
use std::time::{Duration, Instant};

use duroxide::providers::{
    OrchestrationItem, Provider, ProviderError, SessionFetchConfig, TagFilter, WorkItem,
};

/// The runtime asks no more often than this.
const MIN_INTERVAL: Duration = Duration::from_millis(100);
/// The runtime's pauses after errors.
const PERMANENT_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE_MS: u64 = 3000;

/// An item and its lock token.
pub(crate) struct Fetched<T> {
    pub(crate) item: T,
    pub(crate) token: String,
    /// When the call began that got it.
    pub(crate) asked: Instant,
    /// When it was there.
    pub(crate) at: Instant,
}

/// How to fetch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    pub(crate) lock: Duration,
    pub(crate) poll: Duration,
}

/// Waits for an orchestration item.
pub(crate) async fn orchestration(provider: &dyn Provider, patience: Patience) -> Fetched<OrchestrationItem> {
    until_found(|| provider.fetch_orchestration_item(patience.lock, patience.poll, None)).await
}

/// Waits for a work item.
pub(crate) async fn work(
    provider: &dyn Provider,
    patience: Patience,
    session: Option<&SessionFetchConfig>,
) -> Fetched<WorkItem> {
    until_found(|| provider.fetch_work_item(patience.lock, patience.poll, session, &TagFilter::DefaultOnly))
        .await
}

async fn until_found<T, F>(fetch: impl Fn() -> F) -> Fetched<T>
where
    F: Future<Output = Result<Option<(T, String, u32)>, ProviderError>>,
{
    let mut errors = 0;
    loop {
        let start = Instant::now();
        let pause = match fetch().await {
            Ok(Some((item, token, _))) => return Fetched { item, token, asked: start, at: Instant::now() },
            Ok(None) => {
                errors = 0;
                MIN_INTERVAL.saturating_sub(start.elapsed())
            }
            Err(error) if error.is_retryable() => {
                errors = (errors + 1).min(10);
                Duration::from_millis((100 << errors).min(LONGEST_PAUSE_MS))
            }
            Err(_) => {
                errors = 0;
                PERMANENT_PAUSE
            }
        };
        tokio::time::sleep(pause).await;
    }
}
