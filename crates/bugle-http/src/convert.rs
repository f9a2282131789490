//! From what clients send to what the broker takes: every field is checked here, and complaints name it by its path.

use std::borrow::Cow;
use std::sync::Arc;

use bugle_broker::{AckItem, AckStatus, LeaseToken, PushItem, Refused, check_name, check_queue};
use bugle_store::{DEFAULT_PARTITION, Group, LaneId, TraceContext};
use bugle_wire::{AckEntry, Field, List, Object, PushEntry, Raw, Text};
use bytes::Bytes;
use foldhash::HashSet;
use uuid::Uuid;

/// Deepest nesting of a payload. Readers of JSON commonly stop at this depth; a message nobody can read is refused.
const MAX_DEPTH: usize = 128;

/// Spells the path of a field, given its last part. Called only when there is something to complain about.
pub(crate) type At<'p> = &'p dyn Fn(&str) -> String;

fn invalid<T>(text: String) -> Result<T, Refused> {
    Err(Refused::Invalid(text))
}

/// An optional text field.
pub(crate) fn optional<'f>(field: &'f Text<'_>, name: &str, at: At<'_>) -> Result<Option<&'f str>, Refused> {
    match field {
        Field::Absent => Ok(None),
        Field::Is(text) => Ok(Some(text)),
        Field::Wrong => invalid(format!("{} must be a string", at(name))),
    }
}

/// The objects of a list field. A list that is absent or none at all is refused with `missing`.
pub(crate) fn objects<'f, T>(
    list: &'f List<T>,
    name: &'static str,
    missing: &str,
) -> Result<impl ExactSizeIterator<Item = (usize, Result<&'f T, Refused>)>, Refused> {
    let Field::Is(list) = list else { return invalid(missing.to_owned()) };
    Ok(list.iter().enumerate().map(move |(index, entry)| match entry {
        Field::Is(Object(entry)) => (index, Ok(entry)),
        Field::Absent | Field::Wrong => (index, invalid(format!("{name}[{index}] must be an object"))),
    }))
}

/// Checks a name and complains of a field.
type Check = fn(&str, &str) -> Result<(), Refused>;

/// Names of one request, checked and allocated once however often they occur.
#[derive(Default)]
pub(crate) struct Names {
    last: Option<Arc<str>>,
    all: HashSet<Arc<str>>,
}

impl Names {
    /// The shared form of `name`, which `check` must allow; `field` is its name in complaints.
    fn shared(&mut self, name: &str, field: &str, check: Check, at: At<'_>) -> Result<Arc<str>, Refused> {
        if let Some(last) = self.last.as_ref().filter(|last| ***last == *name) {
            return Ok(last.clone());
        }
        let shared = match self.all.get(name) {
            Some(shared) => shared.clone(),
            None => {
                check("", name).or_else(|_| check(&at(field), name))?;
                let shared: Arc<str> = name.into();
                self.all.insert(shared.clone());
                shared
            }
        };
        self.last = Some(shared.clone());
        Ok(shared)
    }
}

fn checked(name: &str, field: &str, at: At<'_>) -> Result<(), Refused> {
    check_name("", name).or_else(|_| check_name(&at(field), name))
}

/// What all messages of one request have from it.
#[derive(Clone, Default)]
pub(crate) struct Sender {
    /// Who sends them, as the server knows it; what the request says of it does not count.
    pub(crate) subject: Option<Bytes>,
    /// The trace of the request, for messages that name none of their own.
    pub(crate) context: Option<Arc<TraceContext>>,
}

/// Turns the messages of one request into items for the broker. Payloads and ids are slices of `body`.
pub(crate) struct Pushes<'a> {
    body: &'a Bytes,
    /// What is stored for a message without a payload.
    missing: &'static str,
    sender: Sender,
    queues: Names,
    partitions: Names,
}

impl<'a> Pushes<'a> {
    pub(crate) fn new(body: &'a Bytes, missing: &'static str, sender: Sender) -> Self {
        Self { body, missing, sender, queues: Names::default(), partitions: Names::default() }
    }

    /// One message.
    pub(crate) fn item(&mut self, entry: &PushEntry<'_>, at: At<'_>) -> Result<PushItem, Refused> {
        let Some(queue) = optional(&entry.queue, "queue", at)? else {
            return invalid(format!("{} is required", at("queue")));
        };
        let partition = optional(&entry.partition, "partition", at)?.unwrap_or(DEFAULT_PARTITION);
        Ok(PushItem {
            queue: self.queues.shared(queue, "queue", check_queue, at)?,
            partition: self.partitions.shared(partition, "partition", check_name, at)?,
            transaction_id: self.transaction_id(&entry.transaction_id, at)?,
            trace_id: trace_id(&entry.trace_id, at)?,
            producer_sub: self.sender.subject.clone(),
            context: own_context(entry, at)?.or_else(|| self.sender.context.clone()),
            payload: self.payload(entry.payload, at)?,
        })
    }

