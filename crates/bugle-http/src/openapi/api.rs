//! Collects operations and the schemas they refer to, and spells the document.

use std::collections::BTreeMap;

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};

use super::answer::{self, headers};
use super::operation::{Op, Operation};

const SCHEMAS: &str = "/components/schemas";

/// The document while it is put together.
pub(super) struct Api {
    /// Schemas of what is read.
    reads: SchemaGenerator,
    /// Schemas of what is written: other fields are certain to be there.
    writes: SchemaGenerator,
    pub(super) operations: Vec<Operation>,
}

impl Api {
    pub(super) fn new() -> Self {
        let settings = || {
            SchemaSettings::draft2020_12().with(|s| {
                s.definitions_path = SCHEMAS.into();
                s.meta_schema = None;
            })
        };
        Self {
            reads: settings().for_deserialize().into_generator(),
            writes: settings().for_serialize().into_generator(),
            operations: Vec::new(),
        }
    }

    /// The schema of a request, or a reference to it.
    pub(super) fn read<T: JsonSchema + ?Sized>(&mut self) -> Value {
        self.reads.subschema_for::<T>().to_value()
    }

    /// The schema of an answer, or a reference to it.
    pub(super) fn written<T: JsonSchema + ?Sized>(&mut self) -> Value {
        self.writes.subschema_for::<T>().to_value()
    }

    pub(super) fn get(&mut self, path: &'static str, id: &'static str) -> Op<'_> {
        Op::new(self, "get", path, id)
    }

    pub(super) fn post(&mut self, path: &'static str, id: &'static str) -> Op<'_> {
        Op::new(self, "post", path, id)
    }

    pub(super) fn delete(&mut self, path: &'static str, id: &'static str) -> Op<'_> {
        Op::new(self, "delete", path, id)
    }

    /// Everything that was said. `tags` are the groups of operations, in order, with a sentence each.
    pub(super) fn finish(mut self, info: Value, tags: &[(&'static str, &'static str)]) -> Document {
        let errors = answer::shared(&self.written::<bugle_wire::ErrorBody<'_>>());
        let mut schemas = self.reads.take_definitions(true);
        schemas.extend(self.writes.take_definitions(true));
        schemas.values_mut().for_each(plain_numbers);
        let mut paths: Paths = Vec::new();
        for operation in self.operations {
            let (path, method) = (operation.path, operation.method);
            let described = operation.into_value();
            match paths.iter_mut().find(|(known, _)| *known == path) {
                Some((_, methods)) => drop(methods.insert(method, described)),
                None => paths.push((path, BTreeMap::from([(method, described)]))),
            }
        }
        Document {
            openapi: "3.1.0",
            info,
            servers: json!([{ "url": "/" }]),
            tags: tags.iter().map(|(name, about)| json!({ "name": name, "description": about })).collect(),
            paths,
            components: json!({
                "schemas": schemas,
                "responses": errors,
                "headers": headers(),
                "securitySchemes": {
                    "bearer": {
                        "type": "http", "scheme": "bearer", "description": "A token (JWT) or an API key.",
                    },
                    "apiKey": {
                        "type": "apiKey", "in": "header", "name": "X-API-Key", "description": "An API key.",
                    },
                },
            }),
        }
    }
}

/// Operations by path, in the order they were said, and by method.
type Paths = Vec<(&'static str, BTreeMap<&'static str, Value>)>;

/// The document, in an order for people.
#[derive(Serialize)]
pub(super) struct Document {
    openapi: &'static str,
    info: Value,
    servers: Value,
    tags: Vec<Value>,
    #[serde(serialize_with = "in_order")]
    paths: Paths,
    components: Value,
}

fn in_order<S: Serializer>(paths: &Paths, serializer: S) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(paths.len()))?;
    for (path, methods) in paths {
        map.serialize_entry(path, methods)?;
    }
    map.end()
}

/// Without the widths of Rust's numbers: they are no formats anybody else knows, and the bounds say what matters.
fn plain_numbers(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            let width = |map: &Map<String, Value>| {
                let format = map.get("format").and_then(Value::as_str).unwrap_or_default();
                format.starts_with("uint") || format.starts_with("int") || format == "double"
            };
            if width(map) {
                map.remove("format");
            }
            map.values_mut().for_each(plain_numbers);
        }
        Value::Array(list) => list.iter_mut().for_each(plain_numbers),
        _ => {}
    }
}
