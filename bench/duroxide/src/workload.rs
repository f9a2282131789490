//! The orchestrations that are run, and the moments their code was reached.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use duroxide::providers::Provider;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::runtime::{Runtime, RuntimeOptions};
use duroxide::{ActivityContext, OrchestrationContext, OrchestrationRegistry};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// One activity between start and end.
pub(crate) const HOP: &str = "Hop";
/// Ends at once.
pub(crate) const NOTHING: &str = "Nothing";
/// Waits for a timer of [`TIMER`] between start and end.
pub(crate) const SLEEP: &str = "Sleep";
/// No multiple of 100 ms, which would flatter those who look every 100 ms.
pub(crate) const TIMER: Duration = Duration::from_millis(737);

/// Longer than the runtime's long poll: what nobody announced is found by then.
const END_LIMIT: Duration = Duration::from_secs(60);

/// A place in the code of an orchestration or activity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Mark {
    Start,
    Activity,
    End,
}

/// When the marks of all instances were first reached. Replay runs the code again; only the first time counts.
#[derive(Clone)]
pub(crate) struct Marks {
    reached: Arc<Mutex<HashMap<(String, Mark), Instant>>>,
    ended: UnboundedSender<String>,
}

/// The instances as they end.
pub(crate) struct Ends(UnboundedReceiver<String>);

impl Marks {
    pub(crate) fn new() -> (Self, Ends) {
        let (ended, ends) = unbounded_channel();
        (Self { reached: Arc::default(), ended }, Ends(ends))
    }

    fn reach(&self, instance: &str, mark: Mark) {
        let now = Instant::now();
        let mut reached = self.reached.lock().unwrap_or_else(PoisonError::into_inner);
        let first = !reached.contains_key(&(instance.to_owned(), mark));
        reached.entry((instance.to_owned(), mark)).or_insert(now);
        if first && mark == Mark::End {
            // Nobody may be waiting any more.
            let _ = self.ended.send(instance.to_owned());
        }
    }

    /// When an instance reached a mark.
    pub(crate) fn at(&self, instance: &str, mark: Mark) -> Result<Instant> {
        let reached = self.reached.lock().unwrap_or_else(PoisonError::into_inner);
        let at = reached.get(&(instance.to_owned(), mark)).copied();
        at.with_context(|| format!("{instance} did not reach {mark:?}"))
    }

    fn orchestrations(&self) -> OrchestrationRegistry {
        let (hop, nothing, sleep) = (self.clone(), self.clone(), self.clone());
        OrchestrationRegistry::builder()
            .register(HOP, move |context: OrchestrationContext, id: String| {
                let marks = hop.clone();
                async move {
                    marks.reach(&id, Mark::Start);
                    context.schedule_activity(HOP, id.clone()).await?;
                    marks.reach(&id, Mark::End);
                    Ok(String::new())
                }
            })
            .register(NOTHING, move |_: OrchestrationContext, id: String| {
                let marks = nothing.clone();
                async move {
                    marks.reach(&id, Mark::End);
                    Ok(String::new())
                }
            })
            .register(SLEEP, move |context: OrchestrationContext, id: String| {
                let marks = sleep.clone();
                async move {
                    marks.reach(&id, Mark::Start);
                    context.schedule_timer(TIMER).await;
                    marks.reach(&id, Mark::End);
                    Ok(String::new())
                }
            })
            .build()
    }

    fn activities(&self) -> ActivityRegistry {
        let marks = self.clone();
        let hop = move |_: ActivityContext, id: String| {
            let marks = marks.clone();
            async move {
                marks.reach(&id, Mark::Activity);
                Ok(String::new())
            }
        };
        ActivityRegistry::builder().register(HOP, hop).build()
    }

    /// A runtime that runs all of these.
    pub(crate) async fn runtime(
        &self,
        provider: Arc<dyn Provider>,
        orchestration: usize,
        worker: usize,
    ) -> Arc<Runtime> {
        let options = dispatchers(orchestration, worker);
        Runtime::start_with_options(provider, self.activities(), self.orchestrations(), options).await
    }
}

impl Ends {
    /// Returns when this instance has ended; another one's end is a fault of the bench.
    pub(crate) async fn of(&mut self, instance: &str) -> Result<()> {
        let ended = self.next().await.with_context(|| instance.to_owned())?;
        ensure!(ended == instance, "{ended} ended instead of {instance}");
        Ok(())
    }

    /// Returns when this many more have ended.
    pub(crate) async fn many(&mut self, count: usize) -> Result<()> {
        for done in 0..count {
            self.next().await.with_context(|| format!("{done} of {count} ended"))?;
        }
        Ok(())
    }

    /// The next instance to end.
    pub(crate) async fn next(&mut self) -> Result<String> {
        let end = tokio::time::timeout(END_LIMIT, self.0.recv()).await;
        end.with_context(|| format!("no end within {} s", END_LIMIT.as_secs()))?.context("nobody runs")
    }
}

/// Defaults but for the number of dispatchers.
pub(crate) fn dispatchers(orchestration: usize, worker: usize) -> RuntimeOptions {
    RuntimeOptions {
        orchestration_concurrency: orchestration,
        worker_concurrency: worker,
        ..RuntimeOptions::default()
    }
}
