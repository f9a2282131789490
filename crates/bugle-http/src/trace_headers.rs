//! The W3C trace context of a request: its `traceparent` and `tracestate` headers.

use std::sync::Arc;

use bugle_store::TraceContext;
use http::{HeaderMap, HeaderName};

const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");

/// The context that a request brings. A header that is not valid is as if it were not there, as the recommendation wants it; so is
/// one that is there twice.
pub(crate) fn of(headers: &HeaderMap) -> Option<Arc<TraceContext>> {
    let mut parents = headers.get_all(TRACEPARENT).iter();
    let (Some(parent), None) = (parents.next(), parents.next()) else { return None };
    let mut context = TraceContext::parse(parent.as_bytes().trim_ascii())?;
    let states: Vec<&str> =
        headers.get_all(TRACESTATE).iter().filter_map(|state| state.to_str().ok()).collect();
    if !states.is_empty() {
        context.state = TraceContext::parse_state(&states.join(","));
    }
    Some(Arc::new(context))
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn read(headers: &[(&'static str, &str)]) -> Option<(String, Option<String>)> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        of(&map).map(|context| (context.text(), context.state_text().map(str::to_owned)))
    }

    #[test]
    fn a_state_in_several_headers_is_one_and_a_bad_one_is_none() {
        let parent = ("traceparent", PARENT);
        assert_eq!(read(&[parent]), Some((PARENT.into(), None)));
        assert_eq!(
            read(&[("tracestate", "a=1"), parent, ("tracestate", "b=2")]),
            Some((PARENT.into(), Some("a=1,b=2".into())))
        );
        assert_eq!(read(&[parent, ("tracestate", "not one")]), Some((PARENT.into(), None)));
    }

    #[test]
    fn no_context_without_one_valid_parent() {
        assert_eq!(read(&[]), None);
        assert_eq!(read(&[("tracestate", "a=1")]), None);
        assert_eq!(read(&[("traceparent", "00-x")]), None);
        assert_eq!(read(&[("traceparent", PARENT), ("traceparent", PARENT)]), None);
    }
}
