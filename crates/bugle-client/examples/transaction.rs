//! One step of a pipeline: takes an order and pushes an invoice, both or neither.
//!
//! `cargo run -p bugle-client --example transaction -- http://localhost:6632`

#![allow(clippy::print_stdout, reason = "an example shows what happens")]

use std::error::Error;
use std::time::Duration;

use bugle_client::{Client, NewMessage};
use serde_json::{Value, json};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "http://localhost:6632".to_owned());
    run(&url).await.map(drop)
}

/// Until nothing comes for a second; how many invoices were written.
pub(crate) async fn run(url: &str) -> Result<usize, Box<dyn Error>> {
    let client = Client::new(url)?;
    let mut written = 0;
    loop {
        let pop = client.pop("orders").group("invoicing").wait(Duration::from_secs(1));
        let batch = pop.send().await?;
        let Some(order) = batch.messages.first() else {
            println!("{written} invoices written");
            return Ok(written);
        };
        let invoice = json!({ "for": order.json::<Value>()?, "order": order.id });
        let invoice = NewMessage::json("invoices", &invoice)?.partition(&order.partition);
        // If this process dies before the answer, the order comes again, and there is no invoice; if it dies after it,
        // there is one, and the order does not come again.
        client.transaction().ack(order).push(invoice).send().await?;
        written += 1;
    }
}
