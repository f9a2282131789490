//! The answer to a pop, written by hand: it carries the most bytes of all, and payloads go through untouched.
//!
//! An answer is a [`PopHead`], then a [`PopMessage`] for each message, with the [`LaneLabel`] of its lane, then
//! [`write_pop_end`]. The pieces may be sent as they are made.

use std::fmt::Display;
use std::io::Write;

use schemars::JsonSchema;
use serde::Serialize;
use uuid::Uuid;

use crate::shape::{LeaseText, Traceparent};
use crate::text::write_text;
use crate::time::{Millis, write_micros};

/// What stands before the messages.
#[derive(Clone, Copy, Debug)]
pub struct PopHead<'a> {
    /// The queue asked for; empty when popped by filter.
    pub queue: &'a str,
    /// The first lane's partition, or the one asked for.
    pub partition: Option<&'a str>,
    /// The first lane.
    pub partition_id: Option<Uuid>,
    /// The lease; `None` under auto-ack.
    pub lease_id: Option<Uuid>,
    /// When the lease ends, in microseconds.
    pub lease_expires_at: Option<i64>,
    /// Whose cursor.
    pub consumer_group: &'a str,
    /// Lanes in the answer.
    pub partitions_claimed: usize,
    /// The group conflates.
    pub conflation: bool,
    /// The request disagreed with that.
    pub conflation_conflict: bool,
    /// What the broker chose.
    pub autopilot: Option<AutopilotTerms>,
}

/// What the broker chose for a caller that left it to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema)]
#[schemars(rename_all = "camelCase")]
pub struct AutopilotTerms {
    /// Lanes.
    pub partitions: u32,
    /// Messages.
    pub batch: u32,
    /// Time waited.
    pub wait_ms: u64,
}

impl PopHead<'_> {
    /// Append everything up to the first message.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"success\":true,\"queue\":");
        write_text(out, self.queue);
        out.extend_from_slice(b",\"partition\":");
        match self.partition {
            Some(name) => write_text(out, name),
            None => out.extend_from_slice(b"null"),
        }
        out.extend_from_slice(b",\"partitionId\":");
        match self.partition_id {
            Some(id) => write_uuid(out, id),
            None => out.extend_from_slice(b"null"),
        }
        write_lease(out, self.lease_id);
        out.extend_from_slice(b",\"leaseExpiresAt\":");
        write_millis(out, self.lease_expires_at);
        out.extend_from_slice(b",\"consumerGroup\":");
        write_text(out, self.consumer_group);
        out.extend_from_slice(b",\"partitionsClaimed\":");
        write_number(out, self.partitions_claimed as u64);
        self.write_extras(out);
        out.extend_from_slice(b",\"messages\":[");
    }

    fn write_extras(&self, out: &mut Vec<u8>) {
        if self.conflation {
            out.extend_from_slice(b",\"conflation\":true");
        }
        if self.conflation_conflict {
            out.extend_from_slice(b",\"conflationConflict\":true");
        }
        if let Some(terms) = self.autopilot {
            out.extend_from_slice(b",\"autopilot\":{\"partitions\":");
            write_number(out, terms.partitions.into());
            out.extend_from_slice(b",\"batch\":");
            write_number(out, terms.batch.into());
            out.extend_from_slice(b",\"waitMs\":");
            write_number(out, terms.wait_ms);
            out.push(b'}');
        }
    }
}

/// The fields that all messages of one lane share, spelled once.
#[derive(Clone, Debug, Default)]
pub struct LaneLabel(Vec<u8>);

impl LaneLabel {
    /// The label of a lane.
    pub fn new(
        queue: &str,
        partition: &str,
        partition_id: Uuid,
        lease_id: Option<Uuid>,
        group: &str,
        attempt: u32,
    ) -> Self {
        let mut out = Vec::with_capacity(192 + queue.len() + partition.len() + group.len());
        out.extend_from_slice(b",\"queue\":");
        write_text(&mut out, queue);
        out.extend_from_slice(b",\"partition\":");
        write_text(&mut out, partition);
        out.extend_from_slice(b",\"partitionId\":");
        write_uuid(&mut out, partition_id);
        write_lease(&mut out, lease_id);
        out.extend_from_slice(b",\"consumerGroup\":");
        write_text(&mut out, group);
        out.extend_from_slice(b",\"deliveryAttempt\":");
        write_number(&mut out, attempt.into());
        out.push(b'}');
        Self(out)
    }

