//! The examples of our client, as they are in its crate, against a real server.

use bugle_client::{CancellationToken, Client, DeadLetterFilter};
use tokio::time::timeout;

use crate::client_pushes::url;
use crate::common::{PATIENCE, until_true};

#[path = "../../../bugle-client/examples/consume.rs"]
#[expect(dead_code, reason = "its main is not called")]
mod consume;
#[path = "../../../bugle-client/examples/produce.rs"]
#[expect(dead_code, reason = "its main is not called")]
mod produce;
#[path = "../../../bugle-client/examples/transaction.rs"]
#[expect(dead_code, reason = "its main is not called")]
mod transaction;
#[path = "../../../bugle-client/examples/worker.rs"]
#[expect(dead_code, reason = "its main is not called")]
mod worker;

on_every_engine! {
    async fn the_examples_do_what_they_say(on: On) {
        let server = on.start().await;
        let url = url(&server);
        produce::run(&url, 60).await.unwrap();
        assert_eq!(consume::run(&url).await.unwrap(), 40);
        assert_eq!(transaction::run(&url).await.unwrap(), 60);
        let client = Client::new(&url).unwrap();
        let letters = async |group: &str| {
            let filter = DeadLetterFilter::queue("orders").group(group);
            client.admin().dead_letters(&filter, 0, 1).await.unwrap().total
        };
        assert_eq!(letters("shipping").await, 20);
        let invoices = client.pop("invoices").group("check").batch(100).partitions(100).send().await.unwrap();
        assert_eq!(invoices.messages.len(), 60);
        let stop = CancellationToken::new();
        let (at, on_stop) = (url.clone(), stop.clone());
        let running = tokio::spawn(async move { worker::run(&at, on_stop).await.map_err(|e| e.to_string()) });
        until_true("the worker gave up the plums", async || letters("packing").await == 20).await;
        until_true("the worker is done", async || numbers_left(&client).await == 0).await;
        stop.cancel();
        let packed = timeout(PATIENCE, running).await.expect("the worker stops").unwrap().unwrap();
        assert_eq!((packed.completed, packed.failed, packed.dead_lettered), (40, 60, 20));
    }
}

/// Messages that the worker's group has not done.
async fn numbers_left(client: &Client) -> u64 {
    let group = client.admin().group("packing").await.unwrap();
    group["orders"].partitions.iter().map(|partition| partition.offset_lag).sum()
}
