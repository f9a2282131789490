//! Traffic as a small shop has it: orders by customer, payments that sometimes fail, mails that nobody reads.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::Result;
use serde_json::{Value, json};

use crate::server::Api;

const QUEUES: [(&str, &str, &str); 6] = [
    ("orders", "shop", "checkout"),
    ("payments", "shop", "billing"),
    ("shipments", "shop", "logistics"),
    ("emails", "notify", "mail"),
    ("thumbnails", "media", "images"),
    ("audit", "", ""),
];

/// Whether it is over, and who waits for that.
#[derive(Default)]
struct Over {
    said: Mutex<bool>,
    told: Condvar,
}

impl Over {
    /// Whether it is over, after so long at the latest.
    fn within(&self, pause: Duration) -> bool {
        let said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.told.wait_timeout_while(said, pause, |over| !*over);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }

    fn say(&self) {
        *self.said.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.told.notify_all();
    }
}

/// Runs until dropped.
pub(crate) struct Traffic {
    over: Arc<Over>,
    threads: Vec<JoinHandle<()>>,
}

impl Traffic {
    pub(crate) fn start(api: &Api) -> Result<Self> {
        for (queue, namespace, task) in QUEUES {
            let options = json!({ "leaseTime": 60, "retryLimit": 1 });
            let body = json!({ "queue": queue, "namespace": namespace, "task": task, "options": options });
            api.post("/api/v1/configure", &body)?;
        }
        let over = Arc::new(Over::default());
        let count = Arc::new(AtomicU64::new(0));
        let mut threads = Vec::new();
        for seed in 0..2 {
            threads.push(spawn(&over, api, Duration::from_millis(40), {
                let count = count.clone();
                move |api| push(api, seed, count.fetch_add(1, Ordering::Relaxed))
            }));
        }
        for (queue, group) in
            [("orders", "billing"), ("orders", "warehouse"), ("payments", "ledger"), ("shipments", "courier")]
        {
            for _ in 0..2 {
                threads.push(spawn(&over, api, Duration::ZERO, move |api| consume(api, queue, group)));
            }
        }
        // Some who wait for what does not come.
        for path in [
            "/api/v1/pop/queue/refunds?consumerGroup=ledger",
            "/api/v1/pop?namespace=archive&consumerGroup=indexer",
        ] {
            threads.push(spawn(&over, api, Duration::ZERO, move |api| {
                api.get(&format!("{path}&wait=true&timeout=2000")).map(drop)
            }));
        }
        Ok(Self { over, threads })
    }

    /// End it and wait for its end.
    pub(crate) fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        self.over.say();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Drop for Traffic {
    fn drop(&mut self) {
        self.end();
    }
}

fn spawn(
    over: &Arc<Over>,
    api: &Api,
    pause: Duration,
    mut work: impl FnMut(&Api) -> Result<()> + Send + 'static,
) -> JoinHandle<()> {
    let (over, api) = (over.clone(), api.clone());
    thread::spawn(move || {
        loop {
            // The server may be asked to refuse for a while.
            let failed = work(&api).is_err();
            if over.within(if failed { Duration::from_millis(100) } else { pause }) {
                return;
            }
        }
    })
}

fn push(api: &Api, seed: u64, n: u64) -> Result<()> {
    let customer = |n: u64| format!("customer-{}", n * 7 % 23);
    let item = |queue: &str, partition: String, payload: Value| json!({ "queue": queue, "partition": partition, "transactionId": format!("{queue}-{seed}-{n}"), "payload": payload });
    let total = (n * 37 % 9000) as f64 / 100.0 + 5.0;
    let order = json!({
        "order": n, "total": total, "currency": "EUR",
        "customer": { "id": customer(n), "tier": if n.is_multiple_of(3) { "gold" } else { "plain" } },
        "lines": [{ "sku": format!("SKU-{}", n % 40), "count": n % 4 + 1 }, { "sku": "GIFT-WRAP", "count": 1 }],
    });
    let mut items = vec![item("orders", customer(n), order)];
    items.push(item("payments", customer(n + 1), json!({ "order": n, "amount": total, "card": "tok_4242" })));
    if n.is_multiple_of(2) {
        items.push(item("shipments", format!("depot-{}", n % 5), json!({ "order": n, "weight": n % 20 })));
        items.push(item("emails", format!("list-{}", n % 9), json!({ "template": "receipt", "order": n })));
    }
    if n.is_multiple_of(5) {
        items.push(item("thumbnails", "default".into(), json!({ "image": n, "sizes": [64, 256, 1024] })));
        items.push(item("audit", "all".into(), json!({ "event": "order.created", "order": n })));
    }
    api.post("/api/v1/push", &json!({ "items": items })).map(drop)
}

fn consume(api: &Api, queue: &str, group: &str) -> Result<()> {
    let path = format!(
        "/api/v1/pop/queue/{queue}?consumerGroup={group}&wait=true&timeout=2000&batch=10&partitions=4"
    );
    let popped = api.get(&path)?;
    for message in popped["messages"].as_array().into_iter().flatten() {
        let order = message["data"]["order"].as_u64().unwrap_or_default();
        let declined = queue == "payments" && order.is_multiple_of(17);
        let error = ["card declined by the issuer", "gateway timed out after 30 s"][(order % 2) as usize];
        let (id, lane) = (&message["transactionId"], &message["partitionId"]);
        if queue == "payments" && order % 6 == 5 {
            for (kind, text) in [("info", "authorised"), ("info", "captured")] {
                let trace = json!({ "transactionId": id, "partitionId": lane, "consumerGroup": group, "eventType": kind,
                    "traceNames": [format!("order-{order}"), "capture"], "data": { "text": text, "gateway": "acme" } });
                api.post("/api/v1/traces", &trace)?;
            }
        }
        let ack = json!({ "transactionId": id, "partitionId": lane, "leaseId": message["leaseId"], "consumerGroup": group,
            "status": if declined { "dlq" } else { "completed" }, "error": if declined { Some(error) } else { None } });
        api.post("/api/v1/ack", &ack)?;
    }
    Ok(())
}
