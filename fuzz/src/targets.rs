//! The list of targets, and those of them that need nothing but public functions.

use bugle_pg::Escape;
use bugle_store::{Codec, Message, NewSegment, Segment, Timestamp, TraceContext, pack, unpack};
use bytes::Bytes;
use uuid::Uuid;

/// Something that reads bytes which somebody else wrote.
pub struct Target {
    /// Its name, and that of its folder in `corpus/`.
    pub name: &'static str,
    /// Reads, and panics if something is wrong with how.
    pub run: fn(&[u8]),
    /// Inputs as a healthy system has them; mutation begins with them.
    pub samples: fn() -> Vec<Vec<u8>>,
}

/// All of them.
pub const TARGETS: &[Target] = &[
    Target { name: "push_body", run: bugle_http::fuzz::push_body, samples: pushes },
    Target { name: "other_bodies", run: bugle_http::fuzz::other_bodies, samples: bodies },
    Target { name: "pop_uri", run: pop_uri, samples: uris },
    Target { name: "datagram", run: bugle_broker::fuzz::datagram, samples: datagrams },
    Target { name: "notify_payload", run: notify_payload, samples: notifications },
    Target { name: "segment", run: segment, samples: segments },
    Target { name: "log_record", run: log_record, samples: || stored(&["ops", "frame", "record"]) },
    Target { name: "log_file", run: bugle_store_embedded::fuzz::log, samples: || stored(&["log"]) },
    Target {
        name: "checkpoint",
        run: bugle_store_embedded::fuzz::checkpoint,
        samples: || stored(&["checkpoint"]),
    },
    Target { name: "index", run: bugle_store_embedded::fuzz::index, samples: || stored(&["index"]) },
    Target { name: "spool", run: spool, samples: bugle_spool::fuzz::samples },
    Target { name: "envelope", run: bugle_broker::fuzz::envelope, samples: envelopes },
    Target { name: "escape", run: escape, samples: texts },
];

/// The target of this name.
pub fn target(name: &str) -> &'static Target {
    TARGETS.iter().find(|target| target.name == name).unwrap_or_else(|| panic!("there is no target {name}"))
}

fn texts_of(texts: &[&str]) -> Vec<Vec<u8>> {
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}

fn pushes() -> Vec<Vec<u8>> {
    texts_of(&[
        r#"{"items":[{"queue":"q","payload":{"a":[1,2.5e3,null,true,"\u00e9\n"]}}]}"#,
        r#"{"items":[{"queue":"orders","partition":"p-1","payload":"x","transactionId":"t-1","traceId":"5c9b7ba2-53c9-4f2f-8d0a-111111111111"},{"queue":"q"}]}"#,
        r#"{"items":[]}"#,
        r#"{"unknown":{"deep":[[[[]]]]},"items":[{"queue":"q","payload":-0.0e-400,"producerSub":"me"}]}"#,
        r#"{"items":[{"queue":"q","payload":{"a":1,"a":2}},null,7]}"#,
        r#"{"items":[{"queue":"q","payload":1,"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01","tracestate":"a=1,b@c=2"},{"queue":"q","traceparent":null}]}"#,
    ])
}

fn bodies() -> Vec<Vec<u8>> {
    texts_of(&[
        r#"{"transactionId":"t","partitionId":"00000000-0000-0000-0000-000000000002","status":"completed","consumerGroup":"g","leaseId":"l"}"#,
        r#"{"consumerGroup":"g","acknowledgments":[{"transactionId":"t","partitionId":"p","status":"retry","error":"x"}]}"#,
        r#"{"operations":[{"type":"push","items":[{"queue":"a","payload":1}]},{"type":"push","queue":"c","data":[3]},{"type":"ack","transactionId":"t","partitionId":"p"}],"requiredLeases":["x",null],"kv":[],"timers":null}"#,
        r#"{"queue":"q","namespace":"n","task":null,"mode":"merge","leaseTime":1,"options":{"leaseTime":9,"ttl":2.0,"encryptionEnabled":true}}"#,
    ])
}

fn uris() -> Vec<Vec<u8>> {
    texts_of(&[
        "/api/v1/pop/queue/orders?batch=10&wait=true&timeout=30000&consumerGroup=work%20ers&autoAck=1",
        "/api/v1/pop/queue/a%2Fb/partition/%C3%BC+?leaseSeconds=60&subscriptionMode=new&partitions=-1",
        "/api/v1/pop?namespace=n&task=t&conflation=true&consumerGroup=g",
        "http://localhost:6632/api/v1/pop?task=%00&batch=99999999999999999999",
    ])
}

fn pop_uri(bytes: &[u8]) {
    if let Ok(text) = std::str::from_utf8(bytes) {
        bugle_http::fuzz::pop_uri(text);
    }
}

fn datagrams() -> Vec<Vec<u8>> {
    let frames = bugle_wake::fuzz::samples(&bugle_broker::fuzz::sample_hints());
    // The first byte says how late it comes.
    frames.into_iter().map(|frame| [vec![0], frame].concat()).collect()
}

fn notifications() -> Vec<Vec<u8>> {
    let frames = bugle_wake::fuzz::samples(&bugle_broker::fuzz::sample_hints());
    let mut all: Vec<_> = frames.iter().map(|frame| bugle_wake::fuzz::payload(frame).into_bytes()).collect();
    all.push(bugle_broker::fuzz::sample_hints());
    all
}