    /// Its length in bytes.
    pub fn size(&self) -> usize {
        self.0.len()
    }
}

/// One message.
#[derive(Clone, Copy)]
pub struct PopMessage<'a> {
    /// Server-minted id.
    pub id: Uuid,
    /// The producer's id.
    pub transaction_id: &'a str,
    /// Pass-through.
    pub trace_id: Option<Uuid>,
    /// Who pushed it.
    pub producer_sub: Option<&'a str>,
    /// When it was pushed, in microseconds.
    pub created_at: i64,
    /// Position in its lane.
    pub offset: u64,
    /// The trace it belongs to.
    pub trace: Option<TraceHeaders<'a>>,
}

/// A W3C trace context.
#[derive(Clone, Copy)]
pub struct TraceHeaders<'a> {
    /// `traceparent`.
    pub parent: &'a dyn Display,
    /// `tracestate`.
    pub state: Option<&'a str>,
}

impl TraceHeaders<'_> {
    fn write(self, out: &mut Vec<u8>) {
        // Writing into memory cannot fail.
        let _ = write!(out, ",\"traceparent\":\"{}\"", self.parent);
        if let Some(state) = self.state {
            out.extend_from_slice(b",\"tracestate\":");
            write_text(out, state);
        }
    }
}

impl PopMessage<'_> {
    /// Append everything up to the payload. `first`: it is the first message of the answer.
    pub fn write_before_payload(&self, out: &mut Vec<u8>, first: bool) {
        out.extend_from_slice(if first { b"{\"id\":" } else { b",{\"id\":" });
        write_uuid(out, self.id);
        out.extend_from_slice(b",\"transactionId\":");
        write_text(out, self.transaction_id);
        out.extend_from_slice(b",\"traceId\":");
        match self.trace_id {
            Some(id) => write_uuid(out, id),
            None => out.extend_from_slice(b"null"),
        }
        out.extend_from_slice(b",\"producerSub\":");
        match self.producer_sub {
            Some(sub) => write_text(out, sub),
            None => out.extend_from_slice(b"null"),
        }
        out.extend_from_slice(b",\"createdAt\":\"");
        write_micros(out, self.created_at);
        out.extend_from_slice(b"\",\"offset\":");
        write_number(out, self.offset);
        if let Some(trace) = self.trace {
            trace.write(out);
        }
        out.extend_from_slice(b",\"data\":");
    }

    /// Append everything after the payload.
    pub fn write_after_payload(out: &mut Vec<u8>, lane: &LaneLabel) {
        out.extend_from_slice(&lane.0);
    }
}

/// The whole answer as the pieces above spell it, for the description of the API: nothing is made of this.
#[derive(Debug, JsonSchema)]
#[schemars(rename_all = "camelCase")]
pub struct PopAnswer {
    /// Always true.
    pub success: bool,
    /// The queue asked for; empty when popped by filter.
    pub queue: String,
    /// The first message's partition, or the one asked for.
    pub partition: Option<String>,
    /// The first message's partition.
    pub partition_id: Option<Uuid>,
    /// The lease that holds all messages of the answer; empty under auto-ack.
    #[schemars(with = "LeaseText")]
    pub lease_id: String,
    /// When the lease ends.
    #[schemars(with = "Option<Millis>")]
    pub lease_expires_at: Option<i64>,
    /// Whose cursor.
    pub consumer_group: String,
    /// Partitions in the answer.
    pub partitions_claimed: usize,
    /// The group conflates: of each partition there is only the newest message. Told only where it is so.
    #[schemars(skip_serializing_if = "std::ops::Not::not", extend("const" = true))]
    pub conflation: bool,
    /// The request disagreed with that. Told only where it is so.
    #[schemars(skip_serializing_if = "std::ops::Not::not", extend("const" = true))]
    pub conflation_conflict: bool,
    /// What the server chose, for requests that left it to it.
    #[schemars(skip_serializing_if = "Option::is_none", with = "AutopilotTerms")]
    pub autopilot: Option<AutopilotTerms>,
    /// The messages, those of one partition in its order.
    pub messages: Vec<PopAnswerMessage>,
}

