//! Takes messages by hand: pop, handle, acknowledge. `worker.rs` shows the usual way.
//!
//! `cargo run -p bugle-client --example consume -- http://localhost:6632`

#![allow(clippy::print_stdout, reason = "an example shows what happens")]

use std::error::Error;
use std::time::Duration;

use bugle_client::{Ack, Client};
use serde::Deserialize;

#[derive(Deserialize)]
struct Order {
    number: u32,
    fruit: String,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "http://localhost:6632".to_owned());
    run(&url).await.map(drop)
}

/// Until nothing comes for a second; how many were done.
pub(crate) async fn run(url: &str) -> Result<usize, Box<dyn Error>> {
    let client = Client::new(url)?;
    let mut done = 0;
    loop {
        let pop = client.pop("orders").group("shipping").batch(100).partitions(10);
        let batch = pop.wait(Duration::from_secs(1)).send().await?;
        if batch.messages.is_empty() {
            println!("{done} orders shipped");
            return Ok(done);
        }
        let mut acks = Vec::new();
        for message in &batch.messages {
            let order: Order = message.json()?;
            acks.push(if order.fruit == "plum" {
                // Nobody can ship plums: no use in trying again.
                Ack::dead_letter(message, format!("order {}: no plums", order.number))
            } else {
                done += 1;
                Ack::completed(message)
            });
        }
        client.settle(&acks).await?;
    }
}
