//! A server that keeps its messages in memory, speaks just enough of the protocol, and breaks one promise on request.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::{Duration, Instant};

/// The promise to break, mostly at message number 5 of lane `p1`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    Lose,
    LoseLast,
    StoreTwice,
    Reorder,
    Corrupt,
    WrongLane,
    WrongId,
    /// The ack is confirmed, the cursor stays where it was.
    ForgetAck,
    /// The ack is refused with 503 and its lease ends at once, as after a crash.
    FailAck,
    PushStatus200,
    /// Every push is answered with 429.
    RefusePushes,
    NoLeaseId,
    /// Connections that begin with HTTP/2 are closed.
    NoHttp2,
}

/// Streams allowed on one HTTP/2 connection.
pub(crate) const MAX_STREAMS: u32 = 4;

/// The group of consumers that name none.
const QUEUE_MODE: &str = "__QUEUE_MODE__";

#[derive(Clone)]
struct Message {
    transaction: Value,
    payload: Value,
}

#[derive(Default, Clone)]
struct Cursor {
    committed: usize,
    lease: Option<(String, usize)>,
}

#[derive(Default)]
struct Queue {
    namespace: String,
    lanes: BTreeMap<String, Vec<Message>>,
    cursors: HashMap<(String, String), Cursor>,
}

pub(crate) struct Server {
    fault: Fault,
    /// Changes with every push, for those who wait.
    pushes: watch::Sender<u64>,
    waiting: u64,
    most_waiting: u64,
    queues: HashMap<String, Queue>,
    leases: u64,
    ids: u64,
    fault_used: bool,
}

/// Starts a server and returns its address and state.
pub(crate) async fn start(fault: Fault) -> (String, Arc<Mutex<Server>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let server = Server {
        fault,
        pushes: watch::Sender::new(0),
        waiting: 0,
        most_waiting: 0,
        queues: HashMap::new(),
        leases: 0,
        ids: 0,
        fault_used: false,
    };
    let state = Arc::new(Mutex::new(server));
    let shared = Arc::clone(&state);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream, Arc::clone(&shared)));
        }
    });
    (url, state)
}

async fn serve(stream: TcpStream, state: Arc<Mutex<Server>>) {
    // HTTP/2 begins with "PRI"; clients write it, as every head, in one piece.
    let mut start = [0; 3];
    if stream.peek(&mut start).await.unwrap_or(0) == 3 && &start == b"PRI" {
        return serve_h2(stream, state).await;
    }
    let mut stream = BufReader::new(stream);
    loop {
        let (mut request, mut length) = (String::new(), 0usize);
        loop {
            let mut line = String::new();
            if stream.read_line(&mut line).await.unwrap_or(0) == 0 {
                return;
            }
            if line == "\r\n" {
                break;
            }
            if let Some(value) = line.strip_prefix("Content-Length: ") {
                length = value.trim().parse().unwrap();
            }
            if request.is_empty() {
                request = line;
            }
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await.unwrap();
        let path = request.split(' ').nth(1).unwrap().to_owned();
        // A client that leaves while it waits is noticed, as it must be by a real server.
        let (status, answer) = tokio::select! {
            answer = respond(&state, &path, &body) => answer,
            _ = stream.fill_buf() => return,
        };
        let text = text(status, answer);
        let head = format!("HTTP/1.1 {status} X\r\nContent-Length: {}\r\n\r\n", text.len());
        if stream.get_mut().write_all((head + &text).as_bytes()).await.is_err() {
            return;
        }
    }
}

async fn serve_h2(stream: TcpStream, state: Arc<Mutex<Server>>) {
    if state.lock().unwrap().fault == Fault::NoHttp2 {
        return;
    }
    let mut builder = h2::server::Builder::new();
    let mut connection = builder.max_concurrent_streams(MAX_STREAMS).handshake(stream).await.unwrap();
    while let Some(Ok((request, mut answering))) = connection.accept().await {
        let state = Arc::clone(&state);
        tokio::spawn(async move {
            let path = request.uri().path_and_query().unwrap().to_string();
            let (mut body, mut incoming) = (Vec::new(), request.into_body());
            while let Some(Ok(piece)) = incoming.data().await {
                body.extend_from_slice(&piece);
            }
            let (status, answer) = tokio::select! {
                answer = respond(&state, &path, &body) => answer,
                _ = std::future::poll_fn(|context| answering.poll_reset(context)) => return,
            };
            let text = text(status, answer);
            let head = http::Response::builder().status(status).body(()).unwrap();
            // The client may be gone, which is its right.
            if let Ok(mut out) = answering.send_response(head, text.is_empty()) {
                let _ = if text.is_empty() { Ok(()) } else { out.send_data(Bytes::from(text), true) };
            }
        });
    }
}

fn text(status: u16, answer: Value) -> String {
    match (status, answer) {
        (204, _) => String::new(),
        (_, Value::String(page)) => page,
        (_, answer) => answer.to_string(),
    }
}

/// Counts a waiting pop for as long as it waits.
struct Waiting<'s>(&'s Mutex<Server>);

