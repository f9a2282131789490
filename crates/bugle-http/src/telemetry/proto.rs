//! What OTLP sends, as protobuf: the few messages and fields of it that are used here, written by hand.
//!
//! Field numbers are those of `opentelemetry-proto` 1.x, which never change. The tests read what is written with the types that
//! others have generated from it.

use crate::exposition::{Kind, Metric, Number, Point, Value};
use crate::telemetry::span::{Attribute, Span};

const SERVER: u64 = 2;
const CUMULATIVE: u64 = 2;
const ERROR: u64 = 2;
/// The parent of a span, or a link, is in another process.
const REMOTE: u32 = 0x300;

/// A protobuf message in the making.
#[derive(Default)]
struct Out(Vec<u8>);

impl Out {
    fn raw_varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn key(&mut self, field: u64, wire: u64) {
        self.raw_varint(field << 3 | wire);
    }

    fn varint(&mut self, field: u64, value: u64) {
        self.key(field, 0);
        self.raw_varint(value);
    }

    fn fixed64(&mut self, field: u64, value: u64) {
        self.key(field, 1);
        self.0.extend(value.to_le_bytes());
    }

    fn fixed32(&mut self, field: u64, value: u32) {
        self.key(field, 5);
        self.0.extend(value.to_le_bytes());
    }

    fn double(&mut self, field: u64, value: f64) {
        self.fixed64(field, value.to_bits());
    }

    fn bytes(&mut self, field: u64, value: &[u8]) {
        self.key(field, 2);
        self.raw_varint(value.len() as u64);
        self.0.extend_from_slice(value);
    }

    fn text(&mut self, field: u64, value: &str) {
        self.bytes(field, value.as_bytes());
    }

    fn message(&mut self, field: u64, write: impl FnOnce(&mut Self)) {
        let mut inner = Self::default();
        write(&mut inner);
        self.bytes(field, &inner.0);
    }

    fn packed(&mut self, field: u64, values: impl Iterator<Item = u64>) {
        let bytes: Vec<u8> = values.flat_map(u64::to_le_bytes).collect();
        self.bytes(field, &bytes);
    }

    fn attribute(&mut self, field: u64, key: &str, value: &Attribute) {
        self.message(field, |pair| {
            pair.text(1, key);
            pair.message(2, |any| match value {
                Attribute::Text(text) => any.text(1, text),
                Attribute::Int(number) => any.varint(3, *number as u64),
            });
        });
    }

    fn label(&mut self, field: u64, (key, value): &(String, String)) {
        self.message(field, |pair| {
            pair.text(1, key);
            pair.message(2, |any| any.text(1, value));
        });
    }

    /// The part that both signals have in common: what sends, and which part of it.
    fn resource(&mut self, attributes: &[(String, String)], write: impl FnOnce(&mut Self)) {
        self.message(1, |of| {
            of.message(1, |resource| attributes.iter().for_each(|pair| resource.label(1, pair)));
            of.message(2, |scoped| {
                scoped.message(1, |scope| {
                    scope.text(1, "bugle");
                    scope.text(2, env!("CARGO_PKG_VERSION"));
                });
                write(scoped);
            });
        });
    }
}

/// `ExportTraceServiceRequest`.
pub(crate) fn spans(resource: &[(String, String)], spans: &[Span]) -> Vec<u8> {
    let mut out = Out::default();
    out.resource(resource, |scoped| {
        spans.iter().for_each(|span| scoped.message(2, |out| write_span(out, span)));
    });
    out.0
}

fn write_span(out: &mut Out, span: &Span) {
    out.bytes(1, &span.trace_id);
    out.bytes(2, &span.span_id);
    if let Some(state) = &span.state {
        out.bytes(3, state);
    }
    if let Some(parent) = span.parent {
        out.bytes(4, &parent);
    }
    out.text(5, &span.name);
    out.varint(6, SERVER);
    out.fixed64(7, span.start);
    out.fixed64(8, span.end);
    span.attributes.iter().for_each(|(key, value)| out.attribute(9, key, value));
    for link in &span.links {
        out.message(13, |out| {
            out.bytes(1, &link.trace_id);
            out.bytes(2, &link.parent_id);
            if let Some(state) = &link.state {
                out.bytes(3, state);
            }
            out.fixed32(6, REMOTE | u32::from(link.flags));
        });
    }
    if span.dropped_links > 0 {
        out.varint(14, span.dropped_links.into());
    }
    if span.failed {
        out.message(15, |status| status.varint(3, ERROR));
    }
    let remote = if span.parent.is_some() { REMOTE } else { 0x100 };
    out.fixed32(16, remote | 1);
}

/// `ExportMetricsServiceRequest`. Counters count since `start`; both times are nanoseconds of the Unix era.
pub(crate) fn metrics(resource: &[(String, String)], metrics: &[Metric], start: u64, now: u64) -> Vec<u8> {
    let mut out = Out::default();
    out.resource(resource, |scoped| {
        for metric in metrics.iter().filter(|metric| !metric.points.is_empty()) {
            scoped.message(2, |out| write_metric(out, metric, (start, now)));
        }
    });
    out.0
}

fn write_metric(out: &mut Out, metric: &Metric, times: (u64, u64)) {
    out.text(1, metric.name);
    out.text(2, &metric.help);
    if metric.name.ends_with("_seconds") {
        out.text(3, "s");
    } else if metric.name.ends_with("_bytes") {
        out.text(3, "By");
    }
    let field = match metric.kind {
        Kind::Gauge => 5,
        Kind::Counter => 7,
        Kind::Histogram => 9,
    };
    out.message(field, |data| {
        metric.points.iter().for_each(|point| data.message(1, |out| write_point(out, point, times)));
        if metric.kind != Kind::Gauge {
            data.varint(2, CUMULATIVE);
        }
        if metric.kind == Kind::Counter {
            data.varint(3, 1);
        }
    });
}

fn write_point(out: &mut Out, point: &Point, (start, now): (u64, u64)) {
    out.fixed64(2, start);
    out.fixed64(3, now);
    match &point.value {
        Value::One(Number::Int(number)) => out.fixed64(6, *number as u64),
        Value::One(Number::Float(number)) => out.double(4, *number),
        Value::Durations(reading) => {
            out.fixed64(4, reading.count);
            out.double(5, reading.sum);
            // Ours are cumulative, theirs are not, and the last one has no bound.
            let ends = reading.buckets.iter().map(|(_, count)| *count).chain([reading.count]);
            let mut before = 0;
            out.packed(6, ends.map(|end| end.saturating_sub(std::mem::replace(&mut before, end))));
            out.packed(7, reading.buckets.iter().map(|(bound, _)| bound.to_bits()));
        }
    }
    let labels = if matches!(point.value, Value::Durations(_)) { 9 } else { 7 };
    point.labels.iter().for_each(|pair| out.label(labels, pair));
}

#[cfg(test)]
mod tests;
