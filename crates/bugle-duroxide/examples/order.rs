//! An order, from its reservation to the last parcel: a workflow that goes on where it was, whatever dies meanwhile.
//!
//! ```text
//! export DATABASE_URL=postgres://app@localhost/app
//! cargo run -p bugle-duroxide --example order -- run order-1     # reserves the goods, then waits for the payment
//! cargo run -p bugle-duroxide --example order -- pay order-1     # in another terminal, with anything as a third word
//! ```
//!
//! Kill the first program, even with `kill -9`, and start it again with the same words: it resumes the order. Start it
//! twice: both work on it. `SCHEMA` names the schema in the database if it is not to be `orders`.
//!
//! What the framework offers and where it is used: activities (`reserve`, `pack`, …) do things in the world and run at
//! least once; a race of an external event and a timer (`payment`); a sub-orchestration for each parcel (`delivery`); and
//! a new execution for each parcel (`continue_as_new`), so that the history of a large order stays short.

#![allow(clippy::print_stdout, reason = "an example shows what happens")]

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use bugle_duroxide::{Options, PostgresProvider};
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::runtime::{Runtime, RuntimeOptions};
use duroxide::{
    ActivityContext, Client, ClientError, Either2, OrchestrationContext, OrchestrationRegistry,
    OrchestrationStatus,
};
use serde::{Deserialize, Serialize};

/// How long an order waits for its payment.
const PATIENCE: Duration = Duration::from_secs(24 * 3600);
/// How long until the courier comes for a parcel.
const COURIER: Duration = Duration::from_millis(300);

/// What one execution of an order tells the next.
#[derive(Clone, Serialize, Deserialize)]
struct Order {
    parcels: u32,
    payment: Option<String>,
    /// Of the parcels that are on their way.
    labels: Vec<String>,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // The runtime's own messages; without this it would print them among those of the order.
    tracing_subscriber::fmt().with_max_level(tracing::Level::WARN).with_writer(std::io::stderr).init();
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let url = std::env::var("DATABASE_URL").map_err(|_| "DATABASE_URL: where is the database?")?;
    let schema = std::env::var("SCHEMA").unwrap_or_else(|_| "orders".to_owned());
    let store = Arc::new(PostgresProvider::connect(Options::new(url).schema(schema)).await?);
    match words[..] {
        ["run", instance] => run(store, instance, 3).await,
        ["run", instance, parcels] => run(store, instance, parcels.parse()?).await,
        ["pay", instance] => pay(store, instance, "cash").await,
        ["pay", instance, with] => pay(store, instance, with).await,
        _ => Err("use: order run <order> [parcels], or: order pay <order> [with]".into()),
    }
}

/// The payment comes from outside: from another program, or from a handler of HTTP requests.
async fn pay(store: Arc<PostgresProvider>, instance: &str, with: &str) -> Result<(), Box<dyn Error>> {
    Client::new(store).raise_event(instance, "payment", with).await?;
    println!("paid with {with}");
    Ok(())
}

/// Start an order, or find it where it is, and work until it has ended.
async fn run(store: Arc<PostgresProvider>, instance: &str, parcels: u32) -> Result<(), Box<dyn Error>> {
    let options = RuntimeOptions {
        // What a dead process held is taken by another after this time.
        worker_lock_timeout: Duration::from_secs(3),
        worker_lock_renewal_buffer: Duration::from_secs(2),
        orchestrator_lock_timeout: Duration::from_secs(3),
        orchestrator_lock_renewal_buffer: Duration::from_secs(2),
        ..RuntimeOptions::default()
    };
    let runtime = Runtime::start_with_options(store.clone(), activities(), orchestrations(), options).await;
    let client = Client::new(store);
    match client.get_orchestration_status(instance).await? {
        OrchestrationStatus::NotFound => {
            let order = Order { parcels, payment: None, labels: Vec::new() };
            client.start_orchestration_typed(instance, "order", order).await?;
            println!("started {instance}");
        }
        _ => println!("resumed {instance}"),
    }
    let outcome = follow(&client, instance).await;
    runtime.shutdown(None).await;
    println!("completed: {}", outcome?);
    Ok(())
}

