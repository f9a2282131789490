//! What answers have in common: headers, and the errors that come the same way from everywhere.

use serde_json::{Map, Value, json};

/// An error that all operations tell alike.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Shared {
    BadRequest = 400,
    Unauthorized = 401,
    Forbidden = 403,
    MethodNotAllowed = 405,
    Timeout = 408,
    TooLarge = 413,
    Busy = 429,
    Unavailable = 503,
}

impl Shared {
    const ALL: [(Self, &'static str, &'static str); 8] = [
        (
            Self::BadRequest,
            "BadRequest",
            "The request is wrong; the text names the field. Nothing was changed.",
        ),
        (
            Self::Unauthorized,
            "Unauthorized",
            "Authentication is on, and the request has no credentials or none that are good.",
        ),
        (
            Self::Forbidden,
            "Forbidden",
            "The caller's role is too low, or a page of another web site sends the request.",
        ),
        (Self::MethodNotAllowed, "MethodNotAllowed", "The path knows other methods than this one."),
        (Self::Timeout, "Timeout", "The body stopped arriving."),
        (Self::TooLarge, "TooLarge", "The body is larger than the server takes (64 MiB unless set)."),
        (
            Self::Busy,
            "Busy",
            "Too much waits already, or with `code` `rate_limited`: the caller is over a limit of its own. Nothing was changed. Try again after the pause.",
        ),
        (
            Self::Unavailable,
            "Unavailable",
            "The store is away: whether the request was carried out is not known. With `code` `maintenance`: pushes are \
             in maintenance, and nothing was changed. Try again after the pause.",
        ),
    ];

    /// A reference to its description.
    pub(super) fn reference(self) -> Value {
        let name = Self::ALL.iter().find(|(shared, ..)| *shared == self).map_or("", |(_, name, _)| name);
        json!({ "$ref": format!("#/components/responses/{name}") })
    }
}

/// The descriptions of the shared errors, by name. `schema` is that of their bodies.
pub(super) fn shared(schema: &Value) -> Map<String, Value> {
    let described = Shared::ALL.iter().map(|(shared, name, about)| {
        let more = match shared {
            Shared::Unauthorized => &["WWW-Authenticate"][..],
            Shared::MethodNotAllowed => &["Allow"],
            Shared::Busy | Shared::Unavailable => &["Retry-After"],
            _ => &[],
        };
        ((*name).to_owned(), json(about, schema, more))
    });
    described.collect()
}

/// An answer with a JSON body. `more` are its headers besides the one that all have.
pub(super) fn json(about: &str, schema: &Value, more: &[&str]) -> Value {
    content(about, &[("application/json", schema.clone())], more)
}

/// An answer with a body of one of these types.
pub(super) fn content(about: &str, kinds: &[(&str, Value)], more: &[&str]) -> Value {
    let body: Map<String, Value> =
        kinds.iter().map(|(kind, schema)| ((*kind).to_owned(), json!({ "schema": schema }))).collect();
    let mut answer = empty(about, more);
    answer["content"] = body.into();
    answer
}

/// An answer without a body.
pub(super) fn empty(about: &str, more: &[&str]) -> Value {
    let named = ["X-Request-Id"].iter().chain(more);
    let headers: Map<String, Value> = named
        .map(|name| ((*name).to_owned(), json!({ "$ref": format!("#/components/headers/{name}") })))
        .collect();
    json!({ "description": about, "headers": headers })
}

/// The headers that answers refer to.
pub(super) fn headers() -> Value {
    json!({
        "X-Request-Id": {
            "description": "The request's own X-Request-Id (1 to 128 printable ASCII characters), or a new one. It is in all logs.",
            "required": true,
            "schema": { "type": "string", "minLength": 1, "maxLength": 128 },
        },
        "Retry-After": {
            "description": "Seconds to wait before the next try.",
            "required": true,
            "schema": { "type": "integer", "minimum": 1 },
        },
        "Allow": {
            "description": "Methods that the path knows.",
            "required": true,
            "schema": { "type": "string" },
        },
        "WWW-Authenticate": {
            "description": "How to authenticate.",
            "required": true,
            "schema": { "type": "string" },
        },
        "Bugle-Store": {
            "description": "The store is away, so that there was nothing to deliver.",
            "schema": { "const": "unavailable" },
        },
    })
}
