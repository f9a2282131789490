//! An application that is moved from one provider to another in the middle of everything it does.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::time::Duration;

use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{OrchestrationContext, OrchestrationRegistry};
use tokio::sync::Semaphore;

/// Of activities that only some workers take.
pub const TAG: &str = "gpu";
/// How long the timer runs.
pub const TIMER: Duration = Duration::from_secs(5);
/// The provider to come escapes this character.
pub const ODD: &str = "ödd \u{1} 0\u{1}";

/// `gate`: it adds a permit when it begins, and does not end if `closed`.
pub fn activities(began: &Arc<Semaphore>, closed: bool) -> ActivityRegistry {
    let began = Arc::clone(began);
    ActivityRegistry::builder()
        .register("echo", |_, input: String| async move { Ok(input) })
        .register("gate", move |_, input: String| {
            began.add_permits(1);
            async move {
                if closed {
                    std::future::pending::<()>().await;
                }
                Ok(input)
            }
        })
        .build()
}

/// Each waits in a place of its own.
pub fn orchestrations() -> OrchestrationRegistry {
    OrchestrationRegistry::builder()
        .register("done", |_, input| async move { Ok(input) })
        .register("failed", |_, input| async move { Err(input) })
        .register("timer", timer)
        .register("running", |ctx: OrchestrationContext, input| async move {
            let first = ctx.schedule_activity("echo", "first").await?;
            Ok(format!("{first} {}", ctx.schedule_activity("gate", input).await?))
        })
        .register("session", |ctx: OrchestrationContext, input| async move {
            ctx.schedule_activity_on_session("gate", input, format!("session {ODD}")).await
        })
        .register("tagged", |ctx: OrchestrationContext, input| async move {
            ctx.schedule_activity("echo", input).with_tag(TAG).await
        })
        .register("waiting", |ctx: OrchestrationContext, _| async move { Ok(ctx.schedule_wait("go").await) })
        .register("parent", |ctx: OrchestrationContext, _| async move {
            let child = format!("{}-child", ctx.instance_id());
            let said = ctx.schedule_sub_orchestration_with_id("waiting", child, "").await?;
            Ok(format!("the child said {said}"))
        })
        .register("queue", queue)
        .register("rounds", rounds)
        .register("values", values)
        .build()
}

async fn timer(ctx: OrchestrationContext, input: String) -> Result<String, String> {
    ctx.schedule_timer(TIMER).await;
    ctx.schedule_activity("echo", input).await
}

async fn queue(ctx: OrchestrationContext, _: String) -> Result<String, String> {
    let mut all = Vec::new();
    for _ in 0..3 {
        all.push(ctx.dequeue_event("queue").await);
    }
    Ok(all.join(" "))
}

/// Five executions, of which the third waits.
async fn rounds(ctx: OrchestrationContext, input: String) -> Result<String, String> {
    let round: u32 = input.parse().map_err(|_| "not a round")?;
    ctx.set_custom_status(format!("round {round} {ODD}"));
    let heard = match round {
        3 => ctx.schedule_wait("go").await,
        _ => ctx.schedule_activity("echo", input.clone()).await?,
    };
    ctx.set_kv_value(format!("round {round}"), heard);
    if round < 5 {
        return ctx.continue_as_new((round + 1).to_string()).await;
    }
    Ok(sorted(&ctx))
}

/// Values of an ended execution, changed by a running one that waits.
async fn values(ctx: OrchestrationContext, input: String) -> Result<String, String> {
    if input.is_empty() {
        for (key, value) in [("kept", "1"), ("changed", "1"), ("removed", "1")] {
            ctx.set_kv_value(key, value);
        }
        return ctx.continue_as_new("again").await;
    }
    ctx.set_kv_value("changed", ODD);
    ctx.clear_kv_value("removed");
    ctx.set_kv_value(ODD, "2");
    ctx.schedule_wait("go").await;
    Ok(sorted(&ctx))
}

fn sorted(ctx: &OrchestrationContext) -> String {
    let mut all: Vec<String> = ctx.get_kv_all_values().into_iter().map(|(k, v)| format!("{k}={v}")).collect();
    all.sort();
    all.join(" ")
}