impl<'s> Waiting<'s> {
    fn new(state: &'s Mutex<Server>) -> Self {
        let mut server = state.lock().unwrap();
        server.waiting += 1;
        server.most_waiting = server.most_waiting.max(server.waiting);
        Self(state)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.lock().unwrap().waiting -= 1;
    }
}

/// Answers a request; a pop with `wait=true` that finds nothing tries again after each push until its timeout.
async fn respond(state: &Mutex<Server>, path: &str, body: &[u8]) -> (u16, Value) {
    let mut pushes = state.lock().unwrap().pushes.subscribe();
    let timeout = path.split_once("wait=true&timeout=").map(|(_, rest)| {
        let digits = rest.split('&').next().unwrap().parse().unwrap();
        Duration::from_millis(digits)
    });
    let deadline = Instant::now() + timeout.unwrap_or_default();
    let _waiting = timeout.map(|_| Waiting::new(state));
    loop {
        pushes.mark_unchanged();
        let answer = state.lock().unwrap().handle(path, body);
        if answer.0 != 204 || timeout.is_none() {
            return answer;
        }
        if tokio::time::timeout_at(deadline, pushes.changed()).await.is_err() {
            return answer;
        }
    }
}

impl Server {
    /// The most pops that ever waited at once.
    pub(crate) fn most_waiting(&self) -> u64 {
        self.most_waiting
    }

    /// Messages stored in each lane of a queue.
    pub(crate) fn lane_sizes(&self, queue: &str) -> Vec<usize> {
        self.queues[queue].lanes.values().map(Vec::len).collect()
    }

    fn handle(&mut self, path: &str, body: &[u8]) -> (u16, Value) {
        let (route, query) = path.split_once('?').unwrap_or((path, ""));
        let query: HashMap<&str, &str> = query.split('&').filter_map(|p| p.split_once('=')).collect();
        if route == "/metrics/prometheus" {
            return (200, Value::String(format!("bugle_waiters {}\n", self.waiting)));
        }
        let parts: Vec<&str> = route.split('/').skip(3).collect();
        let json = || serde_json::from_slice::<Value>(body).expect("request bodies are JSON");
        match parts.as_slice() {
            ["configure"] => self.configure(&json()),
            ["push"] => self.push(&json()),
            ["ack", "batch"] => self.ack(&json()),
            ["ack"] => self.ack(&json!({"acknowledgments": [json()]})),
            ["transaction"] => self.transaction(&json()),
            ["pop"] => {
                let found = self.queues.iter().find(|(_, q)| q.namespace == query["namespace"]);
                let name = found.map(|(name, _)| name.clone()).unwrap_or_default();
                self.pop(&name, None, &query)
            }
            ["pop", "queue", queue] => self.pop(queue, None, &query),
            ["pop", "queue", queue, "partition", lane] => self.pop(queue, Some(lane), &query),
            _ => (404, json!({"error": "Not Found"})),
        }
    }

    fn configure(&mut self, body: &Value) -> (u16, Value) {
        let queue = self.queues.entry(body["queue"].as_str().unwrap().to_owned()).or_default();
        queue.namespace = body["namespace"].as_str().unwrap_or_default().to_owned();
        (200, json!({"configured": true}))
    }

    fn push(&mut self, body: &Value) -> (u16, Value) {
        if self.fault == Fault::RefusePushes {
            return (429, json!({"error": "too much to do"}));
        }
        let mut results = Vec::new();
        for (index, item) in body["items"].as_array().unwrap().iter().enumerate() {
            self.store(item);
            self.pushes.send_modify(|count| *count += 1);
            results.push(json!({"index": index, "transaction_id": item["transactionId"], "status": "queued",
                "message_id": "m", "partition_id": item["partition"], "trace_id": null, "queueName": item["queue"]}));
        }
        (if self.fault == Fault::PushStatus200 { 200 } else { 201 }, Value::Array(results))
    }

    fn store(&mut self, item: &Value) {
        let fault = self.fault;
        let text = |key: &str| item[key].as_str().unwrap().to_owned();
        let queue = self.queues.entry(text("queue")).or_default();
        self.ids += 1;
        // A producer may leave the id to the server.
        let transaction = item["transactionId"].as_str().map_or(format!("t{}", self.ids), str::to_owned);
        let mut message = Message { transaction: transaction.into(), payload: item["payload"].clone() };
        let (lane_name, number) = (text("partition"), item["payload"]["n"].as_u64().unwrap_or(u64::MAX));
        let chosen = lane_name == "p1" && number == 5;
        if chosen {
            match fault {
                Fault::Lose => return,
                Fault::Corrupt => message.payload["p"] = json!("damaged"),
                Fault::WrongId => message.transaction = json!("0190163d-8694-739b-aea5-966c26f8ad91"),
                Fault::WrongLane => return queue.lanes.entry("p0".to_owned()).or_default().push(message),
                _ => {}
            }
        }
        let lane = queue.lanes.entry(lane_name.clone()).or_default();
        if fault == Fault::LoseLast && lane_name == "p1" && number == 99 {
            return;
        }
        if fault == Fault::Reorder && lane_name == "p1" && number == 6 {
            return lane.insert(5, message);
        }
        lane.push(message.clone());
        if chosen && fault == Fault::StoreTwice {
            lane.push(message);
        }
    }

