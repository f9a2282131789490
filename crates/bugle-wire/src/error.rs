//! Reading a request body, and the envelope in which errors are told.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::field::{Field, Object};

/// `{"error": text}`, with a machine-readable `code` where there is one.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ErrorBody<'a> {
    /// What is wrong, and with which field.
    pub error: &'a str,
    /// For programs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<&'a str>,
}

/// Why a body is no request.
#[derive(Debug)]
pub enum Unreadable {
    /// It has no bytes.
    Empty,
    /// It is not UTF-8; the position of the first byte that is not.
    NotUtf8(usize),
    /// It is not JSON.
    Syntax(serde_json::Error),
    /// It is JSON, but not an object.
    NotAnObject,
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("Empty request body"),
            Self::NotUtf8(at) => write!(f, "Invalid JSON: not UTF-8 at byte {at}"),
            Self::Syntax(e) => write!(f, "Invalid JSON: {e}"),
            Self::NotAnObject => f.write_str("request body must be a JSON object"),
        }
    }
}

impl std::error::Error for Unreadable {}

/// Read a request. The whole body is checked to be UTF-8 first: parts that nobody reads would otherwise slip through.
pub fn read<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, Unreadable> {
    if body.is_empty() {
        return Err(Unreadable::Empty);
    }
    let text = std::str::from_utf8(body).map_err(|e| Unreadable::NotUtf8(e.valid_up_to()))?;
    match serde_json::from_str::<Field<Object<T>>>(text).map_err(Unreadable::Syntax)? {
        Field::Is(Object(request)) => Ok(request),
        Field::Absent | Field::Wrong => Err(Unreadable::NotAnObject),
    }
}
