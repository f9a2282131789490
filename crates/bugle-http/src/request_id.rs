//! A name for each request, so that its lines in the logs can be told from those of the others.
//!
//! A waiting pop leaves lines minutes apart, among those of thousands like it. The client may bring a name of its own
//! (`X-Request-Id`) and find it again in the answer and in every log; otherwise one is made up.

use std::fmt;

use http::{HeaderMap, HeaderName, HeaderValue};
use tracing::{Level, Span};

/// Longest name taken from a client.
const MAX_BYTES: usize = 128;

/// The header that carries it, both ways.
pub(crate) const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The name of one request.
#[derive(Clone, Debug)]
pub(crate) enum RequestId {
    /// The client's own, fit for a log. A copy: the original would keep all headers in memory while a pop waits.
    Given(HeaderValue),
    /// Made up. Spelled only when it is needed.
    Made(u64),
}

impl RequestId {
    /// The client's name for its request, if it is printable ASCII of a sensible length; otherwise a random one.
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let given = headers.get(X_REQUEST_ID).map(HeaderValue::as_bytes).filter(|id| {
            (1..=MAX_BYTES).contains(&id.len()) && id.iter().all(|byte| (b' '..=b'~').contains(byte))
        });
        let copied = given.and_then(|id| HeaderValue::from_bytes(id).ok());
        copied.map_or_else(|| Self::Made(fastrand::u64(..)), Self::Given)
    }

    /// As a header of the answer.
    pub(crate) fn into_header(self) -> HeaderValue {
        match self {
            Self::Given(value) => value,
            Self::Made(id) => {
                let mut digits = [0; 16];
                for (at, digit) in digits.iter_mut().enumerate() {
                    *digit = b"0123456789abcdef"[(id >> (60 - 4 * at)) as usize & 15];
                }
                HeaderValue::from_bytes(&digits).unwrap_or(HeaderValue::from_static("-"))
            }
        }
    }

    /// The span of the request. Costs nothing unless the broker's debug lines are written (it is the broker's span, so
    /// that a filter like `info,bugle_broker=debug` shows it) or the request belongs to a trace: then every line says which.
    pub(crate) fn span(&self, trace: Option<&TraceIds>) -> Span {
        if let Some(TraceIds { trace_id, span_id }) = trace {
            return tracing::error_span!(
                target: "bugle_broker", "request", id = %self, trace_id = %Hex(trace_id), span_id = %Hex(span_id)
            );
        }
        if !tracing::enabled!(target: "bugle_broker", Level::DEBUG) {
            return Span::none();
        }
        tracing::debug_span!(target: "bugle_broker", "request", id = %self)
    }
}

/// The trace that a request belongs to, and the span in it: its own if it is recorded, otherwise its caller's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TraceIds {
    pub(crate) trace_id: [u8; 16],
    pub(crate) span_id: [u8; 8],
}

/// Bytes as they are spelled in logs.
pub(crate) struct Hex<'a>(pub(crate) &'a [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Given(value) => f.write_str(value.to_str().unwrap_or_default()),
            Self::Made(id) => write!(f, "{id:016x}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(value: &[u8]) -> String {
        let mut headers = HeaderMap::new();
        headers.insert(X_REQUEST_ID, HeaderValue::from_bytes(value).unwrap());
        RequestId::of(&headers).to_string()
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
        let mut seen = vec![RequestId::of(&HeaderMap::new()).to_string()];
        seen.extend([&b""[..], b"a\tb", "é".as_bytes(), "x".repeat(MAX_BYTES + 1).as_bytes()].map(of));
        for name in &seen {
            assert!(name.len() == 16 && name.bytes().all(|b| b.is_ascii_hexdigit()), "{name}");
        }
        seen.sort();
        seen.dedup();
        assert_eq!(seen.len(), 5, "all different");
    }

    #[test]
    fn the_header_says_what_the_log_says() {
        for id in [RequestId::Made(0), RequestId::Made(0xfedc_ba98_7654_3210), RequestId::Made(7)] {
            assert_eq!(id.clone().into_header().to_str().unwrap(), id.to_string());
        }
    }
}
