//! A collector of OpenTelemetry: takes OTLP over HTTP and reads it with the types that others have generated.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::metrics::v1::Metric;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use tokio::net::TcpListener;

use super::until_true;

/// What has come so far.
#[derive(Default)]
struct Taken {
    spans: Vec<Span>,
    metrics: Vec<Metric>,
    resource: Vec<KeyValue>,
    headers: Vec<HeaderMap>,
}

/// See the module.
#[derive(Clone)]
pub(crate) struct Collector {
    taken: Arc<Mutex<Taken>>,
    endpoint: String,
}

impl Collector {
    /// Listen on a free port.
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let collector = Self { taken: Arc::default(), endpoint };
        let serving = collector.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let collector = serving.clone();
                let service = service_fn(move |request| collector.clone().take(request));
                let serving = hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), service);
                tokio::spawn(serving);
            }
        });
        collector
    }

    async fn take(self, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
        let (parts, body) = request.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        assert_eq!(parts.headers["content-type"], "application/x-protobuf");
        let mut taken = self.taken.lock().unwrap();
        match parts.uri.path() {
            "/v1/traces" => {
                for of in ExportTraceServiceRequest::decode(body).unwrap().resource_spans {
                    taken.resource = of.resource.unwrap().attributes;
                    taken.spans.extend(of.scope_spans.into_iter().flat_map(|scoped| scoped.spans));
                }
            }
            "/v1/metrics" => {
                for of in ExportMetricsServiceRequest::decode(body).unwrap().resource_metrics {
                    taken.metrics.extend(of.scope_metrics.into_iter().flat_map(|scoped| scoped.metrics));
                }
            }
            other => panic!("nothing is sent to {other}"),
        }
        taken.headers.push(parts.headers);
        Ok(Response::new(Full::default()))
    }

    /// Where it listens.
    pub(crate) fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// Wait for a span.
    pub(crate) async fn span(&self, what: &str, fits: impl Fn(&Span) -> bool) -> Span {
        until_true(what, async || self.taken.lock().unwrap().spans.iter().any(&fits)).await;
        self.taken.lock().unwrap().spans.iter().find(|span| fits(span)).unwrap().clone()
    }

    /// Wait for a metric of this name.
    pub(crate) async fn metric(&self, name: &str, fits: impl Fn(&Metric) -> bool) -> Metric {
        let fits = |metric: &Metric| metric.name == name && fits(metric);
        until_true(name, async || self.taken.lock().unwrap().metrics.iter().any(fits)).await;
        self.taken.lock().unwrap().metrics.iter().find(|metric| fits(metric)).unwrap().clone()
    }

    /// All spans so far.
    pub(crate) fn spans(&self) -> Vec<Span> {
        self.taken.lock().unwrap().spans.clone()
    }

    /// An attribute of what sends.
    pub(crate) fn resource(&self, key: &str) -> Option<String> {
        text(&self.taken.lock().unwrap().resource, key)
    }

    /// A header that came with all requests.
    pub(crate) fn header(&self, name: &str) -> Option<String> {
        let taken = self.taken.lock().unwrap();
        let mut values =
            taken.headers.iter().map(|headers| headers.get(name)?.to_str().ok().map(str::to_owned));
        let first = values.next()??;
        values.all(|value| value.as_ref() == Some(&first)).then_some(first)
    }
}

/// An attribute, spelled.
pub(crate) fn text(attributes: &[KeyValue], key: &str) -> Option<String> {
    let pair = attributes.iter().find(|pair| pair.key == key)?;
    match pair.value.as_ref()?.value.as_ref()? {
        Value::StringValue(text) => Some(text.clone()),
        Value::IntValue(number) => Some(number.to_string()),
        other => panic!("{other:?}"),
    }
}
