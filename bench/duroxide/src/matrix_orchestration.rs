//! Events of the wake matrix in the orchestrations' queue.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use duroxide::providers::{ExecutionMetadata, OrchestrationItem, Provider, WorkItem};

use crate::dispatcher::{self, Fetched, Patience};
use crate::matrix_event::{DELAY, LONG_LOCK, Pair, Parked, SHORT_LOCK, lateness, still_to_come};

/// The later one of two timers; no round lasts so long.
const LATER: Duration = Duration::from_secs(300);
/// Between a cut of LISTEN and the enqueue that it must not lose.
const CUT_LEAD: Duration = Duration::from_millis(200);
/// Until nodes listen again for the next round.
const LISTEN_AGAIN: Duration = Duration::from_secs(2);

impl Pair<'_> {
    pub(crate) async fn enqueue(&self, id: &str, delay: Option<Duration>) -> Result<f64> {
        let parked = self.park().await;
        self.enqueue_to(parked, id, delay).await
    }

    pub(crate) async fn earlier_timer(&self, id: &str) -> Result<f64> {
        let parked = self.park().await;
        let later = format!("{id}-later");
        self.a.enqueue_for_orchestrator(start(&later), Some(LATER)).await?;
        tokio::time::sleep(Duration::from_millis(100)).await;
        self.enqueue_to(parked, id, Some(DELAY)).await
    }

    pub(crate) async fn abandon(&self, id: &str, delay: Option<Duration>) -> Result<f64> {
        let held = hold(&*self.a, id, LONG_LOCK).await?;
        let parked = self.park().await;
        let due = Instant::now() + delay.unwrap_or_default();
        self.a.abandon_orchestration_item(&held.token, delay, false).await?;
        self.settle(parked, id, due).await
    }

    pub(crate) async fn holder_dies(&self, id: &str) -> Result<f64> {
        let own = id.to_owned();
        let held = self.dying_node(async move |node| hold(node, &own, SHORT_LOCK).await).await?;
        let (parked, due) = (self.park().await, held.asked + SHORT_LOCK);
        still_to_come(due)?;
        self.settle(parked, id, due).await
    }

    pub(crate) async fn message_behind_lock(&self, id: &str) -> Result<f64> {
        let held = hold(&*self.a, id, LONG_LOCK).await?;
        let behind = WorkItem::ExternalRaised {
            instance: id.to_owned(),
            name: "news".to_owned(),
            data: String::new(),
        };
        self.a.enqueue_for_orchestrator(behind, None).await?;
        let parked = self.park().await;
        let due = Instant::now();
        ack(&*self.a, &held).await?;
        self.settle(parked, id, due).await
    }

    /// A provider that does not listen has nothing to be cut, and must not mind.
    pub(crate) async fn listen_cut(&self, id: &str, before: bool) -> Result<f64> {
        let parked = self.park().await;
        self.knife.cut().await?;
        if before {
            tokio::time::sleep(CUT_LEAD).await;
        }
        let late = self.enqueue_to(parked, id, None).await?;
        tokio::time::sleep(LISTEN_AGAIN).await;
        Ok(late)
    }

    async fn enqueue_to(
        &self,
        parked: Parked<OrchestrationItem>,
        id: &str,
        delay: Option<Duration>,
    ) -> Result<f64> {
        let due = Instant::now() + delay.unwrap_or_default();
        self.a.enqueue_for_orchestrator(start(id), delay).await?;
        self.settle(parked, id, due).await
    }

    /// Parks a dispatcher on B.
    async fn park(&self) -> Parked<OrchestrationItem> {
        let (b, patience) = (self.b.clone(), self.patience());
        let parked = Parked(tokio::spawn(async move { dispatcher::orchestration(&*b, patience).await }));
        self.until_parked().await;
        parked
    }

    /// Waits for B to get the instance, and says how late.
    async fn settle(&self, parked: Parked<OrchestrationItem>, id: &str, due: Instant) -> Result<f64> {
        let fetched = self.delivery(parked).await?;
        ensure!(fetched.item.instance == id, "got {} instead of {id}", fetched.item.instance);
        ack(&*self.b, &fetched).await?;
        Ok(lateness(due, &fetched))
    }
}

fn start(instance: &str) -> WorkItem {
    WorkItem::StartOrchestration {
        instance: instance.to_owned(),
        orchestration: "Matrix".to_owned(),
        input: String::new(),
        version: Some("1.0.0".to_owned()),
        parent_instance: None,
        parent_id: None,
        parent_execution_id: None,
        execution_id: 1,
    }
}

/// Makes an instance ready and locks it.
async fn hold(provider: &dyn Provider, id: &str, lock: Duration) -> Result<Fetched<OrchestrationItem>> {
    provider.enqueue_for_orchestrator(start(id), None).await?;
    let held = dispatcher::orchestration(provider, Patience { lock, poll: Duration::from_secs(1) }).await;
    ensure!(held.item.instance == id, "held {} instead of {id}", held.item.instance);
    Ok(held)
}

/// A turn that does nothing but take the messages.
async fn ack(provider: &dyn Provider, fetched: &Fetched<OrchestrationItem>) -> Result<()> {
    let metadata = ExecutionMetadata {
        orchestration_name: Some(fetched.item.orchestration_name.clone()),
        orchestration_version: Some(fetched.item.version.clone()),
        ..ExecutionMetadata::default()
    };
    let (token, execution) = (&fetched.token, fetched.item.execution_id);
    provider
        .ack_orchestration_item(token, execution, vec![], vec![], vec![], metadata, vec![])
        .await
        .context("ack")
}
