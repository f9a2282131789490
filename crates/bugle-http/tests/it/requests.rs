//! Requests that are refused before the broker hears of them, and the routes that do not need it.

use std::sync::Arc;
use std::time::Duration;

use bugle_broker::{Broker, BrokerConfig};
use bugle_http::{HttpConfig, ServeConfig, router};
use bugle_store::MemoryStore;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::client::{Answer, PATIENCE, Server};

async fn start(config: HttpConfig) -> Server {
    let broker = Broker::open(Arc::new(MemoryStore::new()), BrokerConfig::default()).await.unwrap();
    Server::start(router(broker, config), ServeConfig::default()).await
}

fn error(answer: &Answer) -> String {
    let body: Value = serde_json::from_slice(&answer.body).expect("errors are JSON");
    body["error"].as_str().expect("an error text").to_owned()
}

#[tokio::test]
async fn bad_bodies_get_a_400_that_says_what_is_wrong() {
    let server = start(HttpConfig::default()).await;
    let cases: &[(&str, &[u8], &str)] = &[
        ("push", b"", "Empty request body"),
        ("push", b"{", "Invalid JSON: EOF"),
        ("push", b"[1]", "must be a JSON object"),
        ("push", b"{\"x\":\"\xff\"}", "not UTF-8"),
        ("push", br#"{"items":7}"#, "items array is required"),
        ("push", br#"{"items":[{"queue":"q"},{"queue":9}]}"#, "items[1].queue must be a string"),
        ("ack", br#"{"partitionId":"p"}"#, "transactionId is required"),
        ("ack", br#"{"transactionId":"t"}"#, "partitionId is required to ensure message uniqueness"),
        ("ack/batch", br#"{"acknowledgments":{}}"#, "acknowledgments array is required"),
        ("ack/batch", br#"{"acknowledgments":[{}]}"#, "acknowledgments[0].transactionId is required"),
        ("transaction", br#"{"operations":[]}"#, "operations array cannot be empty"),
        ("transaction", br#"{"operations":[{"type":"x"}]}"#, "Unknown operation type: x"),
        ("configure", br#"{"queue":5}"#, "queue is required"),
        ("lease/x/extend", br#"{"seconds":0}"#, "seconds must be at least 1"),
    ];
    for (path, body, complaint) in cases {
        let answer = server.send("POST", &format!("/api/v1/{path}"), body.to_vec()).await;
        assert_eq!(answer.status, 400, "{path} {}", String::from_utf8_lossy(body));
        assert!(error(&answer).contains(complaint), "{path}: {}", error(&answer));
    }
}

#[tokio::test]
async fn bad_queries_get_a_400_that_names_the_parameter() {
    let server = start(HttpConfig::default()).await;
    let long = "x".repeat(256);
    for (path, complaint) in [
        ("/queue/q?batch=x", "batch must be a whole number"),
        ("/queue/q?partitions=1.5", "partitions must be a whole number"),
        ("/queue/q?leaseSeconds=a", "leaseSeconds must be a whole number"),
        ("/queue/q?wait=true&timeout=0", "timeout must be greater than 0"),
        ("/queue/q?wait=true&timeout=-5", "timeout must be greater than 0"),
        ("/queue/q?wait=true&timeout=soon", "timeout must be a whole number"),
        ("/queue/q?conflation=true", "conflation needs a consumerGroup"),
        ("/queue/q?conflation=true&consumerGroup=g&autoAck=1", "conflation cannot be combined with autoAck"),
        ("/queue/a%00b", "queue must not contain NUL"),
        ("/queue/a%ff", "path"),
        (&*format!("/queue/q/partition/{long}"), "partition is longer than 255 bytes"),
        (&*format!("/queue/q?consumerGroup={long}"), "consumerGroup is longer than 255 bytes"),
        ("?namespace=&task=", "namespace or task is required"),
    ] {
        let answer = server.send("GET", &format!("/api/v1/pop{path}"), "").await;
        assert_eq!(answer.status, 400, "{path}");
        assert!(error(&answer).contains(complaint), "{path}: {}", error(&answer));
    }
    let bare = server.send("GET", "/api/v1/pop", "").await;
    assert_eq!(bare.body, r#"{"success":false,"error":"namespace or task is required","messages":[]}"#);
}

#[tokio::test]
async fn a_timeout_that_is_none_is_refused_on_every_route_of_those_who_wait() {
    let server = start(HttpConfig::default()).await;
    for route in ["/queue/q?", "/queue/q/partition/p?", "?namespace=n&"] {
        for timeout in ["", "=", "=abc", "=1.5", "=1e3", "=0", "=-1", "=-99999999999999999999", "=%20", "=+5"]
        {
            let path = format!("/api/v1/pop{route}wait=true&timeout{timeout}");
            let answer = server.send("GET", &path, "").await;
            assert_eq!(answer.status, 400, "{path}");
            assert!(error(&answer).starts_with("timeout must be "), "{path}: {}", error(&answer));
            let path = format!("/api/v1/pop{route}timeout{timeout}");
            assert_eq!(server.send("GET", &path, "").await.status, 204, "not looked at: {path}");
        }
    }
}

#[tokio::test]
async fn a_timeout_above_the_longest_is_cut_on_every_route() {
    let config = HttpConfig { max_wait: Duration::from_millis(50), ..HttpConfig::default() };
    let server = start(config).await;
    for route in ["/queue/q?", "/queue/q/partition/p?", "?task=t&"] {
        for most in ["99999999", "9223372036854775808", "99999999999999999999999999"] {
            let path = format!("/api/v1/pop{route}wait=true&timeout={most}");
            let answer = tokio::time::timeout(PATIENCE, server.send("GET", &path, "")).await;
            assert_eq!(answer.expect("it ends").status, 204, "{path}");
        }
    }
}

#[tokio::test]
async fn an_empty_push_is_created_with_nothing() {
    let server = start(HttpConfig::default()).await;
    let answer = server.send("POST", "/api/v1/push", r#"{"items":[]}"#).await;
    assert_eq!((answer.status.as_u16(), &answer.body[..]), (201, &b"[]"[..]));
}

#[tokio::test]
async fn a_body_over_the_limit_is_a_413() {
    let server = start(HttpConfig { max_body: 1000, ..HttpConfig::default() }).await;
    let answer = server.send("POST", "/api/v1/push", vec![b' '; 1001]).await;
    assert_eq!(answer.status, 413);
    assert!(error(&answer).contains("1000 bytes"));
}

#[tokio::test]
async fn unknown_paths_and_methods_are_told_apart() {
    let server = start(HttpConfig::default()).await;
    let unknown = server.send("GET", "/api/v1/nope", "").await;
    assert_eq!(unknown.status, 404);
    assert_eq!(unknown.body, r#"{"error":"Not Found","code":"no_such_route"}"#);
    let wrong = server.send("GET", "/api/v1/push", "").await;
    assert_eq!(wrong.status, 405);
    assert_eq!(error(&wrong), "Method Not Allowed");
    assert!(wrong.headers.contains_key("allow"));
}

#[tokio::test]
async fn readiness_ends_before_the_server_does() {
    let draining = CancellationToken::new();
    let server = start(HttpConfig { draining: draining.clone(), ..HttpConfig::default() }).await;
    assert_eq!(server.send("GET", "/health/ready", "").await.status, 200);
    draining.cancel();
    assert_eq!(server.send("GET", "/health/ready", "").await.status, 503);
    assert_eq!(server.send("GET", "/health/live", "").await.status, 200);
    let health = server.send("GET", "/health", "").await;
    assert_eq!(health.status, 200);
    let body: Value = serde_json::from_slice(&health.body).unwrap();
    assert_eq!((body["status"].as_str(), body["database"].as_str()), (Some("healthy"), Some("connected")));
    assert_eq!((body["hearing"].as_str(), &body["carriers"]), (Some("none"), &serde_json::json!([])));
}