    fn transaction_id(&self, field: &Text<'_>, at: At<'_>) -> Result<Option<Bytes>, Refused> {
        let Some(id) = optional(field, "transactionId", at)?.filter(|id| !id.is_empty()) else {
            return Ok(None);
        };
        checked(id, "transactionId", at)?;
        Ok(Some(match field {
            Field::Is(Cow::Borrowed(id)) => self.body.slice_ref(id.as_bytes()),
            _ => Bytes::copy_from_slice(id.as_bytes()),
        }))
    }

    fn payload(&self, payload: Raw<'_>, at: At<'_>) -> Result<Bytes, Refused> {
        let sent = self::payload(self.body, payload, at)?;
        Ok(sent.unwrap_or(Bytes::from_static(self.missing.as_bytes())))
    }
}

/// A payload as it was sent in `body`, if it was.
pub(crate) fn payload(body: &Bytes, payload: Raw<'_>, at: At<'_>) -> Result<Option<Bytes>, Refused> {
    let Some(raw) = payload.0 else { return Ok(None) };
    let bytes = raw.get().as_bytes();
    if deeper_than(bytes, MAX_DEPTH) {
        return invalid(format!("{} is nested deeper than {MAX_DEPTH} levels", at("payload")));
    }
    Ok(Some(body.slice_ref(bytes)))
}

fn trace_id(field: &Text<'_>, at: At<'_>) -> Result<Option<Uuid>, Refused> {
    match optional(field, "traceId", at)? {
        None | Some("") => Ok(None),
        Some(text) => match Uuid::try_parse(text) {
            Ok(id) => Ok(Some(id)),
            Err(_) => invalid(format!("{} must be a UUID", at("traceId"))),
        },
    }
}

/// The trace that a message names itself. Other than a header's, one that is not valid is refused: it was meant for us.
fn own_context(entry: &PushEntry<'_>, at: At<'_>) -> Result<Option<Arc<TraceContext>>, Refused> {
    let parent = optional(&entry.traceparent, "traceparent", at)?.filter(|text| !text.is_empty());
    let state = optional(&entry.tracestate, "tracestate", at)?.filter(|text| !text.is_empty());
    let Some(parent) = parent else {
        return match state {
            None => Ok(None),
            Some(_) => invalid(format!("{} needs a traceparent beside it", at("tracestate"))),
        };
    };
    let Some(mut context) = TraceContext::parse(parent.as_bytes()) else {
        return invalid(format!("{} must be a W3C traceparent", at("traceparent")));
    };
    if let Some(state) = state {
        context.state = TraceContext::parse_state(state);
        if context.state.is_none() {
            return invalid(format!("{} must be a W3C tracestate", at("tracestate")));
        }
    }
    Ok(Some(Arc::new(context)))
}

