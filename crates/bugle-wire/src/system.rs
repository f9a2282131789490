//! `/api/v1/system/maintenance`, `/internal/api/notify` and `DELETE /api/v1/queues/:queue/clear`.
//!
//! The words of the contract for a spool are those of a file buffer; nothing here ever moves to a place for failed files.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::field::{Field, Text};
use crate::shape::Name;

/// `{"enabled": true}`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(extend("required" = ["enabled"]))]
pub struct SwitchRequest {
    /// Required.
    #[schemars(with = "bool")]
    pub enabled: Field<bool>,
}

/// How pushes and pops are switched.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MaintenanceAnswer<'a> {
    /// Pushes go into the spool; told where it was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub maintenance_mode: Option<bool>,
    /// Pops get nothing; told where it was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pop_maintenance_mode: Option<bool>,
    /// Messages in the spool of this server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub buffered_messages: Option<u64>,
    /// The spool of this server takes messages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub buffer_healthy: Option<bool>,
    /// More about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub buffer_stats: Option<BufferStats<'a>>,
    /// For people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<&'a str>,
}

/// The spool of a server.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BufferStats<'a> {
    /// Messages in it.
    pub pending_count: u64,
    /// Always 0: what cannot be stored stays where it is and is tried again.
    pub failed_count: u64,
    /// The store answers.
    pub db_healthy: bool,
    /// Always empty.
    pub failed_files: FailedFiles,
    /// Bytes in it.
    pub bytes: u64,
    /// Most bytes there may be.
    pub max_bytes: u64,
    /// Why it takes nothing, or cannot be read.
    pub error: Option<&'a str>,
}

/// Files that were given up on: there are none.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FailedFiles {
    /// Number of files.
    pub count: u64,
    /// Their bytes.
    pub total_bytes: u64,
    /// The same in megabytes.
    #[serde(rename = "totalMB")]
    pub total_mb: u64,
    /// Of pushes that the store had refused.
    pub failover_count: u64,
    /// Of pushes without a promise.
    #[serde(rename = "qos0Count")]
    pub qos0_count: u64,
}

/// `{"queue": "q", "partition": "p"}`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(extend("required" = ["queue"]))]
pub struct NotifyRequest<'a> {
    /// Required.
    #[serde(borrow)]
    #[schemars(with = "Name")]
    pub queue: Text<'a>,
    /// All of them if absent.
    #[serde(borrow)]
    #[schemars(with = "Option<Name>")]
    pub partition: Text<'a>,
}

/// Answer to a hint.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct NotifyAnswer {
    /// Always `ok`.
    #[schemars(extend("const" = "ok"))]
    pub status: &'static str,
}

/// Answer to the clearing of a queue.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClearAnswer<'a> {
    /// Always true.
    pub success: bool,
    /// Always true: what was there is gone.
    pub cleared: bool,
    /// The queue.
    pub queue: &'a str,
    /// The partition, if one was named.
    pub partition: Option<&'a str>,
    /// Partitions that held messages.
    pub partitions_cleared: u64,
    /// Messages that are gone.
    pub messages_deleted: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_asked_for_is_not_told() {
        let pops = MaintenanceAnswer {
            maintenance_mode: None,
            pop_maintenance_mode: Some(true),
            buffered_messages: None,
            buffer_healthy: None,
            buffer_stats: None,
            message: Some("x"),
        };
        assert_eq!(serde_json::to_string(&pops).unwrap(), r#"{"popMaintenanceMode":true,"message":"x"}"#);
        let files = serde_json::to_string(&FailedFiles::default()).unwrap();
        let wanted = r#"{"count":0,"totalBytes":0,"totalMB":0,"failoverCount":0,"qos0Count":0}"#;
        assert_eq!(files, wanted);
    }
}
