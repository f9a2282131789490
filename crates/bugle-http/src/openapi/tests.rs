use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use axum::body::Body;
use bugle_broker::{Broker, BrokerConfig};
use bugle_store::MemoryStore;
use http::Request;
use http::header::ALLOW;
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use serde_json::{Value, json};

use super::{TAGS, document};
use crate::{HttpConfig, router, routes};

const RENEW: &str = "BUGLE_RENEW_OPENAPI";

fn described() -> Value {
    serde_json::to_value(document()).unwrap()
}

/// Path, method and description of every operation.
fn operations(document: &Value) -> Vec<(&str, &str, &Value)> {
    let mut all = Vec::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        let methods = methods.as_object().unwrap().iter();
        all.extend(methods.map(|(method, operation)| (path.as_str(), method.as_str(), operation)));
    }
    all
}

#[test]
fn the_file_in_the_repository_is_what_the_code_says() {
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/openapi.json");
    if std::env::var_os(RENEW).is_some() {
        let text = serde_json::to_string_pretty(&document()).unwrap();
        return std::fs::write(file, text + "\n").unwrap();
    }
    let kept = std::fs::read_to_string(&file).unwrap_or_default();
    let kept: Value = serde_json::from_str(&kept).unwrap_or_default();
    assert!(
        kept == described(),
        "the API changed and docs/openapi.json did not: run `cargo xtask openapi`, and look at the difference"
    );
}

#[tokio::test]
async fn every_route_is_described_and_everything_described_is_a_route() {
    let broker = Broker::open(Arc::new(MemoryStore::new()), BrokerConfig::default()).await.unwrap();
    let router = TowerToHyperService::new(router(broker, HttpConfig::default()));
    let mut routed = BTreeSet::new();
    for path in routes().paths {
        // No path knows this method, so each names those it knows.
        let request =
            Request::builder().method("TRACE").uri(path.replace(['{', '}'], "")).body(Body::empty());
        let answer = router.call(request.unwrap()).await.unwrap();
        assert_eq!(answer.status(), 405, "{path}");
        let methods = answer.headers()[ALLOW].to_str().unwrap().to_ascii_lowercase();
        let methods = methods.split(',').filter(|method| *method != "head");
        routed.extend(methods.map(|method| (path.to_owned(), method.to_owned())));
    }
    let document = described();
    let known: BTreeSet<_> = operations(&document)
        .into_iter()
        .map(|(path, method, _)| (path.to_owned(), method.to_owned()))
        .collect();
    let lacking: Vec<_> = routed.difference(&known).collect();
    let stray: Vec<_> = known.difference(&routed).collect();
    assert!(lacking.is_empty(), "routes that nobody described: {lacking:?}");
    assert!(stray.is_empty(), "descriptions of no route: {stray:?}");
}

#[test]
fn every_operation_is_complete() {
    let document = described();
    let mut ids = BTreeSet::new();
    for (path, method, operation) in operations(&document) {
        let name = format!("{method} {path}");
        assert!(ids.insert(operation["operationId"].as_str().unwrap()), "{name}: its id is not unique");
        assert!(!operation["summary"].as_str().unwrap().is_empty(), "{name}: no summary");
        let tag = operation["tags"][0].as_str().unwrap();
        assert!(TAGS.iter().any(|(known, _)| *known == tag), "{name}: no such group");
        let answers = operation["responses"].as_object().unwrap();
        assert!(answers.keys().any(|status| status.starts_with('2')), "{name}: no success");
        let named: BTreeSet<&str> =
            path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}')).collect();
        let parameters = operation["parameters"].as_array().map(Vec::as_slice).unwrap_or_default();
        let said = parameters.iter().filter(|p| p["in"] == "path").map(|p| p["name"].as_str().unwrap());
        assert_eq!(named, said.collect(), "{name}: parameters of its path");
        assert!(
            parameters.iter().all(|p| p["description"].as_str().is_some_and(|text| !text.is_empty())),
            "{name}"
        );
    }
}

#[test]
fn what_needs_no_credentials_and_who_may_do_what_is_what_the_gate_says() {
    let document = described();
    let found = |path: &str, method: &str| &document["paths"][path][method];
    assert_eq!(found("/health", "get")["security"], json!([]));
    assert_eq!(found("/openapi.json", "get")["security"], json!([]));
    assert_eq!(found("/docs", "get").get("x-roles"), None);
    assert_eq!(found("/api/v1/push", "post")["x-roles"], json!(["admin", "read-write", "write-only"]));
    assert_eq!(found("/api/v1/pop", "get")["x-roles"], json!(["admin", "read-write"]));
    assert_eq!(found("/api/v1/dlq", "get")["x-roles"], json!(["admin", "read-write", "read-only"]));
    assert_eq!(found("/api/v1/resources/queues/{queue}", "delete")["x-roles"], json!(["admin"]));
}