fn notify_payload(bytes: &[u8]) {
    bugle_broker::fuzz::hints(bytes);
    if let Ok(text) = std::str::from_utf8(bytes) {
        bugle_broker::fuzz::notification(text);
    }
    // The payload itself is rarely base64 after a mutation; its content must be reached all the same.
    bugle_broker::fuzz::notification(&bugle_wake::fuzz::payload(bytes));
}

fn segments() -> Vec<Vec<u8>> {
    let message = |trace: bool, producer: bool| Message {
        id: Uuid::from_u128(7),
        transaction_id: Bytes::from_static("tx-é".as_bytes()),
        trace_id: trace.then(|| Uuid::from_u128(8)),
        producer_sub: producer.then(|| Bytes::from_static(b"svc")),
        context: None,
        encrypted: trace,
        payload: Bytes::from_static(br#"{"a": 1.0, "a": 2}"#),
    };
    let traced = |state: Option<&'static str>| {
        let context =
            TraceContext { trace_id: [4; 16], parent_id: [7; 8], flags: 1, state: state.map(Bytes::from) };
        Message { context: Some(context.into()), ..message(true, true) }
    };
    let of = |messages: &[Message]| {
        let segment = NewSegment::build(1, messages);
        [&segment.count().to_be_bytes()[..], &segment.body].concat()
    };
    let packed = |codec: Codec, payload: usize| {
        let payload = Bytes::from(vec![b'1'; payload]);
        let all = [message(true, false), traced(None), Message { payload, ..message(false, true) }];
        let packed = pack(codec, &NewSegment::build(1, &all).body).unwrap_or_default();
        [&3u32.to_be_bytes()[..], &packed].concat()
    };
    vec![
        of(&[message(false, false)]),
        of(&[message(true, true), message(false, true)]),
        of(&[traced(None), traced(Some("a=1"))]),
        packed(Codec::Lz4, 7),
        packed(Codec::Zstd, 7),
        // These are filled up.
        packed(Codec::Lz4, 100_000),
        packed(Codec::Zstd, 100_000),
    ]
}

/// The body of a segment, as both engines keep it; the number of messages, which is kept beside it, comes first.
fn segment(bytes: &[u8]) {
    let Some((count, body)) = bytes.split_first_chunk() else { return };
    let of = |body: Bytes| Segment {
        base: 5,
        count: u32::from_be_bytes(*count),
        created_at: Timestamp(1),
        id: 1,
        body,
    };
    let as_it_is = of(Bytes::copy_from_slice(body));
    if as_it_is.is_packed() {
        // A compressed one is refused by its checksum. With one that is right, its codec sees what came.
        let sum = xxhash_rust::xxh3::xxh3_64(&body[8..]).to_le_bytes();
        segment_of(of([&sum, &body[8..]].concat().into()));
    }
    segment_of(as_it_is);
}

fn segment_of(segment: Segment) {
    let (base, count) = (segment.base, segment.count);
    // Parts are found by lengths alone: they must end where decoding ends, and stumble over nothing.
    let last = base + u64::from(count);
    let parts = [base + 1, base + u64::from(count) / 2, last].map(|from| (from, segment.between(from, last)));
    let Ok(messages) = segment.messages() else { return };
    let Ok(plain) = unpack(&segment.body) else { panic!("it was read") };
    assert_eq!(plain.len(), segment.plain_len());
    assert_eq!(messages.len(), count as usize);
    for (from, part) in parts {
        let passed = messages.len().min((from - base) as usize);
        assert_eq!(part.as_deref(), Ok(&messages[passed..]));
    }
    let mut again = Vec::new();
    for message in &messages {
        message.encode(&mut again);
        let _ = (message.transaction(), message.producer());
        assert_eq!(message.detached(), *message);
    }
    assert_eq!(again, plain);
}

fn stored(kinds: &[&str]) -> Vec<Vec<u8>> {
    let mut all = bugle_store_embedded::fuzz::samples();
    kinds.iter().flat_map(|kind| all.remove(kind).unwrap_or_default()).collect()
}

fn log_record(bytes: &[u8]) {
    bugle_store_embedded::fuzz::ops(bytes);
    bugle_store_embedded::fuzz::frame(bytes);
    bugle_store_embedded::fuzz::record(bytes);
}

fn spool(bytes: &[u8]) {
    bugle_spool::fuzz::group(bytes);
    bugle_spool::fuzz::heads(bytes);
}

fn envelopes() -> Vec<Vec<u8>> {
    vec![bugle_broker::fuzz::sealed(br#"{"card":"4111"}"#), bugle_broker::fuzz::sealed(b"")]
}

fn texts() -> Vec<Vec<u8>> {
    texts_of(&["plain", "a\0b", "\u{E000}0\0\u{E000}", "\u{1}0\u{1}\u{1}"])
}

/// Text in a database that cannot hold U+0000: the store's escape, and the one of the duroxide provider.
fn escape(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    for character in ['\u{E000}', '\u{1}'] {
        let escape = Escape::new(character);
        let kept = escape.kept(text);
        assert!(!kept.contains('\0'));
        assert_eq!(escape.given(&kept), text);
        // What stands in the table may have been put there by anybody.
        let given = escape.given(text);
        assert!(given.len() <= text.len());
    }
}
