//! The framework's own stress harness: every orchestration must succeed.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use bugle_duroxide::{Options, PostgresProvider};
use bugle_pg::testdb::{fresh_schema, server};
use duroxide::provider_stress_tests::parallel_orchestrations::{
    ProviderStressFactory, run_parallel_orchestrations_test_with_config,
};
use duroxide::provider_stress_tests::{StressTestConfig, large_payload};
use duroxide::providers::Provider;

struct Factory {
    provider: Arc<PostgresProvider>,
}

impl Factory {
    async fn new(long_poll: bool) -> Self {
        let options = Options::new(server().await).schema(fresh_schema()).long_poll(long_poll);
        Self { provider: Arc::new(PostgresProvider::connect(options).await.unwrap()) }
    }
}

#[async_trait::async_trait]
impl ProviderStressFactory for Factory {
    async fn create_provider(&self) -> Arc<dyn Provider> {
        self.provider.clone()
    }
}

fn config(dispatchers: usize) -> StressTestConfig {
    StressTestConfig {
        duration_secs: 2,
        orch_concurrency: dispatchers,
        worker_concurrency: dispatchers,
        ..StressTestConfig::default()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parallel_orchestrations_all_succeed() {
    for long_poll in [true, false] {
        let factory = Factory::new(long_poll).await;
        let result = run_parallel_orchestrations_test_with_config(&factory, config(8)).await.unwrap();
        assert!(result.completed > 0 && result.failed == 0, "{} failed", result.failed);
        eprintln!("{} completed, {:?}", result.completed, factory.provider.stats());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_payloads_all_succeed() {
    let factory = Factory::new(true).await;
    let config = large_payload::LargePayloadConfig {
        base: StressTestConfig { max_concurrent: 2, duration_secs: 1, ..config(2) },
        ..Default::default()
    };
    let result = large_payload::run_large_payload_test_with_config(&factory, config).await.unwrap();
    assert!(result.completed > 0 && result.failed == 0, "{} failed", result.failed);
}
