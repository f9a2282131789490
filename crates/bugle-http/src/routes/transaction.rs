//! `POST /api/v1/transaction`: pushes and acknowledgements, all or nothing. A rollback is a 200 that says so.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use bugle_broker::{LeaseToken, Operation, OperationResult, Refused, Transacted};
use bugle_store::Group;
use bugle_wire::{
    AckEntry, Field, OperationEntry, OperationOutcome, PushEntry, Raw, Text, TransactAnswer, TransactRequest,
    read,
};
use bytes::Bytes;
use http::StatusCode;
use uuid::Uuid;

use crate::app::App;
use crate::auth::Producer;
use crate::body;
use crate::convert::{At, Pushes, Sender, ack, group, lease, objects, optional};
use crate::error::{Failure, json};
use crate::telemetry::span::{Handling, Traced, common};

pub(crate) async fn transaction(
    State(app): State<Arc<App>>,
    producer: Producer,
    traced: Traced,
    body: Body,
) -> Result<Response, Failure> {
    let body = body::read(body, &app.config).await?;
    let (operations, required) =
        body::digest(&body, || bundle(&body, &app.terms.anonymous, producer.sender.clone()))?;
    drop(body);
    producer.sends(operations.iter().filter(|operation| matches!(operation, Operation::Push(_))).count())?;
    let done = if operations.is_empty() {
        Transacted { success: true, error: None, reason: None, results: Vec::new() }
    } else {
        app.broker.transact(operations, required).await?
    };
    let acked = done.results.iter().filter_map(|result| match result {
        OperationResult::Ack(_, acked) => acked.context.as_ref(),
        OperationResult::Push(..) => None,
    });
    traced.tell(|| transacting(&done), acked);
    Ok(json(
        StatusCode::OK,
        &TransactAnswer {
            transaction_id: Uuid::now_v7(),
            success: done.success,
            error: done.error.as_deref(),
            reason: done.reason,
            results: done.results.iter().enumerate().map(|(i, result)| outcome(i, result)).collect(),
        },
    ))
}

/// A transaction, as it is told of: one that acknowledges is the end of what it acknowledges.
fn transacting(done: &Transacted) -> Handling<'_> {
    let settles = done.results.iter().any(|result| matches!(result, OperationResult::Ack(..)));
    let queues = done.results.iter().filter_map(|result| match result {
        OperationResult::Push(_, queue) => Some(&**queue),
        OperationResult::Ack(_, acked) => acked.queue.as_deref(),
    });
    Handling {
        kind: if settles { "settle" } else { "send" },
        name: "transaction",
        queue: common(queues),
        partition: None,
        group: None,
        messages: done.results.len(),
    }
}

fn outcome(index: usize, result: &OperationResult) -> OperationOutcome<'_> {
    match result {
        OperationResult::Push(pushed, queue) => OperationOutcome::Push {
            index,
            success: true,
            transaction_id: std::str::from_utf8(&pushed.transaction_id).unwrap_or_default(),
            message_id: pushed.message_id,
            partition_id: pushed.lane.0,
            queue_name: queue,
            duplicate: pushed.duplicate,
        },
        OperationResult::Ack(id, acked) => {
            OperationOutcome::Ack { index, success: true, transaction_id: id, error: None, dlq: acked.dlq }
        }
    }
}

/// The flattened operations and the leases named for all of them.
pub(crate) fn bundle(
    body: &Bytes,
    anonymous: &Group,
    sender: Sender,
) -> Result<(Vec<Operation>, Vec<LeaseToken>), Failure> {
    let request: TransactRequest<'_> = read(body)?;
    for (name, value) in [("kv", request.kv), ("timers", request.timers)] {
        if value.0.is_some_and(|raw| !matches!(raw.get(), "null" | "[]" | "{}")) {
            return Err(Refused::Invalid(format!("{name} is not supported in a transaction")).into());
        }
    }
    let operations = objects(&request.operations, "operations", "operations array required")?;
    if operations.len() == 0 {
        return Err(Refused::Invalid("operations array cannot be empty".into()).into());
    }
    let mut bundle = Bundle { anonymous, pushes: Pushes::new(body, "{}", sender), flat: Vec::new() };
    for (i, entry) in operations {
        bundle.add(i, entry?)?;
    }
    Ok((bundle.flat, required_leases(&request.required_leases)?))
}

/// Operations read so far.
struct Bundle<'a> {
    anonymous: &'a Group,
    pushes: Pushes<'a>,
    flat: Vec<Operation>,
}