/// A message of the answer, as [`PopMessage`] and [`LaneLabel`] spell it.
#[derive(Debug, JsonSchema)]
#[schemars(rename_all = "camelCase")]
pub struct PopAnswerMessage {
    /// Server-minted id.
    pub id: Uuid,
    /// The producer's id.
    pub transaction_id: String,
    /// As it was pushed.
    pub trace_id: Option<Uuid>,
    /// Who pushed it.
    pub producer_sub: Option<String>,
    /// When it was pushed, to the microsecond.
    #[schemars(with = "Millis")]
    pub created_at: i64,
    /// Position in its partition.
    pub offset: u64,
    /// The W3C trace context that it was pushed with. Told only where there is one.
    #[schemars(skip_serializing_if = "Option::is_none", with = "Traceparent")]
    pub traceparent: Option<String>,
    /// Of that context. Told only where there is one.
    #[schemars(skip_serializing_if = "Option::is_none", with = "String")]
    pub tracestate: Option<String>,
    /// The payload, byte for byte as it was pushed.
    #[schemars(with = "serde_json::Value")]
    pub data: (),
    /// Its queue.
    pub queue: String,
    /// Its partition.
    pub partition: String,
    /// Its partition.
    pub partition_id: Uuid,
    /// The lease that holds it; empty under auto-ack.
    #[schemars(with = "LeaseText")]
    pub lease_id: String,
    /// Whose cursor.
    pub consumer_group: String,
    /// 1 for the first delivery.
    pub delivery_attempt: u32,
}

/// The refusal of a pop that names neither a namespace nor a task.
#[derive(Debug, Serialize, JsonSchema)]
pub struct PopRefusal<'a> {
    /// Always false.
    pub success: bool,
    /// What is wrong.
    pub error: &'a str,
    /// Always empty.
    pub messages: [(); 0],
}

/// Append what stands after the last message.
pub fn write_pop_end(out: &mut Vec<u8>) {
    out.extend_from_slice(b"]}");
}

fn write_lease(out: &mut Vec<u8>, lease: Option<Uuid>) {
    out.extend_from_slice(b",\"leaseId\":");
    match lease {
        Some(id) => write_uuid(out, id),
        None => out.extend_from_slice(b"\"\""),
    }
}

fn write_uuid(out: &mut Vec<u8>, id: Uuid) {
    out.push(b'"');
    out.extend_from_slice(id.hyphenated().encode_lower(&mut Uuid::encode_buffer()).as_bytes());
    out.push(b'"');
}

fn write_millis(out: &mut Vec<u8>, micros: Option<i64>) {
    let Some(micros) = micros else { return out.extend_from_slice(b"null") };
    out.push(b'"');
    write_micros(out, micros);
    out.truncate(out.len() - 4);
    out.extend_from_slice(b"Z\"");
}

