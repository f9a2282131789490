//! Refusals as HTTP answers, and the few helpers that build answers.

use std::borrow::Cow;
use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bugle_broker::Refused;
use bugle_wire::{ErrorBody, Unreadable};
use futures_util::FutureExt;
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, StatusCode};
use serde::Serialize;

use crate::refusals;

/// Suggested pause while the store is away.
const STORE_RETRY: Duration = Duration::from_secs(1);

/// Suggested pause while an operator is at work.
const MAINTENANCE_RETRY: Duration = Duration::from_secs(5);

/// An answer that is an error.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) status: StatusCode,
    pub(crate) error: Cow<'static, str>,
    pub(crate) code: Option<&'static str>,
    pub(crate) retry_after: Option<Duration>,
}

impl Failure {
    pub(crate) fn new(status: StatusCode, error: impl Into<Cow<'static, str>>) -> Self {
        Self { status, error: error.into(), code: None, retry_after: None }
    }
}

impl From<Refused> for Failure {
    fn from(refused: Refused) -> Self {
        let error = refused.to_string();
        match refused {
            Refused::Invalid(_) => Self::new(StatusCode::BAD_REQUEST, error),
            Refused::NotFound(_) => Self::new(StatusCode::NOT_FOUND, error),
            Refused::Conflict(_) => Self::new(StatusCode::CONFLICT, error),
            Refused::Busy { retry_after, .. } => Self {
                code: Some("busy"),
                retry_after: Some(retry_after),
                ..Self::new(StatusCode::TOO_MANY_REQUESTS, error)
            },
            Refused::Maintenance(_) => Self {
                code: Some("maintenance"),
                retry_after: Some(MAINTENANCE_RETRY),
                ..Self::new(StatusCode::SERVICE_UNAVAILABLE, error)
            },
            Refused::Unavailable(_) => Self {
                code: Some("store_unavailable"),
                retry_after: Some(STORE_RETRY),
                ..Self::new(StatusCode::SERVICE_UNAVAILABLE, error)
            },
        }
    }
}

impl From<Unreadable> for Failure {
    fn from(unreadable: Unreadable) -> Self {
        Self::new(StatusCode::BAD_REQUEST, unreadable.to_string())
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        refusals::count(self.status);
        let mut response = json(self.status, &ErrorBody { error: &self.error, code: self.code });
        if let Some(pause) = self.retry_after {
            // Whole seconds, rounded up: 0 would mean "at once".
            let seconds = pause.as_millis().div_ceil(1000).max(1);
            if let Ok(value) = HeaderValue::try_from(seconds.to_string()) {
                response.headers_mut().insert(RETRY_AFTER, value);
            }
        }
        response
    }
}

/// A panic in a handler is answered, not left to end the connection without a word.
pub(crate) fn caught<F>(handler: F) -> impl Future<Output = Response> + use<F>
where
    F: Future<Output = Result<Response, Infallible>>,
{
    AssertUnwindSafe(handler).catch_unwind().map(|ended| match ended {
        Ok(Ok(response)) => response,
        Ok(Err(never)) => match never {},
        Err(_) => {
            tracing::error!("a handler panicked");
            Failure::new(StatusCode::INTERNAL_SERVER_ERROR, "internal error").into_response()
        }
    })
}

/// `value` as a JSON answer.
pub(crate) fn json(status: StatusCode, value: &impl Serialize) -> Response {
    json_of(status, value, 128)
}

/// The same of about so many bytes: a large answer is then spelled in one place, and not moved while it grows.
pub(crate) fn json_of(status: StatusCode, value: &impl Serialize, about: usize) -> Response {
    let mut bytes = Vec::with_capacity(about);
    match serde_json::to_writer(&mut bytes, value) {
        Ok(()) => json_body(status, Body::from(bytes)),
        Err(error) => {
            tracing::error!(%error, "answer could not be spelled");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

/// A JSON answer that is spelled already.
pub(crate) fn json_body(status: StatusCode, body: Body) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_refusal_has_its_status() {
        let busy = Refused::Busy { reason: "full".into(), retry_after: Duration::from_millis(1200) };
        for (refused, status, retry) in [
            (Refused::Invalid("x".into()), 400, None),
            (Refused::NotFound("x".into()), 404, None),
            (Refused::Conflict("x".into()), 409, None),
            (busy, 429, Some("2")),
            (Refused::Maintenance("x".into()), 503, Some("5")),
            (Refused::Unavailable("x".into()), 503, Some("1")),
        ] {
            let response = Failure::from(refused).into_response();
            assert_eq!(response.status(), status);
            assert_eq!(response.headers().get(RETRY_AFTER).map(|v| v.to_str().unwrap()), retry);
        }
    }
}
