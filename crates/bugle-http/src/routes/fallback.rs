//! Answers to requests that no route takes.

use http::StatusCode;

use crate::error::Failure;

pub(crate) async fn no_such_route() -> Failure {
    Failure { code: Some("no_such_route"), ..Failure::new(StatusCode::NOT_FOUND, "Not Found") }
}

pub(crate) async fn wrong_method() -> Failure {
    Failure {
        code: Some("method_not_allowed"),
        ..Failure::new(StatusCode::METHOD_NOT_ALLOWED, "Method Not Allowed")
    }
}
