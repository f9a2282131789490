//! Writes metrics as text: Prometheus 0.0.4 and OpenMetrics 1.0.
//!
//! Why not a metrics crate: they keep registries of live counters and speak one of the two formats. Here the numbers are
//! a copy of one moment that the broker hands out, spelled once and forgotten, in either format; that is a page of code.
//!
//! The formats differ in little: OpenMetrics names a counter's family without `_total` and ends with `# EOF`.

use std::fmt::{Display, Write};

use bugle_broker::HistogramReading;

/// Content types of the two formats.
pub(crate) const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";
pub(crate) const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// A page in the making.
pub(crate) struct Page {
    out: String,
    open_metrics: bool,
}

/// Samples of one family.
pub(crate) struct Family<'a> {
    out: &'a mut String,
    name: &'static str,
    suffix: &'static str,
}

impl Page {
    pub(crate) fn new(open_metrics: bool) -> Self {
        Self { out: String::with_capacity(16 << 10), open_metrics }
    }

    /// Something that only grows; `name` goes without `_total`.
    pub(crate) fn counter(&mut self, name: &'static str, help: &str) -> Family<'_> {
        let named = if self.open_metrics { "" } else { "_total" };
        self.family(name, named, "counter", help, "_total")
    }

    /// Something that goes up and down.
    pub(crate) fn gauge(&mut self, name: &'static str, help: &str) -> Family<'_> {
        self.family(name, "", "gauge", help, "")
    }

    /// Durations in buckets.
    pub(crate) fn histogram(&mut self, name: &'static str, help: &str, reading: &HistogramReading) {
        let mut family = self.family(name, "", "histogram", help, "_bucket");
        for (bound, count) in &reading.buckets {
            // With a point always ("1.0"): the canonical form, so that both formats name the same series.
            family.sample(&[("le", &format!("{bound:?}"))], count);
        }
        family.sample(&[("le", "+Inf")], reading.count);
        family.suffix = "_sum";
        family.only(reading.sum);
        family.suffix = "_count";
        family.only(reading.count);
    }

    /// The whole page.
    pub(crate) fn finish(mut self) -> String {
        if self.open_metrics {
            self.out.push_str("# EOF\n");
        }
        self.out
    }

    fn family(
        &mut self,
        name: &'static str,
        named: &str,
        kind: &str,
        help: &str,
        suffix: &'static str,
    ) -> Family<'_> {
        self.out.push_str("# HELP ");
        self.out.push_str(name);
        self.out.push_str(named);
        self.out.push(' ');
        escape(&mut self.out, help);
        // Writing into a string cannot fail.
        let _ = write!(self.out, "\n# TYPE {name}{named} {kind}\n");
        Family { out: &mut self.out, name, suffix }
    }
}

impl Family<'_> {
    /// The family's only sample.
    pub(crate) fn only(&mut self, value: impl Display) {
        self.sample(&[], value);
    }

    /// One sample with its labels.
    pub(crate) fn sample(&mut self, labels: &[(&str, &str)], value: impl Display) {
        self.out.push_str(self.name);
        self.out.push_str(self.suffix);
        for (i, (label, text)) in labels.iter().enumerate() {
            self.out.push(if i == 0 { '{' } else { ',' });
            self.out.push_str(label);
            self.out.push_str("=\"");
            escape(self.out, text);
            self.out.push('"');
        }
        if !labels.is_empty() {
            self.out.push('}');
        }
        let _ = writeln!(self.out, " {value}");
    }
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