fn write_number(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    const HEAD: PopHead<'static> = PopHead {
        queue: "q\"x",
        partition: Some("p"),
        partition_id: Some(Uuid::nil()),
        lease_id: Some(Uuid::max()),
        lease_expires_at: Some(1_500_000),
        consumer_group: "g",
        partitions_claimed: 2,
        conflation: false,
        conflation_conflict: false,
        autopilot: None,
    };

    #[test]
    fn an_answer_has_the_fields_of_the_contract_and_the_payload_as_it_was() {
        let lane = LaneLabel::new("q\"x", "p", Uuid::nil(), Some(Uuid::max()), "g", 3);
        let message = PopMessage {
            id: Uuid::from_u128(7),
            transaction_id: "t\n",
            trace_id: None,
            producer_sub: Some("svc"),
            created_at: 1_000_001,
            offset: 9,
            trace: None,
        };
        let mut out = Vec::new();
        HEAD.write(&mut out);
        for first in [true, false] {
            message.write_before_payload(&mut out, first);
            out.extend_from_slice(br#"{"a":1.0,"a":2}"#);
            PopMessage::write_after_payload(&mut out, &lane);
        }
        write_pop_end(&mut out);
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text.matches(r#""data":{"a":1.0,"a":2},"#).count(), 2);
        let seen: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(seen["messages"].as_array().unwrap().len(), 2);
        assert_eq!(
            seen["messages"][1],
            json!({
                "id": Uuid::from_u128(7), "transactionId": "t\n", "traceId": null, "producerSub": "svc",
                "createdAt": "1970-01-01T00:00:01.000001Z", "offset": 9, "data": {"a": 2}, "queue": "q\"x",
                "partition": "p", "partitionId": Uuid::nil(), "leaseId": Uuid::max(), "consumerGroup": "g",
                "deliveryAttempt": 3
            })
        );
        assert_eq!(seen["leaseExpiresAt"], "1970-01-01T00:00:01.500Z");
        assert!(seen.get("conflation").is_none() && seen.get("autopilot").is_none());
    }

    #[test]
    fn optional_keys_appear_only_when_they_say_something() {
        let head = PopHead {
            partition: None,
            partition_id: None,
            lease_id: None,
            lease_expires_at: None,
            conflation: true,
            conflation_conflict: true,
            autopilot: Some(AutopilotTerms { partitions: 1, batch: 2, wait_ms: 3 }),
            ..HEAD
        };
        let mut out = Vec::new();
        head.write(&mut out);
        write_pop_end(&mut out);
        assert_eq!(
            serde_json::from_slice::<Value>(&out).unwrap(),
            json!({
                "success": true, "queue": "q\"x", "partition": null, "partitionId": null, "leaseId": "",
                "leaseExpiresAt": null, "consumerGroup": "g", "partitionsClaimed": 2, "conflation": true,
                "conflationConflict": true, "autopilot": {"partitions": 1, "batch": 2, "waitMs": 3}, "messages": []
            })
        );
    }

    #[test]
    fn what_is_written_has_the_fields_that_are_described() {
        let keys = |object: &Value| -> Vec<String> { object.as_object().unwrap().keys().cloned().collect() };
        let generator = schemars::generate::SchemaSettings::draft2020_12().for_serialize().into_generator();
        let schema = generator.into_root_schema_for::<PopAnswer>().to_value();
        let mut out = Vec::new();
        let terms = AutopilotTerms { partitions: 1, batch: 2, wait_ms: 3 };
        PopHead { conflation: true, conflation_conflict: true, autopilot: Some(terms), ..HEAD }
            .write(&mut out);
        let message = PopMessage {
            id: Uuid::nil(),
            transaction_id: "t",
            trace_id: None,
            producer_sub: None,
            created_at: 1,
            offset: 0,
            trace: Some(TraceHeaders { parent: &"00-1-2-01", state: Some("a=\"1\"") }),
        };
        message.write_before_payload(&mut out, true);
        out.extend_from_slice(b"1");
        PopMessage::write_after_payload(&mut out, &LaneLabel::new("q", "p", Uuid::nil(), None, "g", 1));
        write_pop_end(&mut out);
        let written: Value = serde_json::from_slice(&out).unwrap();
        assert_eq!(keys(&written), keys(&schema["properties"]));
        assert_eq!(keys(&written["autopilot"]), keys(&schema["$defs"]["AutopilotTerms"]["properties"]));
        assert_eq!(written["messages"][0]["traceparent"], "00-1-2-01");
        assert_eq!(written["messages"][0]["tracestate"], "a=\"1\"");
        assert_eq!(keys(&written["messages"][0]), keys(&schema["$defs"]["PopAnswerMessage"]["properties"]));
    }
}
