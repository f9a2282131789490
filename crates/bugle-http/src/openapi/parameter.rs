//! Parameters of paths and queries, each as the code that reads it understands it.

use serde_json::{Value, json};

/// Longest name, in bytes.
const NAME_MAX: usize = bugle_store::NAME_MAX;
/// No NUL.
const NO_NUL: &str = r"^[^\u0000]*$";

/// A parameter.
pub(super) struct Parameter {
    place: &'static str,
    name: &'static str,
    about: String,
    schema: Value,
    /// Empty is as good as absent.
    may_be_empty: bool,
}

impl Parameter {
    fn query(name: &'static str, about: impl Into<String>, schema: Value) -> Self {
        Self { place: "query", name, about: about.into(), schema, may_be_empty: true }
    }

    fn path(name: &'static str, about: &str, schema: Value) -> Self {
        Self { place: "path", name, about: about.to_owned(), schema, may_be_empty: false }
    }

    pub(super) fn into_value(self) -> Value {
        let mut value = json!({
            "name": self.name, "in": self.place, "description": self.about, "schema": self.schema,
        });
        if self.place == "path" {
            value["required"] = true.into();
            value["example"] = example(self.name, &self.schema).into();
        }
        if self.may_be_empty {
            value["allowEmptyValue"] = true.into();
        }
        value
    }
}

/// What could stand in a path: the words of the other examples.
fn example(name: &str, schema: &Value) -> &'static str {
    match name {
        "queue" => "orders",
        "group" => "billing",
        // Some paths have a partition's name, others its id.
        "partition" if schema.get("maxLength").is_some() => "customer-7",
        "partition" => "5b0b8f6e-2d7c-4f0a-8e1d-3c9a7b6f5e4d",
        "transaction" | "name" => "order-1234",
        _ => "019a8c1e-8a00-7d11-b0c2-5e4f3a2b1c0d",
    }
}

/// A name in a path.
pub(super) fn path_name(name: &'static str, about: &str) -> Parameter {
    let schema = json!({ "type": "string", "minLength": 1, "maxLength": NAME_MAX, "pattern": NO_NUL });
    Parameter::path(name, about, schema)
}

/// An id in a path. What is none is not refused: there is nothing of that id.
pub(super) fn path_id(name: &'static str, about: &str) -> Parameter {
    Parameter::path(name, about, json!({ "type": "string", "minLength": 1 }))
}

/// A name in a query; empty is none.
pub(super) fn name(name: &'static str, about: &str) -> Parameter {
    Parameter::query(name, about, json!({ "type": "string", "maxLength": NAME_MAX, "pattern": NO_NUL }))
}

/// Any text in a query.
pub(super) fn text(name: &'static str, about: &str) -> Parameter {
    Parameter::query(name, about, json!({ "type": "string" }))
}

/// One of a few words, or empty for none.
pub(super) fn word(name: &'static str, words: &[&str], about: &str) -> Parameter {
    let mut words = words.to_vec();
    words.push("");
    Parameter::query(name, about, json!({ "type": "string", "enum": words }))
}

/// A switch, off unless it says `true` or `1`.
pub(super) fn flag(name: &'static str, about: &str) -> Parameter {
    let about = format!("{about} `true` and `1` switch it on, any other text does not.");
    Parameter::query(name, about, json!({ "type": ["boolean", "string"], "default": false }))
}

/// A switch, on unless it says something else than `true` or `1`.
pub(super) fn flag_on(name: &'static str, about: &str) -> Parameter {
    let about = format!("{about} Any text but `true` and `1` switches it off.");
    Parameter::query(name, about, json!({ "type": ["boolean", "string"], "default": true }))
}

/// A whole number that is cut to its bounds rather than refused; empty is none.
pub(super) fn number(name: &'static str, default: Option<u64>, about: &str) -> Parameter {
    let mut schema = json!({ "type": "integer" });
    if let Some(default) = default {
        schema["default"] = default.into();
    }
    Parameter::query(name, about, schema)
}

/// A whole number of at least 1 that must not be empty.
pub(super) fn positive(name: &'static str, default: u64, about: &str) -> Parameter {
    let schema = json!({ "type": "integer", "minimum": 1, "default": default });
    Parameter { may_be_empty: false, ..Parameter::query(name, about, schema) }
}

/// A time in a query; empty is none.
pub(super) fn time(name: &'static str, about: &str) -> Parameter {
    let about = format!("{about} ISO 8601; UTC without an offset.");
    Parameter::query(name, about, json!({ "type": "string", "format": "date-time" }))
}

/// Which part of a list.
pub(super) fn page(default: usize, most: usize) -> [Parameter; 2] {
    let limit = format!("Most entries, cut to 1..{most}.");
    [
        number("limit", u64::try_from(default).ok(), &limit),
        number("offset", Some(0), "Entries to skip. Below 0 is 0."),
    ]
}
