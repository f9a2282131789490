//! Spans in the making: one for each request that is traced, added to by the handler, sent when the request is over.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use axum::extract::FromRequestParts;
use bugle_store::TraceContext;
use bytes::Bytes;
use http::request::Parts;

/// Most links of one span: a batch may hold thousands of messages.
pub(crate) const MAX_LINKS: usize = 128;

/// A span that is over, or will be.
#[derive(Clone, Debug, Default)]
pub(crate) struct Span {
    pub(crate) trace_id: [u8; 16],
    pub(crate) span_id: [u8; 8],
    pub(crate) parent: Option<[u8; 8]>,
    pub(crate) state: Option<Bytes>,
    pub(crate) name: String,
    /// Nanoseconds of the Unix era.
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) attributes: Vec<(&'static str, Attribute)>,
    pub(crate) links: Vec<Arc<TraceContext>>,
    pub(crate) dropped_links: u32,
    pub(crate) failed: bool,
    /// Nothing happened that is worth telling.
    pub(crate) idle: bool,
}

/// Value of an attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Attribute {
    Text(String),
    Int(i64),
}

impl From<&str> for Attribute {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<usize> for Attribute {
    fn from(number: usize) -> Self {
        Self::Int(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl Span {
    pub(crate) fn set(&mut self, key: &'static str, value: impl Into<Attribute>) {
        self.attributes.push((key, value.into()));
    }

    /// Link to the trace of a message.
    fn link(&mut self, context: &Arc<TraceContext>) {
        let own = context.trace_id == self.trace_id && Some(context.parent_id) == self.parent;
        // Messages of one push have one context.
        if own || self.links.last().is_some_and(|last| last == context) {
            return;
        }
        if self.links.len() < MAX_LINKS {
            self.links.push(context.clone());
        } else {
            self.dropped_links += 1;
        }
    }
}

/// What a request does with messages, in the words of the semantic conventions for messaging.
pub(crate) struct Handling<'a> {
    /// `send`, `receive` or `settle`.
    pub(crate) kind: &'static str,
    /// Ours for it.
    pub(crate) name: &'static str,
    pub(crate) queue: Option<&'a str>,
    pub(crate) partition: Option<&'a str>,
    pub(crate) group: Option<&'a str>,
    pub(crate) messages: usize,
}

/// The span of a request, for its handler; nothing if the request is not traced.
#[derive(Clone, Default)]
pub(crate) struct Traced(Option<Arc<Mutex<Span>>>);

impl Traced {
    pub(crate) fn new(span: Span) -> Self {
        Self(Some(Arc::new(Mutex::new(span))))
    }

    /// Tell what the request does. Costs nothing if nobody traces it.
    pub(crate) fn tell<'a>(
        &self,
        operation: impl FnOnce() -> Handling<'a>,
        contexts: impl Iterator<Item = &'a Arc<TraceContext>>,
    ) {
        let Some(span) = &self.0 else { return };
        let operation = operation();
        let mut span = span.lock().unwrap_or_else(PoisonError::into_inner);
        span.name =
            operation.queue.map_or(operation.name.to_owned(), |queue| format!("{} {queue}", operation.name));
        span.set("messaging.system", "bugle");
        span.set("messaging.operation.type", operation.kind);
        span.set("messaging.operation.name", operation.name);
        span.set("messaging.batch.message_count", operation.messages);
        for (key, value) in [
            ("messaging.destination.name", operation.queue),
            ("messaging.destination.partition.id", operation.partition),
            ("messaging.consumer.group.name", operation.group),
        ] {
            if let Some(value) = value {
                span.set(key, value);
            }
        }
        span.idle &= operation.messages == 0;
        contexts.for_each(|context| span.link(context));
    }

    pub(crate) fn with(&self, change: impl FnOnce(&mut Span)) {
        if let Some(span) = &self.0 {
            change(&mut span.lock().unwrap_or_else(PoisonError::into_inner));
        }
    }
}

impl<S: Sync> FromRequestParts<S> for Traced {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(parts.extensions.get().cloned().unwrap_or_default())
    }
}

/// What all of them have in common, or nothing.
pub(crate) fn common<'a>(mut all: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let first = all.next()?;
    all.all(|other| other == first).then_some(first)
}

/// A moment on the clock of the machine, from which time is counted without it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Begun(u64, Instant);

impl Begun {
    pub(crate) fn now() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self(u64::try_from(since.as_nanos()).unwrap_or_default(), Instant::now())
    }

    /// Nanoseconds of the Unix era.
    pub(crate) fn nanos(self) -> u64 {
        self.0
    }

    /// The present, in nanoseconds of the Unix era.
    pub(crate) fn later(self) -> u64 {
        self.0 + u64::try_from(self.1.elapsed().as_nanos()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn context(id: u8) -> Arc<TraceContext> {
        Arc::new(TraceContext { trace_id: [id; 16], parent_id: [id; 8], flags: 1, state: None })
    }

    #[test]
    fn links_are_told_once_and_have_a_bound() {
        let mut span = Span { trace_id: [1; 16], parent: Some([1; 8]), ..Span::default() };
        [1, 2, 2, 3].iter().for_each(|id| span.link(&context(*id)));
        assert_eq!(span.links, [context(2), context(3)], "the parent is no link");
        (4..204).for_each(|id| span.link(&context(id)));
        assert_eq!((span.links.len(), span.dropped_links), (MAX_LINKS, 202 - MAX_LINKS as u32));
    }

    #[test]
    fn an_operation_is_told_in_the_words_of_the_conventions() {
        let traced = Traced::new(Span { idle: true, ..Span::default() });
        let operation = || Handling {
            kind: "receive",
            name: "pop",
            queue: Some("orders"),
            partition: None,
            group: Some("g"),
            messages: 2,
        };
        traced.tell(operation, [context(1)].iter());
        traced.with(|span| {
            assert_eq!((span.name.as_str(), span.idle, span.links.len()), ("pop orders", false, 1));
            for (key, value) in [
                ("messaging.operation.type", Attribute::from("receive")),
                ("messaging.consumer.group.name", "g".into()),
                ("messaging.batch.message_count", 2_usize.into()),
            ] {
                assert!(span.attributes.contains(&(key, value)), "{key}");
            }
        });
        Traced::default().tell(|| unreachable!("nobody traces it"), [].iter());
    }

    #[test]
    fn what_differs_is_not_common() {
        assert_eq!(common(["a", "a"].into_iter()), Some("a"));
        assert_eq!(common(["a", "b"].into_iter()), None);
        assert_eq!(common([].into_iter()), None);
    }
}
