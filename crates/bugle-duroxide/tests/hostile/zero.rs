//! U+0000, which PostgreSQL's text cannot hold, in every string that a user can choose.

use std::collections::HashSet;

use duroxide::providers::{Provider, ProviderAdmin, SessionFetchConfig, TagFilter, WorkItem};
use duroxide::runtime::RuntimeOptions;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{Either2, EventKind, OrchestrationContext, OrchestrationRegistry, OrchestrationStatus};

use crate::stage::{
    HOPELESS, LEASE, Stage, ack, activity, completion, event, metadata, provider, set, start, take_turn,
};

/// The escape character of our own is as dangerous as what it is for.
const NUL: &str = "\0 \u{1}0 \u{1}\0";

fn nul(word: &str) -> String {
    format!("{word}{NUL}")
}

/// Every feature with such strings.
async fn everything(ctx: OrchestrationContext, input: String) -> Result<String, String> {
    assert_eq!(input, nul("input"));
    ctx.set_custom_status(nul("status"));
    ctx.set_kv_value(nul("key"), nul("value"));
    let said = ctx.schedule_activity(nul("say"), nul("word")).with_tag(nul("tag")).await?;
    let kept = ctx.schedule_activity_on_session("echo", nul("kept"), nul("session")).await?;
    let failure = ctx.schedule_activity(nul("fail"), "").await.unwrap_err();
    let child = ctx.schedule_sub_orchestration_with_id("echo", nul("child"), nul("for the child")).await?;
    let queued = ctx.dequeue_event(nul("queue")).await;
    let raised = match ctx.select2(ctx.schedule_wait(nul("event")), ctx.schedule_timer(HOPELESS)).await {
        Either2::First(data) => data,
        Either2::Second(()) => return Err("no event came".to_owned()),
    };
    Ok([said, kept, failure, child, queued, raised].join("|"))
}

