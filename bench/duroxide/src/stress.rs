//! Stress: duroxide's own harness, as it comes: fan-out over five activities of 10 ms, twenty orchestrations at once.

use std::sync::Arc;

use anyhow::{Result, anyhow, ensure};
use async_trait::async_trait;
use duroxide::provider_stress_tests::StressTestConfig;
use duroxide::provider_stress_tests::parallel_orchestrations::{
    ProviderStressFactory, run_parallel_orchestrations_test_with_config,
};
use duroxide::providers::Provider;

use crate::contender::Contender;
use crate::drain::{in_turns, rounds};
use crate::lab::Lab;
use crate::stage::Stage;
use crate::table::{Better, Line, Table};

/// Orchestration and worker dispatchers.
const SIZES: [usize; 2] = [2, 8];

/// The harness wants to make the provider itself.
struct Made(Arc<dyn Provider>);

#[async_trait]
impl ProviderStressFactory for Made {
    async fn create_provider(&self) -> Arc<dyn Provider> {
        self.0.clone()
    }
}

pub(crate) fn run(lab: &Lab, contenders: &[Contender]) -> Table {
    let about = format!(
        "Orchestrations/s of duroxide's `provider-test` harness (5 activities of 10 ms each, 20 at once, {} s, all must \
         succeed). {}",
        lab.scale.stress_seconds,
        rounds(lab.scale.stress_rounds)
    );
    let lines = SIZES.into_iter().map(|size| {
        let measure = |c| lab.measure("stress", c, async |stage| stress(lab, stage, size).await);
        let cells = in_turns(lab.scale.stress_rounds, contenders, measure);
        Line { label: format!("{size}:{size}"), better: Better::Higher, cells }
    });
    Table { title: "Stress throughput", about, lines: lines.collect() }
}

async fn stress(lab: &Lab, stage: &Stage, size: usize) -> Result<f64> {
    let config = StressTestConfig {
        duration_secs: lab.scale.stress_seconds,
        orch_concurrency: size,
        worker_concurrency: size,
        ..StressTestConfig::default()
    };
    let made = Made(stage.node().await?.provider);
    let result = run_parallel_orchestrations_test_with_config(&made, config).await;
    let result = result.map_err(|error| anyhow!("harness: {error}"))?;
    ensure!(
        result.completed == result.launched,
        "only {} of {} orchestrations succeeded",
        result.completed,
        result.launched
    );
    Ok(result.orch_throughput)
}
