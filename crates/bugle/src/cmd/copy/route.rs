//! Both servers of a copy, spoken to by the calls that every server of this protocol knows. Ids are texts here: other servers
//! have other kinds of them.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use bugle_client::{Client, Error, NewMessage, Pushed};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// What the names of copies' consumer groups begin with.
pub(super) const GROUPS: &str = "bugle-copy-";
/// Milliseconds that a pop at the source waits.
const WAIT: &str = "1000";
/// Partitions that one pop may bring.
const PARTITIONS: &str = "64";
/// Partitions of one page of counts.
const PAGE: &str = "1000";
/// Names of those that servers have for themselves begin so.
const SYSTEM: &str = "__system_";

/// See the module.
pub(in crate::cmd) struct Route {
    pub(in crate::cmd) from: Client,
    pub(in crate::cmd) to: Client,
}

/// Messages that the source gave.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Popped {
    pub(super) messages: Vec<Message>,
}

/// One of them.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Message {
    transaction_id: String,
    partition: String,
    partition_id: Value,
    #[serde(default)]
    lease_id: Value,
    #[serde(default)]
    traceparent: Option<String>,
    #[serde(default)]
    tracestate: Option<String>,
    data: Box<RawValue>,
}

/// How far a group is in a partition.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Position {
    pub(super) partition: String,
    #[serde(default)]
    pub(super) offset_lag: u64,
}

impl Route {
    /// All queues of the source.
    pub(in crate::cmd) async fn queues(&self) -> Result<Vec<String>> {
        let queues = self.from.admin().queues().await.context("source")?;
        let mut names: Vec<String> = queues.into_iter().map(|queue| queue.name).collect();
        names.retain(|name| !name.starts_with(SYSTEM));
        names.sort_unstable();
        Ok(names)
    }

    /// A queue of the source as it would be configured: all options where the server tells them, else those it does tell.
    pub(super) async fn described(&self, queue: &str) -> Result<Value> {
        let detail: Value =
            self.from.read_json(&["api", "v1", "resources", "queues", queue], &[]).await.context("source")?;
        if let Some(error) = detail["error"].as_str() {
            // Older servers say it with a 200.
            bail!(crate::ending::End::NotFound(error.to_owned()));
        }
        let mut options = detail["options"].clone();
        if !options.is_object() {
            let status: Value = self
                .from
                .read_json(&["api", "v1", "status", "queues", queue], &[])
                .await
                .context("source")?;
            options = told_options(&status["queue"]);
        }
        Ok(json!({
            "queue": queue, "namespace": detail["namespace"], "task": detail["task"], "options": options,
        }))
    }

    /// Configure a queue at the target.
    pub(super) async fn configure(&self, body: &Value) -> Result<()> {
        let _: Value = self.to.send_json(&["api", "v1", "configure"], body).await.context("target")?;
        Ok(())
    }

    /// What the source has for the copy.
    pub(super) async fn pop(&self, queue: &str, group: &str, batch: u32) -> Result<Popped> {
        let batch = batch.to_string();
        let query = [
            ("consumerGroup", group),
            ("subscriptionMode", "all"),
            ("batch", &batch),
            ("partitions", PARTITIONS),
            ("wait", "true"),
            ("timeout", WAIT),
        ];
        let popped: Option<Popped> =
            self.from.read_json(&["api", "v1", "pop", "queue", queue], &query).await.context("source")?;
        Ok(popped.unwrap_or_default())
    }

    /// Push what the source gave, in its order.
    pub(super) async fn push(&self, queue: &str, messages: &[Message]) -> Result<Vec<Pushed>> {
        let messages = messages
            .iter()
            .map(|message| {
                let mut new = NewMessage::raw(queue, message.data.get())?;
                if let Some(traceparent) = &message.traceparent {
                    new = new.traceparent(traceparent);
                }
                if let Some(tracestate) = &message.tracestate {
                    new = new.tracestate(tracestate);
                }
                Ok(new.partition(&message.partition).transaction_id(&message.transaction_id))
            })
            .collect::<Result<Vec<_>, Error>>()?;
        self.to.push_all(&messages).await.context("target")
    }

