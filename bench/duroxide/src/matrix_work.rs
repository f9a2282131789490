//! Events of the wake matrix in the activities' queue.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use duroxide::providers::{Provider, SessionFetchConfig, WorkItem};

use crate::dispatcher::{self, Fetched, Patience};
use crate::matrix_event::{LONG_LOCK, Pair, Parked, SHORT_LOCK, lateness, still_to_come};

impl Pair<'_> {
    pub(crate) async fn work(&self, id: &str) -> Result<f64> {
        let parked = self.park_worker(None).await;
        let due = Instant::now();
        self.a.enqueue_for_worker(activity(id, None)).await?;
        self.settle_work(parked, id, due).await
    }

    pub(crate) async fn work_abandon(&self, id: &str, delay: Option<Duration>) -> Result<f64> {
        let held = hold(&*self.a, id, LONG_LOCK).await?;
        let parked = self.park_worker(None).await;
        let due = Instant::now() + delay.unwrap_or_default();
        self.a.abandon_work_item(&held.token, delay, false).await?;
        self.settle_work(parked, id, due).await
    }

    pub(crate) async fn work_holder_dies(&self, id: &str) -> Result<f64> {
        let own = id.to_owned();
        let held = self.dying_node(async move |node| hold(node, &own, SHORT_LOCK).await).await?;
        let (parked, due) = (self.park_worker(None).await, held.asked + SHORT_LOCK);
        still_to_come(due)?;
        self.settle_work(parked, id, due).await
    }

    /// The owner has done its item and dies; another item of the session waits for the lease alone.
    pub(crate) async fn session_owner_dies(&self, id: &str) -> Result<f64> {
        let (first, session) = (format!("{id}-first"), owner("dead", SHORT_LOCK));
        let name = format!("session-{id}");
        let item = activity(&first, Some(&name));
        let held = self.dying_node(async move |node| claim(node, item, &session).await).await?;
        self.a.enqueue_for_worker(activity(id, Some(&name))).await?;
        let parked = self.park_worker(Some(owner("alive", LONG_LOCK))).await;
        let due = held.asked + SHORT_LOCK;
        still_to_come(due)?;
        self.settle_work(parked, id, due).await
    }

    pub(crate) async fn session_of_second_slot(&self, id: &str) -> Result<f64> {
        let (first, name) = (format!("{id}-first"), format!("session-{id}"));
        let [one, two] = ["one", "two"].map(|slot| owner(slot, LONG_LOCK));
        claim(&*self.b, activity(&first, Some(&name)), &two).await?;
        let _first_slot = self.park_worker(Some(one)).await;
        let second_slot = self.park_worker(Some(two)).await;
        let due = Instant::now();
        self.a.enqueue_for_worker(activity(id, Some(&name))).await?;
        self.settle_work(second_slot, id, due).await
    }

    /// Parks a worker's dispatcher on B.
    async fn park_worker(&self, session: Option<SessionFetchConfig>) -> Parked<WorkItem> {
        let (b, patience) = (self.b.clone(), self.patience());
        let fetch = async move { dispatcher::work(&*b, patience, session.as_ref()).await };
        let parked = Parked(tokio::spawn(fetch));
        self.until_parked().await;
        parked
    }

    /// Waits for B to get the item, and says how late.
    async fn settle_work(&self, parked: Parked<WorkItem>, id: &str, due: Instant) -> Result<f64> {
        let fetched = self.delivery(parked).await?;
        ensure_named(&fetched, id)?;
        self.b.ack_work_item(&fetched.token, None).await.context("ack")?;
        Ok(lateness(due, &fetched))
    }
}

fn owner(slot: &str, lease: Duration) -> SessionFetchConfig {
    SessionFetchConfig { owner_id: format!("owner-{slot}"), lock_timeout: lease }
}

/// An activity that is told from others by its input.
fn activity(id: &str, session: Option<&str>) -> WorkItem {
    WorkItem::ActivityExecute {
        instance: id.to_owned(),
        execution_id: 1,
        id: 2,
        name: "Matrix".to_owned(),
        input: id.to_owned(),
        session_id: session.map(str::to_owned),
        tag: None,
    }
}

fn ensure_named(fetched: &Fetched<WorkItem>, id: &str) -> Result<()> {
    let named = matches!(&fetched.item, WorkItem::ActivityExecute { input, .. } if input == id);
    ensure!(named, "got {:?} instead of {id}", fetched.item);
    Ok(())
}

/// Makes an item ready and locks it.
async fn hold(provider: &dyn Provider, id: &str, lock: Duration) -> Result<Fetched<WorkItem>> {
    provider.enqueue_for_worker(activity(id, None)).await?;
    let held = dispatcher::work(provider, Patience { lock, poll: Duration::from_secs(1) }, None).await;
    ensure_named(&held, id)?;
    Ok(held)
}

/// Takes the session of an item, and does the item.
async fn claim(
    provider: &dyn Provider,
    item: WorkItem,
    session: &SessionFetchConfig,
) -> Result<Fetched<WorkItem>> {
    provider.enqueue_for_worker(item).await?;
    let patience = Patience { lock: LONG_LOCK, poll: Duration::from_secs(1) };
    let held = dispatcher::work(provider, patience, Some(session)).await;
    provider.ack_work_item(&held.token, None).await.context("ack")?;
    Ok(held)
}
