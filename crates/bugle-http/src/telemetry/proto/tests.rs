use std::sync::Arc;

use bugle_broker::HistogramReading;
use bugle_store::TraceContext;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value as PointValue;
use prost::Message;

use super::*;
use crate::exposition::Page;

fn resource() -> Vec<(String, String)> {
    vec![("service.name".into(), "bügle".into())]
}

#[test]
fn a_span_is_read_by_others_as_it_was_meant() {
    let link = TraceContext { trace_id: [3; 16], parent_id: [4; 8], flags: 1, state: Some("b=2".into()) };
    let mut span = Span {
        trace_id: [1; 16],
        span_id: [2; 8],
        parent: Some([9; 8]),
        state: Some("a=1".into()),
        name: "push orders".into(),
        start: 1_700_000_000_000_000_001,
        end: u64::MAX,
        links: vec![Arc::new(link)],
        dropped_links: 300,
        failed: true,
        ..Span::default()
    };
    span.set("messaging.system", "bugle");
    span.set("http.response.status_code", 503_usize);
    let plain = Span {
        trace_id: [5; 16],
        span_id: [6; 8],
        name: "x".repeat(300),
        start: 1,
        end: 2,
        ..Span::default()
    };
    let bytes = spans(&resource(), &[span, plain]);
    let read = ExportTraceServiceRequest::decode(&*bytes).unwrap();
    // They write the same bytes: nothing is there that they do not know.
    assert_eq!(read.encode_to_vec().len(), bytes.len());
    let of = &read.resource_spans[0];
    let name = &of.resource.as_ref().unwrap().attributes[0];
    assert_eq!((name.key.as_str(), text(name)), ("service.name", "bügle"));
    let scoped = &of.scope_spans[0];
    assert_eq!(scoped.scope.as_ref().unwrap().name, "bugle");
    let [span, plain] = &scoped.spans[..] else { panic!("{scoped:?}") };
    assert_eq!((&span.trace_id[..], &span.span_id[..]), (&[1; 16][..], &[2; 8][..]));
    assert_eq!((&span.parent_span_id[..], span.trace_state.as_str()), (&[9; 8][..], "a=1"));
    assert_eq!((span.name.as_str(), span.kind), ("push orders", 2));
    assert_eq!((span.start_time_unix_nano, span.end_time_unix_nano), (1_700_000_000_000_000_001, u64::MAX));
    assert_eq!(text(&span.attributes[0]), "bugle");
    let status = span.attributes[1].value.as_ref().and_then(|any| any.value.clone());
    assert_eq!(status, Some(Any::IntValue(503)));
    let link = &span.links[0];
    assert_eq!((&link.trace_id[..], &link.span_id[..]), (&[3; 16][..], &[4; 8][..]));
    assert_eq!((link.trace_state.as_str(), link.flags), ("b=2", 0x301));
    assert_eq!((span.dropped_links_count, span.status.as_ref().unwrap().code), (300, 2));
    assert_eq!((plain.name.len(), plain.parent_span_id.len(), plain.status.as_ref()), (300, 0, None));
}

fn text(pair: &opentelemetry_proto::tonic::common::v1::KeyValue) -> &str {
    match pair.value.as_ref().and_then(|any| any.value.as_ref()) {
        Some(Any::StringValue(text)) => text,
        other => panic!("{other:?}"),
    }
}

#[test]
fn metrics_are_read_by_others_as_they_were_meant() {
    let mut page = Page::of_points();
    page.counter("hits", "Hits.").sample(&[("verb", "é")], u64::MAX);
    page.gauge("up_seconds", "Up.").only(2.5);
    page.counter("none", "Nothing yet.");
    let reading = HistogramReading { buckets: vec![(0.1, 1), (1.0, 3)], count: 7, sum: 2.25 };
    page.histogram("took_seconds", "Took.", &reading);
    let bytes = metrics(&resource(), &page.points(), 5, 9);
    let read = ExportMetricsServiceRequest::decode(&*bytes).unwrap();
    assert_eq!(read.encode_to_vec().len(), bytes.len());
    let [hits, up, took] = &read.resource_metrics[0].scope_metrics[0].metrics[..] else { panic!("{read:?}") };
    assert_eq!((hits.name.as_str(), hits.description.as_str(), up.unit.as_str()), ("hits", "Hits.", "s"));
    let Some(Data::Sum(sum)) = &hits.data else { panic!("{hits:?}") };
    assert!(sum.is_monotonic && sum.aggregation_temporality == 2);
    let point = &sum.data_points[0];
    assert_eq!((point.start_time_unix_nano, point.time_unix_nano), (5, 9));
    assert_eq!(point.value, Some(PointValue::AsInt(i64::MAX)));
    assert_eq!((point.attributes[0].key.as_str(), text(&point.attributes[0])), ("verb", "é"));
    let Some(Data::Gauge(gauge)) = &up.data else { panic!("{up:?}") };
    assert_eq!(gauge.data_points[0].value, Some(PointValue::AsDouble(2.5)));
    let Some(Data::Histogram(histogram)) = &took.data else { panic!("{took:?}") };
    let point = &histogram.data_points[0];
    assert_eq!((point.count, point.sum, histogram.aggregation_temporality), (7, Some(2.25), 2));
    assert_eq!((&point.bucket_counts[..], &point.explicit_bounds[..]), (&[1, 2, 4][..], &[0.1, 1.0][..]));
}