    fn pop(&mut self, queue: &str, lane: Option<&str>, query: &HashMap<&str, &str>) -> (u16, Value) {
        let group = (*query.get("consumerGroup").unwrap_or(&QUEUE_MODE)).to_owned();
        // A group that begins now does so in the lanes there are.
        let from_now = *query.get("subscriptionMode").unwrap_or(&"all") == "new";
        let auto_ack = query.get("autoAck") == Some(&"true");
        let (mut room, mut claims): (usize, usize) =
            (query["batch"].parse().unwrap(), query.get("partitions").map_or(1, |p| p.parse().unwrap()));
        self.leases += 1;
        let lease = format!("lease-{}", self.leases);
        let Some(queue) = self.queues.get_mut(queue) else { return (204, Value::Null) };
        let mut messages = Vec::new();
        for (name, log) in queue.lanes.iter().filter(|(name, _)| lane.is_none_or(|l| l == *name)) {
            let begin = Cursor { committed: if from_now { log.len() } else { 0 }, lease: None };
            let cursor = queue.cursors.entry((group.clone(), name.clone())).or_insert(begin);
            if cursor.lease.is_some() || cursor.committed == log.len() || claims == 0 || room == 0 {
                continue;
            }
            let end = log.len().min(cursor.committed + room);
            room -= end - cursor.committed;
            claims -= 1;
            for message in &log[cursor.committed..end] {
                let lease_id = if auto_ack || self.fault == Fault::NoLeaseId { "" } else { &lease };
                messages.push(json!({"id": "m", "transactionId": message.transaction, "traceId": null,
                    "data": message.payload, "createdAt": "x", "partitionId": format!("id-{name}"),
                    "partition": name, "leaseId": lease_id, "consumerGroup": group}));
            }
            if auto_ack {
                cursor.committed = end;
            } else {
                cursor.lease = Some((lease.clone(), end));
            }
        }
        if messages.is_empty() {
            return (204, Value::Null);
        }
        (200, json!({"success": true, "queue": "q", "leaseId": lease, "messages": messages}))
    }

    fn ack(&mut self, body: &Value) -> (u16, Value) {
        let group = body["consumerGroup"].as_str().unwrap_or(QUEUE_MODE);
        let faulty = matches!(self.fault, Fault::ForgetAck | Fault::FailAck) && !self.fault_used;
        self.fault_used |= faulty;
        let mut results = Vec::new();
        for item in body["acknowledgments"].as_array().unwrap() {
            assert_eq!(item["status"], "completed");
            let lane = item["partitionId"].as_str().unwrap().strip_prefix("id-").unwrap();
            let lease = item["leaseId"].as_str().unwrap();
            let success =
                self.queues.values_mut().any(|queue| commit(queue, group, lane, lease, item, faulty));
            results.push(json!({"index": 0, "transactionId": item["transactionId"], "success": success,
                "error": null, "leaseReleased": null, "dlq": false}));
        }
        if faulty && self.fault == Fault::FailAck {
            return (503, json!({"error": "try again"}));
        }
        (200, Value::Array(results))
    }
}

impl Server {
    fn transaction(&mut self, body: &Value) -> (u16, Value) {
        let operations = body["operations"].as_array().unwrap();
        let (acks, pushes): (Vec<&Value>, Vec<&Value>) = operations.iter().partition(|o| o["type"] == "ack");
        let (_, results) = self.ack(&json!({ "acknowledgments": acks }));
        for push in pushes {
            self.push(push);
        }
        (200, json!({"success": results.as_array().unwrap().iter().all(|r| r["success"] == true)}))
    }
}

/// Moves the cursor to the named message if the lease is the current one.
fn commit(queue: &mut Queue, group: &str, lane: &str, lease: &str, item: &Value, faulty: bool) -> bool {
    let Some(cursor) = queue.cursors.get_mut(&(group.to_owned(), lane.to_owned())) else { return false };
    if faulty {
        cursor.lease = None;
        return true;
    }
    let Some((held, end)) = cursor.lease.clone() else { return false };
    let range = &queue.lanes[lane][cursor.committed..end];
    let Some(place) = range.iter().position(|m| m.transaction == item["transactionId"]) else { return false };
    if held != lease {
        return false;
    }
    cursor.committed += place + 1;
    if cursor.committed == end {
        cursor.lease = None;
    }
    true
}
