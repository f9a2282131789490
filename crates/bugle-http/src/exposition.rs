//! Metrics of one moment: written as text (Prometheus 0.0.4, OpenMetrics 1.0), or gathered as points for whoever sends them.
//!
//! Why not a metrics crate: they keep registries of live counters and speak one of the formats. Here the numbers are
//! a copy of one moment that the broker hands out, told once and forgotten, in any form; that is a page of code.
//!
//! The texts differ in little: OpenMetrics names a counter's family without `_total` and ends with `# EOF`.

use std::fmt::{self, Display, Write};

use bugle_broker::HistogramReading;

/// Content types of the two formats.
pub(crate) const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";
pub(crate) const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// A page in the making.
pub(crate) struct Page {
    form: Form,
}

enum Form {
    Text { out: String, open_metrics: bool },
    Points(Vec<Metric>),
}

/// A family of metrics, as points.
#[derive(Clone, Debug)]
pub(crate) struct Metric {
    /// Without `_total`.
    pub(crate) name: &'static str,
    pub(crate) help: String,
    pub(crate) kind: Kind,
    pub(crate) points: Vec<Point>,
}

/// What a family counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Only grows.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Durations in buckets.
    Histogram,
}

/// One number of a family.
#[derive(Clone, Debug)]
pub(crate) struct Point {
    pub(crate) labels: Vec<(String, String)>,
    pub(crate) value: Value,
}

/// See [`Point`].
#[derive(Clone, Debug)]
pub(crate) enum Value {
    One(Number),
    Durations(HistogramReading),
}

/// A number of either kind.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Number {
    /// Saturating where it is sent in 63 bits; in texts the whole of it.
    Int(i64),
    Float(f64),
}

/// What can be a sample.
pub(crate) trait Sample: Display {
    fn number(&self) -> Number;
}

macro_rules! samples {
    ($($whole:ty),*) => {$(
        impl Sample for $whole {
            fn number(&self) -> Number {
                Number::Int(i64::try_from(*self).unwrap_or(i64::MAX))
            }
        }
    )*};
}

samples!(u8, i32, u32, u64, usize);

impl Sample for f64 {
    fn number(&self) -> Number {
        Number::Float(*self)
    }
}

impl<T: Sample> Sample for &T {
    fn number(&self) -> Number {
        (**self).number()
    }
}

/// Samples of one family.
pub(crate) enum Family<'a> {
    Text { out: &'a mut String, name: &'static str, suffix: &'static str },
    Points(&'a mut Vec<Point>),
}

impl Page {
    /// A page of text.
    pub(crate) fn new(open_metrics: bool) -> Self {
        Self { form: Form::Text { out: String::with_capacity(16 << 10), open_metrics } }
    }

    /// A page of points.
    pub(crate) fn of_points() -> Self {
        Self { form: Form::Points(Vec::with_capacity(64)) }
    }

    /// Something that only grows; `name` goes without `_total`.
    pub(crate) fn counter(&mut self, name: &'static str, help: &str) -> Family<'_> {
        self.family(name, Kind::Counter, help)
    }

    /// Something that goes up and down.
    pub(crate) fn gauge(&mut self, name: &'static str, help: &str) -> Family<'_> {
        self.family(name, Kind::Gauge, help)
    }

    /// Durations in buckets.
    pub(crate) fn histogram(&mut self, name: &'static str, help: &str, reading: &HistogramReading) {
        match self.family(name, Kind::Histogram, help) {
            Family::Points(points) => {
                points.push(Point { labels: Vec::new(), value: Value::Durations(reading.clone()) });
            }
            Family::Text { out, .. } => {
                for (bound, count) in &reading.buckets {
                    // With a point always ("1.0"): the canonical form, so that both formats name the same series.
                    line(out, name, "_bucket", &[("le", &format!("{bound:?}"))], count);
                }
                line(out, name, "_bucket", &[("le", "+Inf")], &reading.count);
                line(out, name, "_sum", &[], &reading.sum);
                line(out, name, "_count", &[], &reading.count);
            }
        }
    }

    /// The whole page of text.
    pub(crate) fn finish(self) -> String {
        match self.form {
            Form::Text { mut out, open_metrics } => {
                out.push_str(if open_metrics { "# EOF\n" } else { "" });
                out
            }
            Form::Points(_) => String::new(),
        }
    }

    /// The whole page of points.
    pub(crate) fn points(self) -> Vec<Metric> {
        match self.form {
            Form::Points(metrics) => metrics,
            Form::Text { .. } => Vec::new(),
        }
    }

    fn family(&mut self, name: &'static str, kind: Kind, help: &str) -> Family<'_> {
        match &mut self.form {
            Form::Text { out, open_metrics } => {
                let suffix = if kind == Kind::Counter { "_total" } else { "" };
                introduce(out, name, if *open_metrics { "" } else { suffix }, kind, help);
                Family::Text { out, name, suffix }
            }
            Form::Points(metrics) => {
                metrics.push(Metric { name, help: help.to_owned(), kind, points: Vec::new() });
                let last = metrics.len() - 1;
                Family::Points(&mut metrics[last].points)
            }
        }
    }
}

impl Family<'_> {
    /// The family's only sample.
    pub(crate) fn only(&mut self, value: impl Sample) {
        self.sample(&[], value);
    }

    /// One sample with its labels.
    pub(crate) fn sample(&mut self, labels: &[(&str, &str)], value: impl Sample) {
        match self {
            Self::Text { out, name, suffix } => line(out, name, suffix, labels, &value),
            Self::Points(points) => {
                let owned = |(label, text): &(&str, &str)| ((*label).to_owned(), (*text).to_owned());
                let labels = labels.iter().map(owned).collect();
                points.push(Point { labels, value: Value::One(value.number()) });
            }
        }
    }
}

impl Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        })
    }
}

