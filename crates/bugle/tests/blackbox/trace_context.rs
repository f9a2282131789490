//! The W3C trace context of messages: taken, kept, handed on, whether anything is sent to a collector or not.

use serde_json::{Value, json};

use crate::common::{Client, command};
use crate::maintenance::{PUSHES, drained, switch};

pub(crate) const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
pub(crate) const HEADER: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const OWN: &str = "00-11111111111111111111111111111111-2222222222222222-00";

pub(crate) async fn push_with(server: &Client, headers: &[(&str, &str)], items: Value) -> Value {
    let body = json!({ "items": items }).to_string();
    server.send_with("POST", "/api/v1/push", headers, body).await.expect(201)
}

/// `traceparent` and `tracestate` of the messages of an answer.
fn contexts(answer: &Value) -> Vec<(Value, Value)> {
    let messages = answer["messages"].as_array().unwrap();
    messages.iter().map(|message| (message["traceparent"].clone(), message["tracestate"].clone())).collect()
}

fn context(parent: &str) -> (Value, Value) {
    (json!(parent), Value::Null)
}

const NONE: (Value, Value) = (Value::Null, Value::Null);

fn acks(popped: &Value, status: &str) -> Vec<Value> {
    let ack = |m: &Value| json!({"type": "ack", "transactionId": m["transactionId"], "partitionId": m["partitionId"], "leaseId": m["leaseId"], "status": status, "consumerGroup": popped["consumerGroup"]});
    popped["messages"].as_array().unwrap().iter().map(ack).collect()
}