    /// Tell the source that they are over there.
    pub(super) async fn ack(&self, group: &str, messages: &[Message]) -> Result<()> {
        let acks: Vec<Value> = messages
            .iter()
            .map(|message| {
                json!({"transactionId": message.transaction_id, "partitionId": message.partition_id,
                    "leaseId": message.lease_id, "status": "completed"})
            })
            .collect();
        let body = json!({"consumerGroup": group, "acknowledgments": acks});
        // One that is turned down, because a lease ended meanwhile, comes again and is a duplicate then.
        let _: Value = self.from.send_json(&["api", "v1", "ack", "batch"], &body).await.context("source")?;
        Ok(())
    }

    /// Messages of the source that a group has not acknowledged.
    pub(in crate::cmd) async fn lag(&self, queue: &str, group: &str) -> Result<u64> {
        let path = ["api", "v1", "resources", "queues", queue, "depth"];
        match self.from.read_json::<Value>(&path, &[("group", group)]).await {
            Ok(depth) if depth["pending"].is_u64() => {
                return Ok(depth["pending"].as_u64().unwrap_or_default());
            }
            Ok(_) | Err(Error::Refused { status: 404, .. }) => {}
            Err(error) => return Err(error).context("source"),
        }
        let positions = positions(&self.from, queue, group).await.context("source")?;
        Ok(positions.iter().map(|position| position.offset_lag).sum())
    }

    /// Messages that a server keeps, by partition.
    pub(super) async fn totals(&self, server: &Client, queue: &str) -> Result<BTreeMap<String, u64>> {
        let (mut all, mut after) = (BTreeMap::new(), String::new());
        loop {
            let query = [("limit", PAGE), ("after", after.as_str())];
            let query = if after.is_empty() { &query[..1] } else { &query[..] };
            let path = ["api", "v1", "resources", "queues", queue];
            let detail: Value = server.read_json(&path, query).await?;
            let page = detail["partitions"].as_array().context("partitions of the queue")?;
            for partition in page {
                let name = partition["name"].as_str().unwrap_or_default().to_owned();
                after.clone_from(&name);
                all.insert(
                    name,
                    partition.pointer("/stats/total").and_then(Value::as_u64).unwrap_or_default(),
                );
            }
            if page.is_empty() || detail["truncated"] != true {
                return Ok(all);
            }
        }
    }

    /// Forget the copy's group at the source.
    pub(in crate::cmd) async fn forget(&self, group: &str, queue: &str) -> Result<()> {
        self.from
            .admin()
            .delete_group(group, Some(queue))
            .await
            .context("source: forgetting the copy's group")?;
        Ok(())
    }
}

/// Where a group is on a queue.
pub(super) async fn positions(server: &Client, queue: &str, group: &str) -> Result<Vec<Position>> {
    let queues: BTreeMap<String, Value> =
        server.read_json(&["api", "v1", "consumer-groups", group], &[]).await?;
    match queues.get(queue) {
        Some(found) if found["truncated"] == true => {
            bail!("group {group} is in more partitions than the server lists; copy with --no-groups")
        }
        Some(found) => Ok(serde_json::from_value(found["partitions"].clone())?),
        None => Ok(Vec::new()),
    }
}

/// What `/status/queues` tells of options, in the names of configure.
fn told_options(queue: &Value) -> Value {
    let mut options = json!({});
    let names = [
        ("leaseTime", "/config/leaseTime"),
        ("retryLimit", "/config/retryLimit"),
        ("retryDelay", "/config/retryDelay"),
        ("ttl", "/config/ttl"),
        ("maxSize", "/config/maxQueueSize"),
        ("priority", "/priority"),
    ];
    for (name, at) in names {
        if let Some(value) = queue.pointer(at).filter(|value| !value.is_null()) {
            options[name] = value.clone();
        }
    }
    options
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_of_older_servers_are_read() {
        let empty: Popped =
            serde_json::from_str(r#"{"success":false,"error":"no_available_partition","messages":[]}"#)
                .unwrap();
        assert!(empty.messages.is_empty());
        let text = r#"{"messages":[{"id":"1","transactionId":"t","data":{"a": 1.0},"partition":"p","partitionId":"17",
            "leaseId":"x","createdAt":"2026-01-01T00:00:00.000000Z"}]}"#;
        let popped: Popped = serde_json::from_str(text).unwrap();
        assert_eq!(
            (popped.messages[0].data.get(), &popped.messages[0].partition_id),
            (r#"{"a": 1.0}"#, &json!("17"))
        );
        let status = json!({"priority": 5, "config": {"leaseTime": 30, "ttl": null, "maxQueueSize": 7}});
        assert_eq!(told_options(&status), json!({"leaseTime": 30, "maxSize": 7, "priority": 5}));
    }
}
