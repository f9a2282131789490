//! Spans and metrics, sent to a collector.

use std::time::{Duration, Instant};

use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value as Number;
use opentelemetry_proto::tonic::trace::v1::Span;
use serde_json::json;
use tokio::net::TcpListener;

use crate::common::{Collector, On, Server, until_true};
use crate::trace_context::{HEADER, TRACE, push_with};

async fn traced(on: &On, collector: &Collector, more: &[&str]) -> Server {
    let endpoint = format!("--otlp-endpoint={}", collector.endpoint());
    let mut flags = vec![endpoint.as_str()];
    flags.extend(more);
    on.start_with(&flags).await
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn attribute(span: &Span, key: &str) -> String {
    crate::common::attribute(&span.attributes, key).unwrap_or_default()
}

/// Traces that a span links to.
fn linked(span: &Span) -> Vec<String> {
    span.links.iter().map(|link| hex(&link.trace_id)).collect()
}

on_every_engine! {
    async fn a_message_is_followed_from_its_push_to_its_acknowledgement(on: On) {
        let collector = Collector::start().await;
        let server = traced(&on, &collector, &["--otlp-headers=x-token=s3cret%21", "--otlp-service-name=shop"]).await;
        push_with(&server, &[("traceparent", HEADER), ("tracestate", "a=1")], json!([{"queue": "orders", "partition": "p", "payload": 1}])).await;
        let popped = server.pop_some("/queue/orders?consumerGroup=g").await;
        let message = &popped["messages"][0];
        let operations = json!([
            {"type": "ack", "transactionId": message["transactionId"], "partitionId": message["partitionId"], "leaseId": message["leaseId"], "consumerGroup": "g"},
            {"type": "push", "queue": "bills", "payload": 2},
        ]);
        let done = server.post("/api/v1/transaction", json!({"operations": operations})).await.expect(200);
        assert_eq!(done["success"], true, "{done}");
        let popped = server.pop_some("/queue/bills").await;
        assert_eq!((&popped["messages"][0]["traceparent"], &popped["messages"][0]["tracestate"]), (&json!(HEADER), &json!("a=1")));
        server.ack_all(&popped, "completed").await;

        let push = collector.span("push", |span| span.name == "push orders").await;
        assert_eq!((hex(&push.trace_id), hex(&push.parent_span_id)), (TRACE.to_owned(), "00f067aa0ba902b7".to_owned()));
        assert_eq!((push.trace_state.as_str(), push.kind, push.links.len()), ("a=1", 2, 0));
        assert!(push.start_time_unix_nano < push.end_time_unix_nano);
        for (key, value) in [
            ("messaging.system", "bugle"),
            ("messaging.operation.type", "send"),
            ("messaging.operation.name", "push"),
            ("messaging.destination.name", "orders"),
            ("messaging.destination.partition.id", "p"),
            ("messaging.batch.message_count", "1"),
            ("http.request.method", "POST"),
            ("http.route", "/api/v1/push"),
            ("http.response.status_code", "201"),
        ] {
            assert_eq!(attribute(&push, key), value, "{key}");
        }
        let pop = collector.span("pop", |span| span.name == "pop orders").await;
        assert_eq!((linked(&pop), pop.parent_span_id.len()), (vec![TRACE.to_owned()], 0));
        assert_eq!(attribute(&pop, "http.route"), "/api/v1/pop/queue/{queue}");
        assert_eq!((attribute(&pop, "messaging.operation.type"), attribute(&pop, "messaging.consumer.group.name")), ("receive".into(), "g".into()));
        let transaction = collector.span("transaction", |span| span.name.starts_with("transaction")).await;
        assert_eq!((linked(&transaction), attribute(&transaction, "messaging.operation.type")), (vec![TRACE.to_owned()], "settle".into()));
        let ack = collector.span("ack", |span| span.name == "ack bills").await;
        assert_eq!((linked(&ack), attribute(&ack, "messaging.operation.type")), (vec![TRACE.to_owned()], "settle".into()));
        assert_eq!(collector.resource("service.name").as_deref(), Some("shop"));
        assert!(collector.resource("service.instance.id").is_some());
        assert_eq!(collector.header("x-token").as_deref(), Some("s3cret!"));
    }

    async fn the_caller_decides_and_of_the_others_a_share_is_recorded(on: On) {
        let collector = Collector::start().await;
        let server = traced(&on, &collector, &["--otlp-sample-ratio=0"]).await;
        let unsampled = HEADER.replace("-01", "-00");
        push_with(&server, &[("traceparent", &unsampled)], json!([{"queue": "a", "payload": 1}])).await;
        push_with(&server, &[], json!([{"queue": "b", "payload": 1}])).await;
        push_with(&server, &[("traceparent", HEADER)], json!([{"queue": "c", "payload": 1}])).await;
        assert_eq!(server.pop_some("/queue/a").await["messages"][0]["traceparent"], unsampled, "kept all the same");
        assert!(server.terminate().await.success());
        let names: Vec<String> = collector.spans().into_iter().map(|span| span.name).collect();
        assert_eq!(names, ["push c"], "what is left is sent when the server ends");
    }

    async fn consumers_that_get_nothing_and_looks_begin_no_trace(on: On) {
        let collector = Collector::start().await;
        let server = traced(&on, &collector, &[]).await;
        assert_eq!(server.pop("/queue/q").await, None);
        server.get("/health").await;
        server.get("/api/v1/resources/queues").await.expect(200);
        let refused = server.send("POST", "/api/v1/push", "{").await;
        assert_eq!(refused.status, 400);
        let looked = [("traceparent", HEADER)];
        assert_eq!(server.send_with("GET", "/api/v1/pop/queue/q", &looked, "").await.status, 204);
        assert!(server.terminate().await.success());
        let mut names: Vec<String> = collector.spans().into_iter().map(|span| span.name).collect();
        names.sort();
        assert_eq!(names, ["POST /api/v1/push", "pop q"]);
    }

    async fn a_batch_links_to_each_message_within_a_bound(on: On) {
        let collector = Collector::start().await;
        let server = traced(&on, &collector, &[]).await;
        let item = |n: u32| json!({"queue": "q", "payload": n, "traceparent": format!("00-{:032x}-00f067aa0ba902b7-01", n + 1)});
        push_with(&server, &[], (0..150).map(item).collect()).await;
        server.pop_some("/queue/q?batch=1000").await;
        let pop = collector.span("pop", |span| span.name == "pop q").await;
        assert_eq!((pop.links.len(), pop.dropped_links_count, attribute(&pop, "messaging.batch.message_count")), (128, 22, "150".into()));
    }

    async fn metrics_come_at_an_interval(on: On) {
        let collector = Collector::start().await;
        let server = traced(&on, &collector, &["--otlp-metrics-interval=50ms", "--otlp-traces=false"]).await;
        server.push_ids("q", "p", &["1", "2"]).await;
        let pushed = |metric: &opentelemetry_proto::tonic::metrics::v1::Metric| {
            let Some(Data::Sum(sum)) = &metric.data else { return false };
            assert!(sum.is_monotonic);
            sum.data_points.iter().any(|point| {
                crate::common::attribute(&point.attributes, "queue").as_deref() == Some("q") && point.value == Some(Number::AsInt(2))
            })
        };
        collector.metric("bugle_queue_pushed", pushed).await;
        let took = collector.metric("bugle_push_seconds", |metric| {
            matches!(&metric.data, Some(Data::Histogram(all)) if all.data_points[0].count == 1)
        }).await;
        let Some(Data::Histogram(took)) = took.data else { panic!("a histogram") };
        let point = &took.data_points[0];
        assert_eq!(point.bucket_counts.iter().sum::<u64>(), 1);
        assert_eq!(point.bucket_counts.len(), point.explicit_bounds.len() + 1);
        assert!(collector.spans().is_empty());
    }

    async fn a_dead_collector_disturbs_nobody(on: On) {
        // It takes connections and never answers.
        let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("--otlp-endpoint=http://{}", silent.local_addr().unwrap());
        let server = on.start_with(&[endpoint.as_str(), "--otlp-timeout=100ms", "--otlp-metrics-interval=50ms"]).await;
        let begun = Instant::now();
        for n in 0..200 {
            push_with(&server, &[], json!([{"queue": "q", "payload": n}])).await;
        }
        assert!(begun.elapsed() < Duration::from_secs(20));
        until_true("failures are counted", async || {
            let page = String::from_utf8(server.get("/metrics/prometheus").await.body.to_vec()).unwrap();
            let count = |series: &str| page.lines().find_map(|line| line.strip_prefix(series)?.trim().parse::<u64>().ok());
            count("bugle_telemetry_exports_total{signal=\"traces\",outcome=\"failed\"}") > Some(0)
                && count("bugle_telemetry_exports_total{signal=\"metrics\",outcome=\"failed\"}") > Some(0)
        })
        .await;
        assert_eq!(server.pop_some("/queue/q?batch=1000").await["messages"].as_array().unwrap().len(), 200);
        let begun = Instant::now();
        assert!(server.terminate().await.success());
        assert!(begun.elapsed() < Duration::from_secs(15), "nor does it keep the server from ending");
    }
}