impl Bundle<'_> {
    fn add(&mut self, i: usize, entry: &OperationEntry<'_>) -> Result<(), Refused> {
        let at = |field: &str| format!("operations[{i}].{field}");
        match optional(&entry.kind, "type", &at)? {
            Some("push") => self.add_push(i, entry, &at),
            Some("ack") => self.add_ack(entry, &at),
            Some(other) => Err(Refused::Invalid(format!("Unknown operation type: {other}"))),
            None => Err(Refused::Invalid(format!("{} is required", at("type")))),
        }
    }

    /// One operation per item; the flat form has a single one.
    fn add_push(&mut self, i: usize, entry: &OperationEntry<'_>, at: At<'_>) -> Result<(), Refused> {
        if let Field::Absent = entry.items {
            let item = PushEntry {
                queue: entry.queue.clone(),
                partition: entry.partition.clone(),
                payload: Raw(entry.payload.0.or(entry.data.0)),
                transaction_id: entry.transaction_id.clone(),
                trace_id: entry.trace_id.clone(),
                traceparent: entry.traceparent.clone(),
                tracestate: entry.tracestate.clone(),
            };
            self.flat.push(Operation::Push(self.pushes.item(&item, at)?));
            return Ok(());
        }
        let missing = format!("{} must be an array", at("items"));
        for (j, item) in objects(&entry.items, "items", &missing)? {
            let item =
                item.map_err(|_| Refused::Invalid(format!("operations[{i}].items[{j}] must be an object")))?;
            let at = |field: &str| format!("operations[{i}].items[{j}].{field}");
            self.flat.push(Operation::Push(self.pushes.item(item, &at)?));
        }
        Ok(())
    }

    fn add_ack(&mut self, entry: &OperationEntry<'_>, at: At<'_>) -> Result<(), Refused> {
        let group = group(&entry.consumer_group, self.anonymous, at)?;
        let entry = AckEntry {
            transaction_id: entry.transaction_id.clone(),
            partition_id: entry.partition_id.clone(),
            status: entry.status.clone(),
            consumer_group: Field::Absent,
            lease_id: entry.lease_id.clone(),
            error: entry.error.clone(),
        };
        self.flat.push(Operation::Ack(ack(&entry, group, at)?));
        Ok(())
    }
}

fn required_leases(field: &Field<Vec<Text<'_>>>) -> Result<Vec<LeaseToken>, Refused> {
    let wrong = || Refused::Invalid("requiredLeases must be an array of strings".into());
    match field {
        Field::Absent => Ok(Vec::new()),
        Field::Wrong => Err(wrong()),
        Field::Is(list) => list
            .iter()
            .filter(|entry| !matches!(entry, Field::Absent))
            .map(|entry| if let Field::Is(text) = entry { Ok(lease(text)) } else { Err(wrong()) })
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(body: &str) -> Result<(Vec<Operation>, Vec<LeaseToken>), String> {
        bundle(&Bytes::copy_from_slice(body.as_bytes()), &"anon".into(), Sender::default())
            .map_err(|e| e.error.into_owned())
    }

    #[test]
    fn pushes_are_flattened_and_both_forms_are_read() {
        let (operations, required) = parse(
            r#"{"operations":[
                {"type":"push","items":[{"queue":"a","payload":1},{"queue":"b","data":2}]},
                {"type":"push","queue":"c","data":[3]},
                {"type":"push","queue":"d","payload":4,"data":5},
                {"type":"push","items":[]},
                {"type":"ack","transactionId":"t","partitionId":"p","status":"failed","consumerGroup":null}],
               "requiredLeases":["x", null], "kv":[], "timers":null}"#,
        )
        .unwrap();
        assert_eq!(required, [LeaseToken::Garbage]);
        let shown: Vec<String> = operations
            .iter()
            .map(|operation| match operation {
                Operation::Push(p) => format!("{} {}", p.queue, std::str::from_utf8(&p.payload).unwrap()),
                Operation::Ack(a) => format!("{} {:?} {}", a.transaction_id, a.status, a.group),
            })
            .collect();
        assert_eq!(shown, ["a 1", "b {}", "c [3]", "d 4", "t Failed anon"]);
    }

    #[test]
    fn bad_bundles_are_refused_as_a_whole() {
        for (body, complaint) in [
            ("{}", "operations array required"),
            (r#"{"operations":{}}"#, "operations array required"),
            (r#"{"operations":[]}"#, "operations array cannot be empty"),
            (r#"{"operations":[7]}"#, "operations[0] must be an object"),
            (r#"{"operations":[{}]}"#, "operations[0].type is required"),
            (r#"{"operations":[{"type":"pop"}]}"#, "Unknown operation type: pop"),
            (r#"{"operations":[{"type":"push"}]}"#, "operations[0].queue is required"),
            (r#"{"operations":[{"type":"push","items":5}]}"#, "operations[0].items must be an array"),
            (r#"{"operations":[{"type":"push","items":[5]}]}"#, "operations[0].items[0] must be an object"),
            (
                r#"{"operations":[{"type":"push","items":[{"queue":1}]}]}"#,
                "operations[0].items[0].queue must be a string",
            ),
            (r#"{"operations":[{"type":"ack"}]}"#, "operations[0].transactionId is required"),
            (
                r#"{"operations":[{"type":"push","queue":"q"}],"requiredLeases":"x"}"#,
                "requiredLeases must be an array of strings",
            ),
            (
                r#"{"operations":[{"type":"push","queue":"q"}],"kv":[{"op":"put"}]}"#,
                "kv is not supported in a transaction",
            ),
        ] {
            assert_eq!(parse(body).unwrap_err(), complaint, "{body}");
        }
    }
}
