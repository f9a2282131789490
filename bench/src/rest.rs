//! The protocol in JSON values, for commands that send few requests: what costs a parse here is not what they measure.

use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use serde_json::{Value, json};

use crate::client::{Connection, Target};
use crate::gauge;

/// How long to wait for a state that must come.
const PATIENCE: Duration = Duration::from_secs(60);

/// One connection to a server.
pub(crate) struct Rest {
    pub(crate) target: Target,
    connection: Connection,
}

impl Rest {
    pub(crate) fn new(target: Target) -> Self {
        Self { connection: target.connection(), target }
    }

    /// Any POST: status and body, null if there is none.
    pub(crate) async fn post(&mut self, path: &str, body: &Value) -> Result<(u16, Value)> {
        let mut post = self.target.post(path);
        serde_json::to_writer(post.begin(), body)?;
        post.finish();
        self.call(post.bytes(), path).await
    }

    /// Any GET: status and body, null if there is none.
    pub(crate) async fn get(&mut self, path: &str) -> Result<(u16, Value)> {
        let request = self.target.get(path);
        self.call(&request, path).await
    }

    async fn call(&mut self, request: &[u8], path: &str) -> Result<(u16, Value)> {
        match self.connection.call(request).await {
            Ok(response) if response.body.is_empty() => Ok((response.status, Value::Null)),
            Ok(response) => Ok((response.status, serde_json::from_slice(response.body)?)),
            Err(failure) => bail!("{path}: {}", failure.kind()),
        }
    }

    /// Sets the options of a queue.
    pub(crate) async fn configure(&mut self, queue: &str, options: &Value) -> Result<()> {
        let (status, answer) =
            self.post("/api/v1/configure", &json!({"queue": queue, "options": options})).await?;
        ensure!(status == 200 || status == 201, "configure {queue}: {status} {answer}");
        Ok(())
    }

    /// Pushes items that must all be taken.
    pub(crate) async fn push(&mut self, items: Value) -> Result<()> {
        let count = items.as_array().map_or(0, Vec::len);
        let (status, answer) = self.post("/api/v1/push", &json!({ "items": items })).await?;
        let queued = answer.as_array().map_or(0, |a| a.iter().filter(|i| i["status"] == "queued").count());
        ensure!(status == 201 && queued == count, "push: {status}, {queued} of {count} queued");
        Ok(())
    }

    /// Pops what must be there.
    pub(crate) async fn pop(&mut self, rest: &str) -> Result<Value> {
        let (status, answer) = self.get(&format!("/api/v1/pop/queue/{rest}")).await?;
        ensure!(status == 200, "pop {rest}: {status}");
        Ok(answer)
    }

    /// Acknowledges all messages of a pop's answer.
    pub(crate) async fn ack(&mut self, popped: &Value, status: &str) -> Result<()> {
        let none = Vec::new();
        let messages = popped["messages"].as_array().unwrap_or(&none);
        let acks: Value = messages
            .iter()
            .map(|m| {
                json!({"transactionId": m["transactionId"], "partitionId": m["partitionId"],
                       "leaseId": m["leaseId"], "status": status})
            })
            .collect();
        let body = json!({"acknowledgments": acks, "consumerGroup": popped["consumerGroup"]});
        let (code, answer) = self.post("/api/v1/ack/batch", &body).await?;
        let done = answer.as_array().map_or(0, |a| a.iter().filter(|i| i["success"] == true).count());
        ensure!(code == 200 && done == messages.len(), "ack {status}: {code} {answer}");
        Ok(())
    }

    /// Waits until a number on the server's Prometheus page is as wanted.
    pub(crate) async fn until(&self, number: &str, wanted: impl Fn(f64) -> bool) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let found = gauge::number(&self.target, number).await;
            if found.is_some_and(&wanted) {
                return Ok(());
            }
            ensure!(Instant::now() < deadline, "{number} stays at {found:?}");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// Waits until the server has a healthy peer on this carrier.
    pub(crate) async fn until_hearing(&self, carrier: &str) -> Result<()> {
        let peers = format!("bugle_carrier_peers{{carrier=\"{carrier}\",state=\"healthy\"}}");
        self.until(&peers, |count| count >= 1.0).await?;
        self.until("bugle_hearing{state=\"connected\"}", |state| state == 1.0).await
    }
}
