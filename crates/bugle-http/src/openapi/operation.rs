//! One operation, said in the order one would explain it: what it does, what it takes, what it answers.

use std::collections::BTreeMap;

use http::Method;
use schemars::JsonSchema;
use serde_json::{Map, Value, json};

use super::answer::{self, Shared};
use super::api::Api;
use super::parameter::Parameter;
use crate::auth::{PUBLIC_PATHS, Permissions, Role, listed, rule};

/// What is known of an operation.
pub(super) struct Operation {
    pub(super) method: &'static str,
    pub(super) path: &'static str,
    id: &'static str,
    tag: &'static str,
    summary: &'static str,
    about: String,
    parameters: Vec<Parameter>,
    body: Option<Value>,
    answers: BTreeMap<u16, Value>,
}

/// An operation that is being described.
pub(super) struct Op<'a> {
    api: &'a mut Api,
    at: usize,
}

impl<'a> Op<'a> {
    pub(super) fn new(api: &'a mut Api, method: &'static str, path: &'static str, id: &'static str) -> Self {
        api.operations.push(Operation {
            method,
            path,
            id,
            tag: "",
            summary: "",
            about: String::new(),
            parameters: Vec::new(),
            body: None,
            answers: BTreeMap::new(),
        });
        let at = api.operations.len() - 1;
        // Also where credentials are not needed, or nothing is limited, by default: a setting can change that.
        Self { api, at }.shared(Shared::Unauthorized).shared(Shared::Forbidden).shared(Shared::Busy)
    }

    fn operation(&mut self) -> &mut Operation {
        &mut self.api.operations[self.at]
    }

    /// Its group, and what it does in a few words.
    pub(super) fn says(mut self, tag: &'static str, summary: &'static str) -> Self {
        let operation = self.operation();
        (operation.tag, operation.summary) = (tag, summary);
        self
    }

    /// What one should know of it.
    pub(super) fn about(mut self, text: impl Into<String>) -> Self {
        self.operation().about = text.into();
        self
    }

    /// A parameter. What is wrong with one is a 400.
    pub(super) fn takes(mut self, parameter: Parameter) -> Self {
        self.operation().parameters.push(parameter);
        self.shared(Shared::BadRequest)
    }

    /// Parameters.
    pub(super) fn takes_all(self, parameters: impl IntoIterator<Item = Parameter>) -> Self {
        parameters.into_iter().fold(self, Self::takes)
    }

    /// A body that must be there.
    pub(super) fn body<T: JsonSchema>(self, example: Value) -> Self {
        self.body_as::<T>(true, example, |schema| schema)
    }

    /// A body that may be left out.
    pub(super) fn optional_body<T: JsonSchema>(self, example: Value) -> Self {
        self.body_as::<T>(false, example, |schema| schema)
    }

    /// A body whose schema is made more exact than its type can say.
    pub(super) fn body_as<T: JsonSchema>(
        mut self,
        required: bool,
        example: Value,
        exactly: impl FnOnce(Value) -> Value,
    ) -> Self {
        let schema = exactly(self.api.read::<T>());
        self.operation().body = Some(json!({
            "required": required,
            "content": { "application/json": { "schema": schema, "example": example } },
        }));
        self.shared(Shared::BadRequest).shared(Shared::Timeout).shared(Shared::TooLarge)
    }

    /// An answer with a JSON body.
    pub(super) fn answers<T: JsonSchema + ?Sized>(mut self, status: u16, about: &str) -> Self {
        let schema = self.api.written::<T>();
        self.operation().answers.insert(status, answer::json(about, &schema, &[]));
        self
    }

    /// An answer of a type that leaves fields out, but not these.
    pub(super) fn answers_telling<T: JsonSchema>(
        mut self,
        status: u16,
        about: &str,
        fields: &[&str],
    ) -> Self {
        let schema = json!({ "allOf": [self.api.written::<T>(), { "required": fields }] });
        self.operation().answers.insert(status, answer::json(about, &schema, &[]));
        self
    }

    /// An answer with a body of one of two kinds.
    pub(super) fn answers_either<A: JsonSchema, B: JsonSchema>(mut self, status: u16, about: &str) -> Self {
        let either = json!({ "anyOf": [self.api.written::<A>(), self.api.written::<B>()] });
        self.operation().answers.insert(status, answer::json(about, &either, &[]));
        self
    }

    /// Any other answer.
    pub(super) fn answers_with(mut self, status: u16, answer: Value) -> Self {
        self.operation().answers.insert(status, answer);
        self
    }

    /// Further types that the body with this status may have.
    pub(super) fn kinds(mut self, status: u16, kinds: &[(&str, Value)]) -> Self {
        if let Some(answer) = self.operation().answers.get_mut(&status) {
            for (kind, schema) in kinds {
                answer["content"][*kind] = json!({ "schema": schema });
            }
        }
        self
    }

    /// An example of the JSON answer with this status.
    pub(super) fn example(mut self, status: u16, example: Value) -> Self {
        if let Some(answer) = self.operation().answers.get_mut(&status) {
            answer["content"]["application/json"]["example"] = example;
        }
        self
    }

    /// A refusal in the usual envelope, for a reason of its own.
    pub(super) fn refuses(self, status: u16, about: &str) -> Self {
        self.answers::<bugle_wire::ErrorBody<'_>>(status, about)
    }

    /// It needs the store, which may be away.
    pub(super) fn stored(self) -> Self {
        self.shared(Shared::Unavailable)
    }

    /// There may be too much of it.
    pub(super) fn bounded(self) -> Self {
        self.shared(Shared::Busy)
    }

    /// A refusal that all operations tell alike.
    fn shared(mut self, shared: Shared) -> Self {
        self.operation().answers.entry(shared as u16).or_insert_with(|| shared.reference());
        self
    }
}

impl Operation {
    pub(super) fn into_value(self) -> Value {
        let public = listed(&PUBLIC_PATHS.map(str::to_owned), self.path);
        let answers: Map<String, Value> =
            self.answers.into_iter().map(|(status, answer)| (status.to_string(), answer)).collect();
        let mut value = json!({
            "operationId": self.id,
            "tags": [self.tag],
            "summary": self.summary,
            "responses": answers,
            "security": if public { json!([]) } else { json!([{ "bearer": [] }, { "apiKey": [] }]) },
        });
        if !public {
            value["x-roles"] = roles(self.method, self.path);
        }
        if !self.about.is_empty() {
            value["description"] = self.about.into();
        }
        if !self.parameters.is_empty() {
            value["parameters"] = self.parameters.into_iter().map(Parameter::into_value).collect();
        }
        if let Some(body) = self.body {
            value["requestBody"] = body;
        }
        value
    }
}

/// The roles that may use an operation, as the gate sees it.
fn roles(method: &str, path: &str) -> Value {
    let method = Method::from_bytes(method.to_ascii_uppercase().as_bytes()).unwrap_or_default();
    let level = rule(&method, path).level;
    let may = |role| Permissions::default().with(role).allow(level);
    Role::ALL.into_iter().filter(|(role, _)| may(*role)).map(|(_, name)| name).collect()
}