fn activities() -> ActivityRegistry {
    ActivityRegistry::builder()
        .register(nul("say"), |_, word: String| async move { Ok(word) })
        .register(nul("fail"), |_, _| async move { Err(nul("failure")) })
        .build()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_whole_orchestration_of_such_strings_completes() {
    let orchestrations = || OrchestrationRegistry::builder().register(nul("everything"), everything).build();
    let options = RuntimeOptions {
        worker_tag_filter: TagFilter::DefaultAnd([nul("tag")].into()),
        ..RuntimeOptions::default()
    };
    let stage = Stage::new(activities, orchestrations, options).await;
    let (client, instance) = (&stage.client, nul("instance"));
    client.start_orchestration(&instance, nul("everything"), nul("input")).await.unwrap();
    client.enqueue_event(&instance, nul("queue"), nul("queued")).await.unwrap();
    // An event is for those who wait for it: first wait for them.
    let subscribed = async {
        let waits = |kind: &EventKind| matches!(kind, EventKind::ExternalSubscribed { .. });
        loop {
            let history = client.read_execution_history(&instance, 1).await.unwrap_or_default();
            if history.iter().any(|e| waits(&e.kind)) {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(HOPELESS, subscribed).await.unwrap();
    client.raise_event(&instance, nul("event"), nul("raised")).await.unwrap();

    let output = stage.end_of(&instance).await.unwrap();
    let expected = ["word", "kept", "failure", "for the child", "queued", "raised"].map(nul).join("|");
    assert_eq!(output, expected);
    let status = client.get_orchestration_status(&instance).await.unwrap();
    assert!(
        matches!(status, OrchestrationStatus::Completed { custom_status: Some(s), .. } if s == nul("status"))
    );
    assert_eq!(client.get_kv_value(&instance, &nul("key")).await.unwrap(), Some(nul("value")));
    assert_eq!(client.get_kv_all_values(&instance).await.unwrap()[&nul("key")], nul("value"));
    let info = client.get_instance_info(&instance).await.unwrap();
    assert_eq!((info.orchestration_name, info.output), (nul("everything"), Some(expected)));
    let mut all = client.list_all_instances().await.unwrap();
    all.sort();
    assert_eq!(all, [nul("child"), nul("instance")]);
    assert_eq!(client.get_instance_tree(&instance).await.unwrap().all_ids.len(), 2);
    assert_eq!(client.delete_instance(&instance, false).await.unwrap().instances_deleted, 2);
    stage.goes_on().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failures_and_reasons_of_such_strings_end_an_orchestration() {
    let orchestrations = || {
        OrchestrationRegistry::builder()
            .register("fails", |_, input: String| async move { Err(input) })
            .register("waits", |ctx: OrchestrationContext, _| async move { Ok(ctx.schedule_wait("x").await) })
            .build()
    };
    let stage = Stage::new(activities, orchestrations, RuntimeOptions::default()).await;
    stage.client.start_orchestration("a", "fails", nul("failure")).await.unwrap();
    assert!(stage.end_of("a").await.unwrap_err().contains(&nul("failure")));
    stage.client.start_orchestration("b", "waits", "").await.unwrap();
    stage.client.cancel_instance("b", nul("reason")).await.unwrap();
    assert!(stage.end_of("b").await.unwrap_err().contains(&nul("reason")));
    stage.goes_on().await;
}

#[tokio::test]
async fn such_strings_come_back_through_the_trait() {
    let provider = provider().await;
    let (instance, parent) = (nul("instance"), nul("parent"));
    provider.enqueue_for_orchestrator(start(&instance), None).await.unwrap();
    let token = take_turn(&provider).await;
    let status = |text| event(&instance, 2, EventKind::CustomStatusUpdated { status: Some(text) });
    let events = vec![
        event(&instance, 1, EventKind::ExternalSubscribed { name: nul("name") }),
        status(nul("status")),
        set(&instance, 3, &nul("key"), &nul("value")),
    ];
    let mut described = metadata();
    described.parent_instance_id = Some(parent.clone());
    described.output = Some(nul("output"));
    described.status = Some("Completed".to_owned());
    described.orchestration_name = Some(nul("name"));
    let task = WorkItem::ActivityExecute {
        instance: instance.clone(),
        execution_id: 1,
        id: 4,
        name: nul("activity"),
        input: nul("input"),
        session_id: Some(nul("session")),
        tag: Some(nul("tag")),
    };
    let (tasks, messages) = (vec![task.clone()], vec![completion(&parent, 1, &nul("result"))]);
    provider
        .ack_orchestration_item(&token, 1, events.clone(), tasks, messages, described, Vec::new())
        .await
        .unwrap();

    assert_eq!(provider.read(&instance).await.unwrap(), events);
    assert_eq!(provider.get_custom_status(&instance, 0).await.unwrap(), Some((Some(nul("status")), 1)));
    assert_eq!(provider.get_kv_value(&instance, &nul("key")).await.unwrap(), Some(nul("value")));
    assert_eq!(provider.get_parent_id(&instance).await.unwrap(), Some(parent.clone()));
    assert_eq!(provider.list_children(&parent).await.unwrap(), [&*instance]);
    assert_eq!(provider.get_execution_info(&instance, 1).await.unwrap().output, Some(nul("output")));

    let session = SessionFetchConfig { owner_id: nul("owner"), lock_timeout: LEASE };
    let tags = TagFilter::Tags(HashSet::from([nul("tag")]));
    let (item, token, _) =
        provider.fetch_work_item(LEASE, HOPELESS, Some(&session), &tags).await.unwrap().unwrap();
    assert_eq!(item, task);
    assert_eq!(provider.renew_session_lock(&[&nul("owner")], LEASE, LEASE).await.unwrap(), 1);
    provider.ack_work_item(&token, None).await.unwrap();
    let (item, _, _) = provider.fetch_orchestration_item(LEASE, HOPELESS, None).await.unwrap().unwrap();
    assert_eq!(
        (item.instance, item.messages),
        (parent.clone(), vec![completion(&parent, 1, &nul("result"))])
    );
}

#[tokio::test]
async fn strings_that_look_alike_when_stored_are_told_apart() {
    let provider = provider().await;
    let alike = ["a\0b", "a\u{1}0b", "a\u{1}\u{1}0b", "ab", "a\u{1}b"];
    for instance in alike {
        provider.enqueue_for_orchestrator(start(instance), None).await.unwrap();
        let token = take_turn(&provider).await;
        ack(&provider, &token, vec![set(instance, 1, instance, instance)], Vec::new()).await.unwrap();
    }
    let found: HashSet<String> = provider.list_instances().await.unwrap().into_iter().collect();
    assert_eq!(found, alike.map(str::to_owned).into());
    for (instance, key) in alike.iter().flat_map(|i| alike.map(|k| (*i, k))) {
        let value = provider.get_kv_value(instance, key).await.unwrap();
        assert_eq!(value.as_deref(), (instance == key).then_some(key), "{instance:?} {key:?}");
    }
    // Not known, not wrong: no such string is an error of the database's.
    assert_eq!(provider.get_custom_status("\0", 0).await.unwrap(), None);
    assert!(provider.list_instances_by_status("\0").await.unwrap().is_empty());
    assert!(provider.read("\0").await.unwrap().is_empty());
    let none =
        provider.fetch_work_item(LEASE, std::time::Duration::ZERO, None, &TagFilter::tags(["\0"])).await;
    assert!(none.unwrap().is_none());
    provider.enqueue_for_worker(activity("\0", 1)).await.unwrap();
}