/// Tell each new status until the order has ended. Unlike what activities tell, a status is told once it is kept.
async fn follow(client: &Client, instance: &str) -> Result<String, Box<dyn Error>> {
    let (poll, long) = (Duration::from_millis(100), Duration::from_secs(3600));
    let mut seen = 0;
    loop {
        match client.wait_for_status_change(instance, seen, poll, long).await {
            Ok(OrchestrationStatus::Running { custom_status, custom_status_version }) => {
                println!("status: {}", custom_status.unwrap_or_default());
                seen = custom_status_version;
            }
            Ok(OrchestrationStatus::Completed { output, .. }) => return Ok(output),
            Ok(OrchestrationStatus::Failed { details, .. }) => return Err(details.display_message().into()),
            // A database that is away comes back; the runtime, too, goes on trying.
            Err(ClientError::Provider(error)) if error.is_retryable() => {
                println!("trouble: {error}");
                tokio::time::sleep(poll).await;
            }
            Err(ClientError::Timeout) | Ok(OrchestrationStatus::NotFound) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

fn orchestrations() -> OrchestrationRegistry {
    OrchestrationRegistry::builder()
        .register_typed("order", order)
        .register_typed("delivery", delivery)
        .build()
}

/// An order. Each execution does one thing and leaves the rest to the next.
async fn order(ctx: OrchestrationContext, mut order: Order) -> Result<String, String> {
    let Some(payment) = &order.payment else {
        ctx.schedule_activity("reserve", order.parcels.to_string()).await?;
        ctx.set_custom_status("waiting for the payment");
        let deadline = ctx.schedule_timer(PATIENCE);
        order.payment = match ctx.select2(ctx.schedule_wait("payment"), deadline).await {
            Either2::First(with) => Some(with),
            Either2::Second(()) => return Err("nobody paid".to_owned()),
        };
        return ctx.continue_as_new_typed(&order).await;
    };
    let parcel = order.labels.len() + 1;
    ctx.set_custom_status(format!("parcel {parcel} of {}", order.parcels));
    ctx.schedule_activity("pack", parcel.to_string()).await?;
    let child = format!("{}/parcel-{parcel}", ctx.instance_id());
    let label = ctx.schedule_sub_orchestration_with_id("delivery", child, format!("{parcel}")).await?;
    order.labels.push(label);
    if order.labels.len() < order.parcels as usize {
        return ctx.continue_as_new_typed(&order).await;
    }
    ctx.schedule_activity("thank", payment.clone()).await?;
    Ok(format!("{}, paid with {payment}", order.labels.join(", ")))
}

/// A parcel on its way.
async fn delivery(ctx: OrchestrationContext, parcel: u32) -> Result<String, String> {
    let label = ctx.schedule_activity("label", parcel.to_string()).await?;
    ctx.schedule_timer(COURIER).await;
    ctx.schedule_activity("hand over", label).await
}

fn activities() -> ActivityRegistry {
    ActivityRegistry::builder()
        .register("reserve", |_, parcels| doing("reserve", parcels))
        .register("pack", |_, parcel| doing("pack", parcel))
        .register("label", |_, parcel: String| doing("label", format!("L{parcel}")))
        .register("hand over", |_, label| doing("hand over", label))
        .register("thank", |_: ActivityContext, payer| doing("thank", payer))
        .build()
}

/// Something that takes its time. A process that dies in the middle of it, or before it could say that it was done, will
/// do it again: what an activity does must bear that.
async fn doing(what: &str, with: String) -> Result<String, String> {
    println!("begin {what} {with}");
    tokio::time::sleep(Duration::from_millis(100)).await;
    println!("did {what} {with}");
    Ok(with)
}
