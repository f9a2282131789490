//! Pushes orders through a buffer: large requests, order kept inside each partition, back-pressure while the server is
//! slow, nothing dropped while it is away.
//!
//! `cargo run -p bugle-client --example produce -- http://localhost:6632`

#![allow(clippy::print_stdout, reason = "an example shows what happens")]

use std::error::Error;
use std::time::Duration;

use bugle_client::{BufferOptions, Client, NewMessage};
use serde::Serialize;

#[derive(Serialize)]
struct Order {
    number: u32,
    fruit: &'static str,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "http://localhost:6632".to_owned());
    run(&url, 10_000).await
}

pub(crate) async fn run(url: &str, orders: u32) -> Result<(), Box<dyn Error>> {
    let client = Client::new(url)?;
    let buffer = client.buffer(BufferOptions::default());
    for number in 0..orders {
        let fruit = ["apple", "pear", "plum"][number as usize % 3];
        let order = NewMessage::json("orders", &Order { number, fruit })?;
        // One partition per customer: each customer's orders stay in order.
        buffer.push(order.partition(format!("customer-{}", number % 100))).await?;
    }
    buffer.close(Duration::from_secs(60)).await?;
    println!("{orders} orders are with the server");
    Ok(())
}
