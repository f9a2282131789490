//! Names and payloads that are too large, and those that are just not.

use duroxide::providers::{Provider, ProviderAdmin, ProviderError, WorkItem};
use duroxide::runtime::RuntimeOptions;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ClientError, OrchestrationContext, OrchestrationRegistry};

use crate::stage::{LEASE, Stage, ack, activity, completion, provider, set, start, take_task, take_turn};

/// Longest name that is taken, of an id, a key, a tag or a session.
const NAME: usize = 1024;
/// More than any payload may have.
const TOO_MUCH: usize = (256 << 20) + 1;

/// A name that does not compress: an index entry is bounded by its size after compression.
fn name(length: usize) -> String {
    let mut state = 88_172_645_463_325_252_u64;
    let mut letter = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        char::from(b'0' + u8::try_from(state % 75).unwrap())
    };
    (0..length).map(|_| letter()).collect()
}

fn assert_too_long<T: std::fmt::Debug>(outcome: Result<T, ProviderError>, field: &str) {
    let error = outcome.unwrap_err();
    let named = error.message.starts_with(field) && error.message.contains("too long");
    assert!(named && !error.is_retryable(), "{field}: {error}");
}

fn task(session: Option<String>, tag: Option<String>) -> WorkItem {
    let mut item = activity("i", 7);
    if let WorkItem::ActivityExecute { session_id, tag: of, .. } = &mut item {
        (*session_id, *of) = (session, tag);
    }
    item
}

#[tokio::test]
async fn names_at_the_limit_work_and_longer_ones_are_refused_by_field() {
    let provider = provider().await;
    let (longest, longer) = (name(NAME), name(NAME + 1));
    assert_too_long(provider.enqueue_for_orchestrator(start(&longer), None).await, "instance");
    assert_too_long(provider.enqueue_for_worker(activity(&longer, 1)).await, "instance");
    assert_too_long(provider.enqueue_for_worker(task(Some(longer.clone()), None)).await, "session_id");
    assert_too_long(provider.enqueue_for_worker(task(None, Some(longer.clone()))).await, "tag");
    assert_too_long(provider.append_with_execution(&longer, 1, Vec::new()).await, "instance");

    provider.enqueue_for_orchestrator(start(&longest), None).await.unwrap();
    let token = take_turn(&provider).await;
    assert_too_long(ack(&provider, &token, vec![set(&longest, 1, &longer, "v")], Vec::new()).await, "key");
    let tasks = vec![activity(&longest, 1), activity(&longer, 2)];
    assert_too_long(ack(&provider, &token, vec![set(&longest, 1, "k", "v")], tasks).await, "instance");
    assert!(provider.read(&longest).await.unwrap().is_empty(), "nothing of a refused turn is kept");
    assert_eq!(provider.get_queue_depths().await.unwrap().worker_queue, 0);

    // The same turn, once it fits, with the longest of everything.
    let tasks = vec![task(Some(longest.clone()), Some(longest.clone()))];
    ack(&provider, &token, vec![set(&longest, 1, &longest, "v")], tasks).await.unwrap();
    assert_eq!(provider.get_kv_value(&longest, &longest).await.unwrap().as_deref(), Some("v"));
    assert_eq!(provider.get_kv_value(&longest, &longer).await.unwrap(), None);
}

/// A NUL takes two characters in the database, and an index has its own limit: an error, not a half-written turn.
#[tokio::test]
async fn names_that_only_the_index_finds_too_long_are_refused_whole() {
    let provider = provider().await;
    let mixed: String =
        name(NAME).chars().map(|c| if u32::from(c) % 2 == 0 { '\0' } else { '\u{1}' }).collect();
    provider.enqueue_for_orchestrator(start("i"), None).await.unwrap();
    let token = take_turn(&provider).await;
    let turn = vec![set("i", 1, &mixed, "v")];
    match ack(&provider, &token, turn, Vec::new()).await {
        Ok(()) => assert_eq!(provider.get_kv_value("i", &mixed).await.unwrap().as_deref(), Some("v")),
        Err(error) => {
            assert!(!error.is_retryable(), "{error}");
            assert!(provider.read("i").await.unwrap().is_empty());
        }
    }
}

#[tokio::test]
async fn a_payload_beyond_all_measure_is_refused_and_nothing_is_lost() {
    let provider = provider().await;
    provider.enqueue_for_worker(activity("i", 1)).await.unwrap();
    let token = take_task(&provider).await;
    // Six bytes each in JSON: it is the stored form that counts.
    let result = "\u{2}".repeat(TOO_MUCH / 6 + 1);
    assert_too_long(provider.ack_work_item(&token, Some(completion("i", 1, &result))).await, "item");
    provider.renew_work_item_lock(&token, LEASE).await.unwrap();
    provider.ack_work_item(&token, Some(completion("i", 1, "less"))).await.unwrap();
    let depths = provider.get_queue_depths().await.unwrap();
    assert_eq!((depths.orchestrator_queue, depths.worker_queue), (1, 0));
}

fn oversized() -> OrchestrationRegistry {
    OrchestrationRegistry::builder()
        .register("session", |ctx: OrchestrationContext, _| async move {
            ctx.schedule_activity_on_session("echo", "", name(NAME + 1)).await
        })
        .register("key", |ctx: OrchestrationContext, _| async move {
            ctx.set_kv_value(name(NAME + 1), "v");
            ctx.schedule_activity("echo", "").await
        })
        .register("child", |ctx: OrchestrationContext, _| async move {
            ctx.schedule_sub_orchestration_with_id("echo", name(NAME + 1), "").await
        })
        .register("tag", |ctx: OrchestrationContext, _| async move {
            ctx.schedule_activity("echo", "").with_tag(name(NAME + 1)).await
        })
        .register("large", |ctx: OrchestrationContext, _| async move {
            let large = ctx.schedule_activity("large", "").await?;
            ctx.schedule_activity("echo", large).await
        })
        .build()
}

fn large() -> ActivityRegistry {
    ActivityRegistry::builder().register("large", |_, _| async move { Ok("ü".repeat(1 << 20)) }).build()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_orchestration_with_oversized_names_fails_and_others_go_on() {
    let stage = Stage::new(large, oversized, RuntimeOptions::default()).await;
    for orchestration in ["session", "key", "child", "tag"] {
        stage.client.start_orchestration(orchestration, orchestration, "").await.unwrap();
    }
    for orchestration in ["session", "key", "child", "tag"] {
        let end = stage.end_of(orchestration).await;
        assert!(end.is_err(), "{orchestration}: {end:?}");
    }
    let refused = stage.client.start_orchestration(name(NAME + 1), "echo", "").await.unwrap_err();
    assert!(matches!(&refused, ClientError::Provider(e) if e.message.starts_with("instance")), "{refused}");
    stage.goes_on().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn payloads_of_megabytes_pass_through() {
    let stage = Stage::new(large, oversized, RuntimeOptions::default()).await;
    stage.client.start_orchestration("i", "large", "").await.unwrap();
    assert_eq!(stage.end_of("i").await.unwrap().len(), 2 << 20);
    stage.goes_on().await;
}