/// Whether valid JSON nests deeper than `limit`. Costs nothing for short values and one count for flat ones.
fn deeper_than(json: &[u8], limit: usize) -> bool {
    let opens = |byte: &u8| matches!(byte, b'[' | b'{');
    if json.len() <= 2 * limit || json.iter().filter(|b| opens(b)).count() <= limit {
        return false;
    }
    let (mut depth, mut in_string, mut escaped) = (0usize, false, false);
    for byte in json {
        if in_string {
            in_string = escaped || *byte != b'"';
            escaped = !escaped && *byte == b'\\';
            continue;
        }
        match byte {
            b'"' => in_string = true,
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > limit {
            return true;
        }
    }
    false
}

/// The group named by `field`, or `absent`.
pub(crate) fn group(field: &Text<'_>, absent: &Group, at: At<'_>) -> Result<Group, Refused> {
    match optional(field, "consumerGroup", at)? {
        None | Some("") => Ok(absent.clone()),
        Some(name) => {
            checked(name, "consumerGroup", at)?;
            Ok(name.into())
        }
    }
}

/// One acknowledgement in the name of `group`.
pub(crate) fn ack(entry: &AckEntry<'_>, group: Group, at: At<'_>) -> Result<AckItem, Refused> {
    let Some(transaction_id) =
        optional(&entry.transaction_id, "transactionId", at)?.filter(|t| !t.is_empty())
    else {
        return invalid(format!("{} is required", at("transactionId")));
    };
    checked(transaction_id, "transactionId", at)?;
    let Some(partition_id) = optional(&entry.partition_id, "partitionId", at)?.filter(|p| !p.is_empty())
    else {
        return invalid(format!("{} is required to ensure message uniqueness", at("partitionId")));
    };
    Ok(AckItem {
        transaction_id: transaction_id.to_owned(),
        lane: Uuid::try_parse(partition_id).ok().map(LaneId),
        status: status(optional(&entry.status, "status", at)?),
        group,
        lease: optional(&entry.lease_id, "leaseId", at)?.filter(|l| !l.is_empty()).map(lease),
        error: optional(&entry.error, "error", at)?.map(str::to_owned),
    })
}

fn status(text: Option<&str>) -> AckStatus {
    match text {
        None | Some("completed" | "success" | "acked" | "ok") => AckStatus::Completed,
        Some("retry") => AckStatus::Retry,
        Some("dlq") => AckStatus::Dlq,
        Some(_) => AckStatus::Failed,
    }
}

/// A lease id as it was sent.
pub(crate) fn lease(text: &str) -> LeaseToken {
    Uuid::try_parse(text).map_or(LeaseToken::Garbage, LeaseToken::Id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bugle_wire::{PushRequest, read};

    fn items(body: &str) -> Result<Vec<PushItem>, String> {
        let body = Bytes::copy_from_slice(body.as_bytes());
        let request: PushRequest<'_> = read(&body).map_err(|e| e.to_string())?;
        let header = TraceContext { trace_id: [9; 16], parent_id: [9; 8], flags: 0, state: None };
        let sender = Sender { subject: None, context: Some(header.into()) };
        let mut pushes = Pushes::new(&body, "null", sender);
        objects(&request.items, "items", "items array is required")
            .map_err(|e| e.to_string())?
            .map(|(i, entry)| pushes.item(entry?, &|field| format!("items[{i}].{field}")))
            .collect::<Result<_, Refused>>()
            .map_err(|e| e.to_string())
    }

    #[test]
    fn bad_items_are_refused_by_the_path_of_the_field() {
        let long = "x".repeat(256);
        for (item, complaint) in [
            ("5".to_owned(), "items[1] must be an object"),
            ("null".into(), "items[1] must be an object"),
            ("{}".into(), "items[1].queue is required"),
            (r#"{"queue":5}"#.into(), "items[1].queue must be a string"),
            (r#"{"queue":""}"#.into(), "items[1].queue must not be empty"),
            (r#"{"queue":"a\u0000"}"#.into(), "items[1].queue must not contain NUL"),
            (format!(r#"{{"queue":"{long}"}}"#), "items[1].queue is longer than 255 bytes"),
            (r#"{"queue":"q","partition":[]}"#.into(), "items[1].partition must be a string"),
            (r#"{"queue":"q","partition":""}"#.into(), "items[1].partition must not be empty"),
            (r#"{"queue":"q","transactionId":1}"#.into(), "items[1].transactionId must be a string"),
            (
                format!(r#"{{"queue":"q","transactionId":"{long}"}}"#),
                "items[1].transactionId is longer than 255 bytes",
            ),
            (r#"{"queue":"q","traceId":"nope"}"#.into(), "items[1].traceId must be a UUID"),
            (r#"{"queue":"q","traceId":7}"#.into(), "items[1].traceId must be a string"),
            (r#"{"queue":"q","traceparent":7}"#.into(), "items[1].traceparent must be a string"),
            (
                r#"{"queue":"q","traceparent":"00-1"}"#.into(),
                "items[1].traceparent must be a W3C traceparent",
            ),
            (
                format!(r#"{{"queue":"q","traceparent":"{PARENT}","tracestate":"?"}}"#),
                "items[1].tracestate must be a W3C tracestate",
            ),
            (
                r#"{"queue":"q","tracestate":"a=1"}"#.into(),
                "items[1].tracestate needs a traceparent beside it",
            ),
            (
                format!(r#"{{"queue":"q","payload":{}1{}}}"#, "[".repeat(129), "]".repeat(129)),
                "items[1].payload is nested deeper than 128 levels",
            ),
        ] {
            let body = format!(r#"{{"items":[{{"queue":"fine","payload":1}},{item}]}}"#);
            assert_eq!(items(&body).unwrap_err(), complaint, "{item}");
        }
        for body in ["{}", r#"{"items":null}"#, r#"{"items":{}}"#, r#"{"items":"x"}"#] {
            assert_eq!(items(body).unwrap_err(), "items array is required", "{body}");
        }
        assert!(items("[]").unwrap_err().contains("must be a JSON object"));
        assert!(items(r#"{"items":[}"#).unwrap_err().starts_with("Invalid JSON"));
    }

    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn a_message_has_its_own_trace_or_that_of_the_request() {
        let own = format!(r#""traceparent":"{PARENT}","tracestate":" a=1, b=2""#);
        let seen = items(&format!(
            r#"{{"items":[{{"queue":"q",{own}}},{{"queue":"q","traceparent":"","tracestate":null}},{{"queue":"q"}}]}}"#
        ))
        .unwrap();
        let told =
            |item: &PushItem| item.context.as_ref().map(|context| (context.text(), context.state.clone()));
        assert_eq!(told(&seen[0]), Some((PARENT.into(), Some("a=1,b=2".into()))));
        let header = Some(("00-09090909090909090909090909090909-0909090909090909-00".to_owned(), None));
        assert_eq!((told(&seen[1]), told(&seen[2])), (header.clone(), header));
    }

    #[test]
    fn absent_and_null_take_the_defaults() {
        let seen =
            items(r#"{"items":[{"queue":"q","partition":null,"transactionId":"","traceId":null}]}"#).unwrap();
        assert_eq!(&*seen[0].partition, "Default");
        assert_eq!(seen[0].transaction_id, None);
        assert_eq!(seen[0].trace_id, None);
        assert_eq!(&seen[0].payload[..], b"null");
    }

    #[test]
    fn repeated_names_are_shared_and_payloads_are_slices() {
        let seen = items(
            r#"{"items":[{"queue":"a","payload":{"x": 1.0}},{"queue":"b","payload":2},{"queue":"a","transactionId":"t\t1"}]}"#,
        )
        .unwrap();
        assert!(Arc::ptr_eq(&seen[0].queue, &seen[2].queue));
        assert!(Arc::ptr_eq(&seen[0].partition, &seen[1].partition));
        assert_eq!(&seen[0].payload[..], br#"{"x": 1.0}"#);
        assert_eq!(seen[2].transaction_id.as_deref(), Some(&b"t\t1"[..]));
    }

    #[test]
    fn depth_counts_only_brackets_outside_strings() {
        let nested = |n: usize| format!("{}{}", "[".repeat(n), "]".repeat(n)).into_bytes();
        assert!(!deeper_than(&nested(128), 128));
        assert!(deeper_than(&nested(129), 128));
        let quoted = format!(r#"["{}","\\\"[[["]"#, "[".repeat(400)).into_bytes();
        assert!(!deeper_than(&quoted, 128));
        let flat = format!("[{}[]]", "[],".repeat(300)).into_bytes();
        assert!(!deeper_than(&flat, 128));
    }

    #[test]
    fn ack_statuses_are_normalised() {
        for (text, expected) in [
            (None, AckStatus::Completed),
            (Some("completed"), AckStatus::Completed),
            (Some("success"), AckStatus::Completed),
            (Some("acked"), AckStatus::Completed),
            (Some("ok"), AckStatus::Completed),
            (Some("retry"), AckStatus::Retry),
            (Some("dlq"), AckStatus::Dlq),
            (Some("failed"), AckStatus::Failed),
            (Some("anything"), AckStatus::Failed),
        ] {
            assert_eq!(status(text), expected, "{text:?}");
        }
    }

    #[test]
    fn an_ack_without_ids_is_refused_and_a_strange_lane_is_not() {
        let at = |field: &str| format!("acknowledgments[2].{field}");
        let parse = |json: &str| {
            let entry: AckEntry<'_> = read(json.as_bytes()).unwrap();
            ack(&entry, "g".into(), &at)
        };
        assert_eq!(
            parse(r#"{"partitionId":"x"}"#).unwrap_err().to_string(),
            "acknowledgments[2].transactionId is required"
        );
        assert_eq!(
            parse(r#"{"transactionId":"t","partitionId":null}"#).unwrap_err().to_string(),
            "acknowledgments[2].partitionId is required to ensure message uniqueness"
        );
        let item = parse(r#"{"transactionId":"t","partitionId":"x","leaseId":"y","error":null}"#).unwrap();
        assert_eq!((item.lane, item.lease, item.error), (None, Some(LeaseToken::Garbage), None));
        assert_eq!(parse(r#"{"transactionId":"t","partitionId":"x","leaseId":""}"#).unwrap().lease, None);
    }
}