fn introduce(out: &mut String, name: &str, named: &str, kind: Kind, help: &str) {
    out.push_str("# HELP ");
    out.push_str(name);
    out.push_str(named);
    out.push(' ');
    escape(out, help);
    // Writing into a string cannot fail.
    let _ = write!(out, "\n# TYPE {name}{named} {kind}\n");
}

fn line(out: &mut String, name: &str, suffix: &str, labels: &[(&str, &str)], value: &dyn Display) {
    out.push_str(name);
    out.push_str(suffix);
    for (i, (label, text)) in labels.iter().enumerate() {
        out.push(if i == 0 { '{' } else { ',' });
        out.push_str(label);
        out.push_str("=\"");
        escape(out, text);
        out.push('"');
    }
    if !labels.is_empty() {
        out.push('}');
    }
    let _ = writeln!(out, " {value}");
}

/// Append `text` with what would end a label value or a line written as escapes.
fn escape(out: &mut String, text: &str) {
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            '\n' => out.push_str("\\n"),
            c => out.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(open_metrics: bool) -> String {
        let mut page = Page::new(open_metrics);
        page.gauge("up", "Whether it is.").only(1);
        let mut family = page.counter("hits", "Hits.");
        family.sample(&[("verb", "a"), ("why", "x")], 7_u64);
        family.sample(&[("verb", "b"), ("why", "y")], u64::MAX);
        page.histogram(
            "took_seconds",
            "Took.",
            &HistogramReading { buckets: vec![(0.0001, 1), (1.0, 3)], count: 4, sum: 2.25 },
        );
        page.counter("none", "Nothing yet.");
        page.finish()
    }

    #[test]
    fn text_is_spelled_as_prometheus_wants_it() {
        assert_eq!(
            page(false),
            "# HELP up Whether it is.\n# TYPE up gauge\nup 1\n\
             # HELP hits_total Hits.\n# TYPE hits_total counter\n\
             hits_total{verb=\"a\",why=\"x\"} 7\nhits_total{verb=\"b\",why=\"y\"} 18446744073709551615\n\
             # HELP took_seconds Took.\n# TYPE took_seconds histogram\n\
             took_seconds_bucket{le=\"0.0001\"} 1\ntook_seconds_bucket{le=\"1.0\"} 3\n\
             took_seconds_bucket{le=\"+Inf\"} 4\ntook_seconds_sum 2.25\ntook_seconds_count 4\n\
             # HELP none_total Nothing yet.\n# TYPE none_total counter\n"
        );
    }

    #[test]
    fn open_metrics_differs_in_the_names_of_counters_and_in_the_end() {
        let text =
            page(false).replace("HELP hits_total", "HELP hits").replace("TYPE hits_total", "TYPE hits");
        let text = text.replace("HELP none_total", "HELP none").replace("TYPE none_total", "TYPE none");
        assert_eq!(page(true), text + "# EOF\n");
    }

    #[test]
    fn labels_are_escaped() {
        let mut page = Page::new(false);
        page.gauge("x", "X.").sample(&[("q", "a\"b\\c\nd é }")], 0);
        assert!(page.finish().ends_with("\nx{q=\"a\\\"b\\\\c\\nd é }\"} 0\n"));
    }
}