on_every_engine! {
    async fn a_message_has_its_own_context_or_that_of_the_push_and_keeps_it_over_a_restart(on: On) {
        let server = on.start().await;
        let headers = [("traceparent", HEADER), ("tracestate", "a=1"), ("tracestate", "b=2")];
        let items = json!([
            {"queue": "q", "payload": 1},
            {"queue": "q", "payload": 2, "traceparent": OWN},
            {"queue": "q", "payload": 3, "traceparent": OWN, "tracestate": "c=3"},
        ]);
        push_with(&server, &headers, items).await;
        push_with(&server, &[("traceparent", "00-nonsense-01")], json!([{"queue": "q", "payload": 4}])).await;
        push_with(&server, &[], json!([{"queue": "q", "payload": 5, "traceparent": null, "tracestate": ""}])).await;
        let wanted = [
            (json!(HEADER), json!("a=1,b=2")),
            context(OWN),
            (json!(OWN), json!("c=3")),
            NONE,
            NONE,
        ];
        let popped = server.pop_some("/queue/q?batch=10&consumerGroup=before").await;
        assert_eq!(contexts(&popped), wanted);
        assert!(popped["messages"][4].get("traceparent").is_none(), "only where there is one");
        assert!(server.terminate().await.success());

        let server = on.start().await;
        let popped = server.pop_some("/queue/q?batch=10&consumerGroup=after").await;
        assert_eq!(contexts(&popped), wanted);
        let mut listed = contexts(&server.get("/api/v1/messages?queue=q").await.expect(200));
        listed.reverse();
        assert_eq!(listed, wanted);
        let message = &popped["messages"][2];
        let path = format!("/api/v1/messages/{}/{}", message["partitionId"].as_str().unwrap(), message["transactionId"].as_str().unwrap());
        let full = server.get(&path).await.expect(200);
        assert_eq!((&full["traceparent"], &full["tracestate"]), (&json!(OWN), &json!("c=3")));
    }

    async fn a_message_whose_own_context_is_wrong_is_refused_by_the_name_of_the_field(on: On) {
        let server = on.start().await;
        for (item, complaint) in [
            (json!({"traceparent": "00-0-0-01"}), "items[1].traceparent must be a W3C traceparent"),
            (json!({"traceparent": 7}), "items[1].traceparent must be a string"),
            (json!({"traceparent": OWN, "tracestate": "=?"}), "items[1].tracestate must be a W3C tracestate"),
            (json!({"tracestate": "a=1"}), "items[1].tracestate needs a traceparent beside it"),
        ] {
            let mut item = item;
            item["queue"] = json!("q");
            let body = json!({"items": [{"queue": "q", "payload": 1}, item]});
            let refused = server.post("/api/v1/push", body).await;
            assert_eq!((refused.status, refused.error().as_str()), (400, complaint));
        }
        assert_eq!(server.pop("/queue/q").await, None, "nothing of it was stored");
    }

    async fn retries_dead_letters_and_redrives_keep_it(on: On) {
        let server = on.start().await;
        push_with(&server, &[], json!([{"queue": "q", "transactionId": "1", "payload": 1, "traceparent": OWN, "tracestate": "a=1"}])).await;
        let wanted = [(json!(OWN), json!("a=1"))];
        let popped = server.pop_some("/queue/q").await;
        server.ack_all(&popped, "retry").await;
        let popped = server.pop_some("/queue/q").await;
        assert_eq!(contexts(&popped), wanted);
        server.ack_all(&popped, "dlq").await;
        let letters = server.get("/api/v1/dlq?queue=q").await.expect(200);
        assert_eq!(contexts(&letters), wanted);
        server.post("/api/v1/dlq/redrive", json!({"filter": {"queue": "q"}, "destination": {"queue": "other"}})).await.expect(200);
        assert_eq!(contexts(&server.pop_some("/queue/other").await), wanted);
    }

    async fn what_waits_for_the_end_of_maintenance_keeps_it(on: On) {
        let server = on.start().await;
        switch(&server, PUSHES, true).await;
        let pushed = push_with(&server, &[("traceparent", HEADER)], json!([{"queue": "q", "payload": 1}])).await;
        assert_eq!(pushed[0]["status"], "buffered");
        switch(&server, PUSHES, false).await;
        drained(&server).await;
        assert_eq!(contexts(&server.pop_some("/queue/q").await), [context(HEADER)]);
    }

    async fn pushes_of_a_transaction_follow_from_what_it_acknowledges(on: On) {
        let server = on.start().await;
        push_with(&server, &[], json!([{"queue": "in", "payload": 0}])).await;
        push_with(&server, &[("traceparent", HEADER), ("tracestate", "a=1")], json!([{"queue": "in", "payload": 1}, {"queue": "in", "payload": 2}])).await;
        let popped = server.pop_some("/queue/in?batch=2").await;
        let mut operations = acks(&popped, "completed");
        operations.push(json!({"type": "push", "items": [{"queue": "out", "payload": 1}, {"queue": "out", "payload": 2, "traceparent": OWN}]}));
        operations.push(json!({"type": "push", "queue": "out", "payload": 3, "traceparent": OWN, "tracestate": "b=2"}));
        let done = server.post("/api/v1/transaction", json!({"operations": operations})).await.expect(200);
        assert_eq!(done["success"], true, "{done}");
        let wanted = [(json!(HEADER), json!("a=1")), context(OWN), (json!(OWN), json!("b=2"))];
        assert_eq!(contexts(&server.pop_some("/queue/out?batch=10&consumerGroup=g").await), wanted);

        // The request's own context goes before what it acknowledges.
        let popped = server.pop_some("/queue/in").await;
        let mut operations = acks(&popped, "completed");
        operations.push(json!({"type": "push", "queue": "again", "payload": 1}));
        let body = json!({"operations": operations}).to_string();
        let done = server.send_with("POST", "/api/v1/transaction", &[("traceparent", OWN)], body).await.expect(200);
        assert_eq!(done["success"], true, "{done}");
        assert_eq!(contexts(&server.pop_some("/queue/again").await), [context(OWN)]);
    }

    async fn log_lines_of_a_request_say_which_trace_it_belongs_to(on: On) {
        let log = on.dir().join("log");
        let mut process = command(on.dir())
            .args(["serve", "--listen=127.0.0.1:0", "--log-format=json", "--access-log"])
            .args(on.flags())
            .stderr(std::fs::File::create(&log).unwrap())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut greeting = String::new();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(process.stdout.take().unwrap()), &mut greeting).unwrap();
        let address = greeting.trim().rsplit("://").next().unwrap().parse().unwrap();
        let server = Client::new(address);
        push_with(&server, &[("traceparent", HEADER)], json!([{"queue": "q", "payload": 1}])).await;
        server.push_ids("q", "p", &["without"]).await;
        process.kill().unwrap();
        process.wait().unwrap();
        let text = std::fs::read_to_string(&log).unwrap();
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let pushes: Vec<&Value> = lines.iter().filter(|line| line["path"] == "/api/v1/push").collect();
        assert_eq!((&pushes[0]["trace_id"], &pushes[0]["span_id"]), (&json!(TRACE), &json!("00f067aa0ba902b7")));
        assert!(pushes[1].get("trace_id").is_none(), "{}", pushes[1]);
    }
}
