//! The description of the API against the routes: what it says of parameters is what is read.

use std::sync::Arc;

use bugle_broker::{Broker, BrokerConfig};
use bugle_http::{HttpConfig, ServeConfig, router};
use bugle_store::MemoryStore;
use serde_json::Value;

use crate::client::Server;

async fn start() -> Server {
    let broker = Broker::open(Arc::new(MemoryStore::new()), BrokerConfig::default()).await.unwrap();
    Server::start(router(broker, HttpConfig::default()), ServeConfig::default()).await
}

/// A value that the parameter's schema excludes, and words of the complaint about it. `None`: it excludes nothing.
fn wrong(parameter: &Value) -> Option<(String, &'static str)> {
    let schema = &parameter["schema"];
    if schema["type"] == "integer" {
        return Some(("1.5".into(), "whole number"));
    }
    if schema["format"] == "date-time" {
        return Some(("soon".into(), "timestamp"));
    }
    if schema["enum"].is_array() {
        return Some(("nonsense".into(), "must be"));
    }
    let longest = usize::try_from(schema["maxLength"].as_u64()?).unwrap();
    Some(("x".repeat(longest + 1), "longer than 255 bytes"))
}

/// The path with an example for every parameter but `spared`.
fn filled(path: &str, parameters: &[Value], spared: &str) -> String {
    let in_path = parameters.iter().filter(|p| p["in"] == "path" && p["name"] != spared);
    in_path.fold(path.to_owned(), |path, parameter| {
        path.replace(
            &format!("{{{}}}", parameter["name"].as_str().unwrap()),
            parameter["example"].as_str().unwrap(),
        )
    })
}

#[tokio::test]
async fn what_a_parameter_excludes_is_refused_by_its_name() {
    let server = start().await;
    let document: Value =
        serde_json::from_slice(&server.send("GET", "/openapi.json", "").await.body).unwrap();
    let mut tried = 0;
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let parameters = operation["parameters"].as_array().map(Vec::as_slice).unwrap_or_default();
            for parameter in parameters {
                let (name, place) = (parameter["name"].as_str().unwrap(), &parameter["in"]);
                let Some((value, complaint)) = wrong(parameter) else { continue };
                let uri = if place == "path" {
                    filled(path, parameters, name).replace(&format!("{{{name}}}"), &value)
                } else {
                    // `timeout` is looked at by those who wait, and a filter is required where there is one.
                    let rest = if name == "namespace" { "" } else { "&namespace=n" };
                    format!("{}?{name}={value}&wait=true{rest}", filled(path, parameters, ""))
                };
                let answer = server.send(&method.to_ascii_uppercase(), &uri, "").await;
                let text = String::from_utf8_lossy(&answer.body).into_owned();
                assert!(answer.status == 400 && text.contains(complaint), "{method} {uri}: {text}");
                tried += 1;
            }
        }
    }
    assert!(tried > 60, "{tried}");
}
