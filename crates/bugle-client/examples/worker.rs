//! A worker as it runs in production: several messages at a time, leases renewed, failures retried, and an orderly end on
//! Ctrl-C: what is in hand is finished, the rest is given back.
//!
//! `cargo run -p bugle-client --example worker -- http://localhost:6632`

#![allow(clippy::print_stdout, reason = "an example shows what happens")]

use std::error::Error;

use bugle_client::{CancellationToken, Client, Consumed, Message, QueueOptions};
use serde_json::Value;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "http://localhost:6632".to_owned());
    let stop = CancellationToken::new();
    let on_signal = stop.clone();
    tokio::spawn(async move {
        let _ = tokio::signal::ctrl_c().await;
        on_signal.cancel();
    });
    let consumed = run(&url, stop).await?;
    println!("{} orders packed, {} failed deliveries", consumed.completed, consumed.failed);
    Ok(())
}

pub(crate) async fn run(url: &str, stop: CancellationToken) -> Result<Consumed, Box<dyn Error>> {
    let client = Client::new(url)?;
    let options = QueueOptions::default().lease_time(30).retry_limit(2);
    client.admin().configure("orders", &options).await?;
    let consumer = client.consume("orders").group("packing").concurrency(8).batch(50).stop_on(stop);
    Ok(consumer.each(pack).await?)
}

/// An error gives the message back: it is tried twice more, then it is a dead letter with this text.
async fn pack(message: Message) -> Result<(), String> {
    let order: Value = message.json().map_err(|e| e.to_string())?;
    match order["fruit"].as_str() {
        Some("plum") => Err(format!("delivery {}: no box for plums", message.delivery_attempt)),
        _ => Ok(()),
    }
}
