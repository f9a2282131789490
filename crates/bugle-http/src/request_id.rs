//! A name for each pop, so that its lines in the log can be told from those of the others.
//!
//! A waiting pop leaves lines minutes apart, among those of thousands like it. The client may bring a name of its own
//! (`X-Request-Id`) and find it here again; otherwise one is made up.

use std::borrow::Cow;
use std::convert::Infallible;

use axum::extract::FromRequestParts;
use http::HeaderMap;
use http::request::Parts;
use tracing::{Level, Span};
use uuid::Uuid;

/// Longest name taken from a client.
const MAX_BYTES: usize = 128;

/// The span of one request, as handlers take it: nothing else of the headers is kept.
pub(crate) struct RequestSpan(pub(crate) Span);

impl<S: Sync> FromRequestParts<S> for RequestSpan {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self(span(&parts.headers)))
    }
}

/// The span of one request. Costs nothing unless the broker's debug lines are written: it is the broker's span, so that
/// a filter like `info,bugle_broker=debug` shows it.
fn span(headers: &HeaderMap) -> Span {
    if !tracing::enabled!(target: "bugle_broker", Level::DEBUG) {
        return Span::none();
    }
    tracing::debug_span!(target: "bugle_broker", "request", id = %id(headers))
}

/// The client's name for its request, if it is fit for a log; otherwise a random one.
fn id(headers: &HeaderMap) -> Cow<'_, str> {
    // `to_str` passes printable ASCII and tabs.
    let given = headers.get("x-request-id").and_then(|value| value.to_str().ok());
    match given.filter(|id| (1..=MAX_BYTES).contains(&id.len()) && !id.contains('\t')) {
        Some(id) => Cow::Borrowed(id),
        None => Cow::Owned(format!("{:016x}", Uuid::new_v4().as_u64_pair().1)),
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn of(value: &[u8]) -> String {
        let mut headers = HeaderMap::new();
        headers.insert("x-request-id", HeaderValue::from_bytes(value).unwrap());
        id(&headers).into_owned()
    }

    #[test]
    fn a_printable_name_is_kept() {
        let longest = "x".repeat(MAX_BYTES);
        for name in ["7", "order 12/b: \"c\"", &*longest] {
            assert_eq!(of(name.as_bytes()), name);
        }
    }

    #[test]
    fn another_is_made_up_for_what_is_absent_or_unfit() {
        let mut seen = vec![id(&HeaderMap::new()).into_owned()];
        seen.extend([&b""[..], b"a\tb", "é".as_bytes(), "x".repeat(MAX_BYTES + 1).as_bytes()].map(of));
        for name in &seen {
            assert!(name.len() == 16 && name.bytes().all(|b| b.is_ascii_hexdigit()), "{name}");
        }
        seen.sort();
        seen.dedup();
        assert_eq!(seen.len(), 5, "all different");
    }
}