/// `schema` with everything it may refer to.
fn checker(document: &Value, schema: &Value) -> jsonschema::Validator {
    let root = json!({ "allOf": [schema], "components": document["components"] });
    jsonschema::draft202012::options().should_validate_formats(true).build(&root).unwrap()
}

#[test]
fn examples_are_what_they_are_examples_of() {
    let document = described();
    let mut seen = 0;
    for (path, method, operation) in operations(&document) {
        let answers = operation["responses"].as_object().unwrap().values();
        for content in
            answers.chain([&operation["requestBody"]]).map(|part| &part["content"]["application/json"])
        {
            let Some(example) = content.get("example") else { continue };
            let faults: Vec<String> =
                checker(&document, &content["schema"]).iter_errors(example).map(|e| e.to_string()).collect();
            assert!(faults.is_empty(), "{method} {path}: {faults:?}");
            seen += 1;
        }
    }
    assert!(seen > 10);
}

#[test]
fn bodies_are_told_apart_as_the_routes_do() {
    let document = described();
    for (path, good, bad) in [
        (
            "/api/v1/push",
            json!({"items": [{"queue": "q"}, {"queue": "q", "traceId": ""}]}),
            json!({"items": [{"queue": ""}]}),
        ),
        ("/api/v1/push", json!({"items": []}), json!({"items": [null]})),
        (
            "/api/v1/ack",
            json!({"transactionId": "t", "partitionId": "p", "error": null}),
            json!({"transactionId": "t"}),
        ),
        (
            "/api/v1/transaction",
            json!({"operations": [{"type": "push", "queue": "q", "items": null}, {"type": "push", "items": []}]}),
            json!({"operations": [{"type": "ack", "transactionId": null, "partitionId": "p"}]}),
        ),
        (
            "/api/v1/transaction",
            json!({"operations": [{"type": "ack", "transactionId": "t", "partitionId": "p"}], "kv": []}),
            json!({"operations": []}),
        ),
        (
            "/api/v1/configure",
            json!({"queue": "", "leaseTime": -5, "options": {"enforce": null, "other": 1}}),
            json!({"queue": "q", "leaseTime": "5"}),
        ),
        (
            "/api/v1/configure",
            json!({"queue": "q", "options": null}),
            json!({"queue": "q", "options": {"retryLimit": 1.5}}),
        ),
        (
            "/api/v1/consumer-groups/{group}/queues/{queue}/seek",
            json!({"toEnd": true, "toBeginning": false}),
            json!({"toEnd": false}),
        ),
        (
            "/api/v1/consumer-groups/{group}/queues/{queue}/partitions/{partition}/seek",
            json!({"toEnd": false}),
            json!({"toEnd": true, "toBeginning": true}),
        ),
        ("/api/v1/lease/{lease}/extend", json!({"seconds": "x"}), json!({"seconds": 0})),
        ("/api/v1/lease/{lease}/extend", json!([]), json!({"seconds": -1})),
        (
            "/api/v1/traces",
            json!({"transactionId": "t", "partitionId": "p", "data": false, "traceNames": "n"}),
            json!({"transactionId": "t", "partitionId": "p", "data": null}),
        ),
        (
            "/api/v1/dlq/redrive",
            json!({"filter": {"queue": "q", "from": ""}, "cursor": null}),
            json!({"filter": {"queue": "q"}, "cursor": "x"}),
        ),
    ] {
        let schema = &document["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"];
        let checker = checker(&document, schema);
        let faults: Vec<String> = checker.iter_errors(&good).map(|e| e.to_string()).collect();
        assert!(faults.is_empty(), "{path} {good}: {faults:?}");
        assert!(!checker.is_valid(&bad), "{path} {bad}");
    }
}

#[test]
fn options_have_the_bounds_and_defaults_of_the_broker() {
    let document = described();
    let options = &document["components"]["schemas"]["QueueOptions"]["properties"];
    assert_eq!(
        (&options["leaseTime"]["minimum"], &options["leaseTime"]["maximum"]),
        (&json!(1), &json!(604_800))
    );
    assert_eq!(
        (&options["minPopWaitTime"]["maximum"], &options["leaseTime"]["default"]),
        (&json!(60_000), &json!(300))
    );
    assert_eq!(options["enforce"].get("minimum"), None);
}
