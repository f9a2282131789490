//! `POST /api/v1/configure` and `DELETE /api/v1/resources/queues/:queue`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::field::{Field, Object, Text};
use crate::shape::{EmptyName, MaybeName};

/// `{queue, namespace, task, mode, options}`. Options may also stand beside the others.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(extend("required" = ["queue"]))]
pub struct ConfigureRequest<'a> {
    /// Required; may be empty.
    #[serde(borrow)]
    #[schemars(with = "EmptyName")]
    pub queue: Text<'a>,
    /// Kept (or emptied, for a new queue) if absent.
    #[serde(borrow)]
    #[schemars(with = "MaybeName")]
    pub namespace: Text<'a>,
    /// Kept (or emptied, for a new queue) if absent.
    #[serde(borrow)]
    #[schemars(with = "MaybeName")]
    pub task: Text<'a>,
    /// What becomes of options that are not named: with `merge` they stay, with `replace` they get their defaults. `merge` if
    /// absent.
    #[serde(borrow)]
    #[schemars(extend("enum" = ["merge", "replace", null]))]
    pub mode: Text<'a>,
    /// Options.
    pub options: Field<Object<Map<String, Value>>>,
    /// Options that stand at the top.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// Answer to configure.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ConfigureAnswer")]
pub struct ConfigureAnswer<'a, O> {
    /// Always true.
    pub configured: bool,
    /// Identity of the queue.
    pub queue_id: Uuid,
    /// Always `null`: lanes are made by the first push.
    pub partition_id: Option<Uuid>,
    /// Its name.
    pub queue: &'a str,
    /// Its namespace now.
    pub namespace: &'a str,
    /// Its task now.
    pub task: &'a str,
    /// All its options now.
    pub options: O,
    /// Options sent that nobody knows.
    pub ignored: &'a [String],
}

/// Answer to the deletion of a queue.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct DeleteQueueAnswer<'a> {
    /// Always true: there is no such queue now.
    pub deleted: bool,
    /// Its name.
    pub queue: &'a str,
    /// There was one.
    pub existed: bool,
}
