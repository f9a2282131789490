//! Lock tokens that are nobody's, another's or used up.

use std::time::Duration;

use bugle_duroxide::PostgresProvider;
use duroxide::EventKind;
use duroxide::providers::{Provider, ProviderAdmin, ProviderError};

use crate::stage::{LEASE, ack, activity, completion, event, provider, start, take_task, take_turn};

fn assert_refused(outcome: Result<(), ProviderError>, what: &str) {
    let error = outcome.expect_err(what);
    assert!(error.message.contains("Invalid lock token") && !error.is_retryable(), "{what}: {error}");
}

/// Everything that can be done with a token is refused.
async fn assert_useless(provider: &PostgresProvider, token: &str) {
    let started = event("i", 1, EventKind::ActivityCompleted { result: "forged".into() });
    assert_refused(ack(provider, token, vec![started], vec![activity("i", 9)]).await, "ack a turn");
    assert_refused(provider.renew_orchestration_item_lock(token, LEASE).await, "renew a turn");
    let delay = Some(Duration::from_secs(1000));
    assert_refused(provider.abandon_orchestration_item(token, delay, true).await, "abandon a turn");
    assert_refused(
        provider.ack_work_item(token, Some(completion("i", 1, "forged"))).await,
        "ack an activity",
    );
    assert_refused(provider.ack_work_item(token, None).await, "ack an activity without a word");
    assert_refused(provider.renew_work_item_lock(token, LEASE).await, "renew an activity");
    assert_refused(provider.abandon_work_item(token, delay, true).await, "abandon an activity");
}

#[tokio::test]
async fn unknown_tokens_of_every_kind_change_nothing() {
    let provider = provider().await;
    provider.enqueue_for_orchestrator(start("i"), None).await.unwrap();
    provider.enqueue_for_worker(activity("i", 1)).await.unwrap();
    let (turn, task) = (take_turn(&provider).await, take_task(&provider).await);
    let nonce = |token: &str| token.split(':').next().unwrap().to_owned();
    let zeros = "0".repeat(32);
    let mut tokens = vec![
        String::new(),
        ":".to_owned(),
        "nonsense".to_owned(),
        "\0".to_owned(),
        "'; DROP TABLE instances; --".to_owned(),
        "ü".repeat(1 << 20),
        format!("{zeros}:i"),
        format!("{zeros}:1"),
        format!("{zeros}:-1"),
        format!("{zeros}:99999999999999999999"),
        format!("{}:another", nonce(&turn)),
        format!("{}:999", nonce(&task)),
        format!("{}:i\0", nonce(&turn)),
        format!("{zeros}:{}", "i".repeat(1 << 20)),
    ];
    tokens.push(format!("{}:i", nonce(&task)));
    tokens.push(format!("{}:{}", nonce(&turn), task.split(':').nth(1).unwrap()));
    for token in &tokens {
        assert_useless(&provider, token).await;
    }
    // A token of one queue is nothing in the other.
    assert_refused(provider.ack_work_item(&turn, None).await, "a turn's token");
    assert_refused(ack(&provider, &task, Vec::new(), Vec::new()).await, "an activity's token");

    assert!(provider.read("i").await.unwrap().is_empty());
    let depths = provider.get_queue_depths().await.unwrap();
    assert_eq!((depths.orchestrator_queue, depths.worker_queue), (0, 0), "both are still held");
    ack(&provider, &turn, Vec::new(), Vec::new()).await.unwrap();
    provider.ack_work_item(&task, Some(completion("i", 1, "true"))).await.unwrap();
    assert_eq!(provider.get_queue_depths().await.unwrap().orchestrator_queue, 1);
}

#[tokio::test]
async fn a_turn_is_acknowledged_once() {
    let provider = provider().await;
    provider.enqueue_for_orchestrator(start("i"), None).await.unwrap();
    let token = take_turn(&provider).await;
    let done = |id| vec![event("i", id, EventKind::ActivityCompleted { result: String::new() })];
    ack(&provider, &token, done(1), vec![activity("i", 1)]).await.unwrap();
    assert_useless(&provider, &token).await;
    assert_refused(ack(&provider, &token, done(2), vec![activity("i", 2)]).await, "again");
    assert_eq!(provider.read("i").await.unwrap().len(), 1);
    assert_eq!(provider.get_queue_depths().await.unwrap().worker_queue, 1);
}

#[tokio::test]
async fn an_activity_is_acknowledged_once() {
    let provider = provider().await;
    provider.enqueue_for_worker(activity("i", 1)).await.unwrap();
    let token = take_task(&provider).await;
    provider.ack_work_item(&token, Some(completion("i", 1, "x"))).await.unwrap();
    assert_useless(&provider, &token).await;
    let depths = provider.get_queue_depths().await.unwrap();
    assert_eq!((depths.orchestrator_queue, depths.worker_queue), (1, 0));
}

#[tokio::test]
async fn what_was_given_back_is_the_next_takers() {
    let provider = provider().await;
    provider.enqueue_for_orchestrator(start("i"), None).await.unwrap();
    provider.enqueue_for_worker(activity("i", 1)).await.unwrap();
    let (turn, task) = (take_turn(&provider).await, take_task(&provider).await);
    provider.abandon_orchestration_item(&turn, None, false).await.unwrap();
    provider.abandon_work_item(&task, None, false).await.unwrap();
    assert_useless(&provider, &turn).await;
    assert_useless(&provider, &task).await;
    let (second_turn, second_task) = (take_turn(&provider).await, take_task(&provider).await);
    assert_useless(&provider, &turn).await;
    assert_useless(&provider, &task).await;
    ack(&provider, &second_turn, Vec::new(), Vec::new()).await.unwrap();
    provider.ack_work_item(&second_task, None).await.unwrap();
}
