//! OpenTelemetry: a span for each traced request, and the families of `/metrics`, sent to a collector as OTLP over HTTP.
//!
//! Off by default, and then a request costs one look at an option. Whatever the collector does, requests never wait for it: spans go
//! into a bounded queue, and what does not fit is dropped and counted. `docs/decisions/0015-telemetry.md` says why this is no SDK.
//!
//! Modules in reading order; each uses only those above it.

pub(crate) mod span;

mod proto;

mod collector;
mod exporter;
mod sampling;

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use bugle_store::TraceContext;
use http::{HeaderName, HeaderValue, Method, Request, StatusCode, Uri};
use tokio::sync::mpsc;

use crate::edge::{Edge, Export};
use sampling::Sampling;
use span::{Begun, Span, Traced};

pub use exporter::{Exporter, Exporting};

/// Spans that wait to be sent; more are dropped.
const MAX_WAITING: usize = 2048;

/// Where telemetry goes, and how much of it.
#[derive(Clone, Debug)]
pub struct TelemetryConfig {
    /// Where spans go; `None` = nowhere.
    pub traces: Option<Uri>,
    /// Where metrics go; `None` = nowhere.
    pub metrics: Option<Uri>,
    /// Sent with every request; values are marked as sensitive.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// Time for one request to the collector.
    pub timeout: Duration,
    /// Share of the traces that begin here which are recorded. Others follow their caller.
    pub ratio: f64,
    /// Between two reports of metrics.
    pub metrics_interval: Duration,
    /// What sends: `service.name` and so on.
    pub resource: Vec<(String, String)>,
}

/// Traces requests. Copies are one; the default traces none.
#[derive(Clone, Default)]
pub struct Telemetry(Option<Arc<Tracer>>);

struct Tracer {
    spans: mpsc::Sender<Span>,
    sampling: Sampling,
    /// Paths of all routes, with their parameters in braces.
    paths: Vec<&'static str>,
    edge: Edge,
}

impl std::fmt::Debug for Telemetry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0.is_some() { "Telemetry(on)" } else { "Telemetry(off)" })
    }
}

impl Telemetry {
    /// What traces, and what sends it: nothing is sent before [`Exporter::start`].
    pub(crate) fn new(config: TelemetryConfig, edge: Edge, paths: Vec<&'static str>) -> (Self, Exporter) {
        let (spans, waiting) = mpsc::channel(MAX_WAITING);
        let tracer = config.traces.is_some().then(|| {
            let sampling = Sampling::new(config.ratio);
            Arc::new(Tracer { spans, sampling, paths, edge: edge.clone() })
        });
        (Self(tracer), Exporter::new(config, waiting, edge))
    }

    /// Begin the span of a request, if it is to be recorded. Its handler finds it among the request's extensions.
    pub(crate) fn begin(
        &self,
        request: &mut Request<Body>,
        caller: Option<&TraceContext>,
    ) -> Option<Box<Recording>> {
        let tracer = self.0.as_ref()?;
        let path = request.uri().path();
        let route = tracer.paths.iter().find(|route| matches(route, path))?;
        let pops = route.starts_with("/api/v1/pop");
        // Looks of dashboards and scrapers begin no trace.
        let begins = route.starts_with("/api/") && (pops || *request.method() != Method::GET);
        let trace_id = tracer.sampling.decide(caller, begins)?;
        let begun = Begun::now();
        let mut span = Span {
            trace_id,
            span_id: fastrand::u64(1..).to_be_bytes(),
            parent: caller.map(|caller| caller.parent_id),
            state: caller.and_then(|caller| caller.state.clone()),
            name: format!("{} {route}", request.method()),
            start: begun.nanos(),
            // A consumer that waits and gets nothing would fill the collector with its patience.
            idle: pops && caller.is_none(),
            ..Span::default()
        };
        span.set("http.request.method", request.method().as_str());
        span.set("http.route", *route);
        span.set("url.path", path);
        let (trace_id, span_id) = (span.trace_id, span.span_id);
        let traced = Traced::new(span);
        request.extensions_mut().insert(traced.clone());
        // In a box: a waiting pop that nobody traces keeps no room for it.
        Some(Box::new(Recording { tracer: tracer.clone(), traced, begun, trace_id, span_id }))
    }
}

/// Whether a path belongs to a route.
fn matches(route: &str, path: &str) -> bool {
    let (mut wanted, mut parts) = (route.split('/'), path.split('/'));
    loop {
        match (wanted.next(), parts.next()) {
            (None, None) => return true,
            (Some(wanted), Some(part)) if wanted == part || wanted.starts_with('{') && !part.is_empty() => {}
            _ => return false,
        }
    }
}

/// A span until its request is over: sent when it is dropped.
pub(crate) struct Recording {
    tracer: Arc<Tracer>,
    traced: Traced,
    begun: Begun,
    pub(crate) trace_id: [u8; 16],
    pub(crate) span_id: [u8; 8],
}

impl Recording {
    /// There is an answer.
    pub(crate) fn answered(&self, status: StatusCode) {
        self.traced.with(|span| {
            span.set("http.response.status_code", usize::from(status.as_u16()));
            span.idle &= status.is_success();
            if status.is_server_error() {
                span.set("error.type", status.as_str());
                span.failed = true;
            }
        });
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        let (mut over, end) = (Span::default(), self.begun.later());
        self.traced.with(|span| over = std::mem::take(span));
        if over.idle {
            return;
        }
        over.end = end;
        if !over.attributes.iter().any(|(key, _)| *key == "http.response.status_code") {
            over.set("error.type", "cancelled");
        }
        if self.tracer.spans.try_send(over).is_err() {
            self.tracer.edge.exported(Export::SpansDropped, 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_belong_to_routes_by_their_parts() {
        assert!(matches("/api/v1/push", "/api/v1/push"));
        assert!(matches("/api/v1/pop/queue/{queue}", "/api/v1/pop/queue/a%2Fb"));
        for path in
            ["/api/v1/pop/queue/", "/api/v1/pop/queue", "/api/v1/pop/queue/a/b", "/api/v2/pop/queue/a"]
        {
            assert!(!matches("/api/v1/pop/queue/{queue}", path), "{path}");
        }
    }

    #[test]
    fn what_does_not_fit_is_dropped_and_counted() {
        let edge = Edge::default();
        let config = TelemetryConfig {
            traces: Some(Uri::from_static("http://127.0.0.1:1/v1/traces")),
            metrics: None,
            headers: Vec::new(),
            timeout: Duration::from_secs(1),
            ratio: 1.0,
            metrics_interval: Duration::from_secs(1),
            resource: Vec::new(),
        };
        let (telemetry, _exporter) = Telemetry::new(config, edge.clone(), vec!["/api/v1/push", "/health"]);
        let begin = |method: Method, path: &'static str| {
            let mut request = Request::new(Body::empty());
            (*request.method_mut(), *request.uri_mut()) = (method, Uri::from_static(path));
            telemetry.begin(&mut request, None)
        };
        assert!(begin(Method::GET, "/health").is_none() && begin(Method::POST, "/other").is_none());
        for _ in 0..MAX_WAITING + 3 {
            begin(Method::POST, "/api/v1/push").unwrap().answered(StatusCode::CREATED);
        }
        assert_eq!(edge.read().exports[Export::SpansDropped as usize], 3);
    }
}
