//! The spelling of the numbers, by what the client accepts.

use std::sync::Arc;

use bugle_broker::{Broker, BrokerConfig};
use bugle_http::{HttpConfig, ServeConfig, router};
use bugle_store::MemoryStore;
use serde_json::Value;

use crate::client::{Answer, Server};

const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

async fn start() -> Server {
    let broker = Broker::open(Arc::new(MemoryStore::new()), BrokerConfig::default()).await.unwrap();
    Server::start(router(broker, HttpConfig::default()), ServeConfig::default()).await
}

fn header<'a>(answer: &'a Answer, name: &str) -> Option<&'a str> {
    answer.headers.get(name).map(|value| value.to_str().unwrap())
}

#[tokio::test]
async fn metrics_are_text_for_those_who_prefer_it_and_json_for_all_others() {
    let server = start().await;
    for (accept, kind, end) in [
        (None, "application/json", "}"),
        (Some("*/*"), "application/json", "}"),
        (Some("image/png"), "application/json", "}"),
        (Some("text/plain"), TEXT, "\n"),
        (
            Some("application/openmetrics-text;version=1.0.0,text/plain;q=0.5"),
            "application/openmetrics-text; version=1.0.0; charset=utf-8",
            "\n# EOF\n",
        ),
    ] {
        let headers: Vec<_> = accept.map(|accept| ("accept", accept)).into_iter().collect();
        let answer = server.send_with("GET", "/metrics", &headers, "").await;
        assert_eq!(
            (answer.status.as_u16(), header(&answer, "content-type")),
            (200, Some(kind)),
            "{accept:?}"
        );
        assert_eq!(header(&answer, "vary"), Some("accept"));
        let body = std::str::from_utf8(&answer.body).unwrap();
        assert!(body.ends_with(end), "{accept:?}: {body}");
    }
}

#[tokio::test]
async fn the_prometheus_route_is_text_whatever_is_accepted() {
    let server = start().await;
    for accept in ["application/json", "application/openmetrics-text"] {
        let answer = server.send_with("GET", "/metrics/prometheus", &[("accept", accept)], "").await;
        assert_eq!(header(&answer, "content-type"), Some(TEXT));
        assert_eq!(header(&answer, "cache-control"), Some("no-cache"));
        let body = std::str::from_utf8(&answer.body).unwrap();
        assert!(body.contains("\nbugle_store_up 1\n") && !body.contains("# EOF"), "{body}");
    }
}

#[tokio::test]
async fn the_shared_state_is_json() {
    let answer = start().await.send("GET", "/api/v1/system/shared-state", "").await;
    let state: Value = serde_json::from_slice(&answer.body).unwrap();
    assert_eq!((answer.status.as_u16(), &state["enabled"]), (200, &Value::Bool(false)));
}
