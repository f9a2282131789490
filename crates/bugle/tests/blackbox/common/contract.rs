//! Holds every answer that a test gets against the description of the API: what comes must be said there, and nothing
//! more may come. So each test is one of the description, too.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use http::HeaderMap;
use jsonschema::Validator;
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// The description as it is kept in the repository.
pub(crate) static DOCUMENT: LazyLock<Value> = LazyLock::new(|| {
    serde_json::from_str(include_str!("../../../../../docs/openapi.json")).expect("docs/openapi.json is JSON")
});

/// Its components, in which objects have no field that is not named.
static CLOSED: LazyLock<Value> = LazyLock::new(|| {
    let mut components = DOCUMENT["components"].clone();
    components["schemas"].as_object_mut().unwrap().values_mut().for_each(close);
    components
});

/// What was answered so far: method, path as it is described, status.
static SEEN: Mutex<BTreeSet<(String, String, u16)>> = Mutex::new(BTreeSet::new());

/// Validators by where their schema stands.
static VALIDATORS: Mutex<Option<HashMap<String, Arc<Validator>>>> = Mutex::new(None);

/// What was answered so far by this process.
pub(crate) fn seen() -> BTreeSet<(String, String, u16)> {
    lock(&SEEN).clone()
}

/// Panics if the answer is none that is described.
pub(crate) fn check(method: &str, uri: &str, status: u16, headers: &HeaderMap, body: &[u8]) {
    let path = uri.split_once('?').map_or(uri, |(path, _)| path);
    let name = format!("{method} {path}: {status} {}", String::from_utf8_lossy(&body[..body.len().min(500)]));
    if path.starts_with("/assets/") {
        // Files of the dashboard are no part of the API.
        return;
    }
    let Some((template, methods)) = described(path) else {
        return assert!(
            matches!(status, 401 | 403 | 404),
            "{name}: an answer on a path that is not described"
        );
    };
    let operation = match method {
        "HEAD" => methods.get("get"),
        _ => methods.get(method.to_ascii_lowercase()),
    };
    let answer = match operation {
        Some(operation) => operation["responses"].get(status.to_string()),
        // Asked by browsers, answered before the routes.
        None if method == "OPTIONS" => return,
        None => DOCUMENT["components"]["responses"].get("MethodNotAllowed").filter(|_| status == 405),
    };
    let answer = answer.unwrap_or_else(|| panic!("{name}: this status is not described"));
    let (pointer, answer) = match answer["$ref"].as_str() {
        Some(reference) => {
            (reference.to_owned(), DOCUMENT.pointer(&reference[1..]).expect("a shared answer"))
        }
        None => (format!("{method} {template} {status}"), answer),
    };
    lock(&SEEN).insert((method.to_ascii_lowercase(), template.to_owned(), status));
    check_headers(&name, answer, headers);
    if method != "HEAD" {
        check_body(&name, &pointer, answer, headers, body);
    }
}

/// The path as it is described, and its operations. Fixed parts are better than parameters.
fn described(path: &str) -> Option<(&'static str, &'static Value)> {
    let parts: Vec<&str> = path.split('/').collect();
    let fits = |template: &str| {
        let wanted: Vec<&str> = template.split('/').collect();
        let same =
            |(wanted, part): (&&str, &&str)| wanted == part || (wanted.starts_with('{') && !part.is_empty());
        wanted.len() == parts.len() && wanted.iter().zip(&parts).all(same)
    };
    let all = DOCUMENT["paths"].as_object().unwrap().iter().filter(|(template, _)| fits(template));
    all.min_by_key(|(template, _)| template.matches('{').count())
        .map(|(template, found)| (template.as_str(), found))
}

fn check_headers(name: &str, answer: &Value, headers: &HeaderMap) {
    for header in answer["headers"].as_object().unwrap().keys() {
        let required = DOCUMENT["components"]["headers"][header]["required"] == true;
        assert!(!required || headers.contains_key(header), "{name}: without {header}");
    }
}

fn check_body(name: &str, pointer: &str, answer: &Value, headers: &HeaderMap, body: &[u8]) {
    let Some(content) = answer.get("content") else {
        return assert!(body.is_empty(), "{name}: a body that is not described");
    };
    let kind = headers.get("content-type").and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let described = content.get(kind).unwrap_or_else(|| panic!("{name}: the type {kind:?} is not described"));
    if kind != "application/json" {
        return;
    }
    let Ok(value) = serde_json::from_slice::<Value>(body) else {
        // Payloads may have numbers that no number of this language can hold.
        let readable = serde_json::from_slice::<&RawValue>(body).is_ok();
        return assert!(readable, "{name}: no JSON");
    };
    let validator = validator(pointer, &described["schema"]);
    let faults: Vec<String> = validator
        .iter_errors(&value)
        .map(|fault| format!("{} at {}", fault, fault.instance_path()))
        .collect();
    assert!(faults.is_empty(), "{name}: {faults:#?}");
}

fn validator(pointer: &str, schema: &Value) -> Arc<Validator> {
    let mut all = lock(&VALIDATORS);
    let made = all.get_or_insert_default().entry(pointer.to_owned()).or_insert_with(|| {
        let mut schema = schema.clone();
        close(&mut schema);
        let root = json!({ "allOf": [schema], "components": *CLOSED });
        Arc::new(jsonschema::draft202012::options().should_validate_formats(true).build(&root).unwrap())
    });
    made.clone()
}

/// Let objects have no other fields than those that are named.
fn close(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            map.values_mut().for_each(close);
            if map.contains_key("properties") && map.get("type").is_some_and(|kind| kind == "object") {
                map.entry("additionalProperties").or_insert(false.into());
            }
        }
        Value::Array(list) => list.iter_mut().for_each(close),
        _ => {}
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
