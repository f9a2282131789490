//! What the growth curves found: base and point side by side, and which bars are met.

use std::fmt::Write;

use serde_json::{Value, json};

use super::lag::Lag;
use super::station::Part;
use crate::cli_growth::Axis;
use crate::stats::{median, round};

/// The rounds of one step on one side.
#[derive(Debug, Default, Clone)]
pub(crate) struct Side {
    rates: Vec<f64>,
    p50: Vec<f64>,
    p99: Vec<f64>,
    messages: u64,
    server: u64,
    database: Option<u64>,
    /// Messages that did not come in time.
    pub(crate) undelivered: u64,
    rss_kib: Option<u64>,
}

impl Side {
    pub(crate) fn add(&mut self, part: &Part) {
        self.rates.push(part.messages as f64 / part.seconds.max(1e-9));
        self.p50.push(part.p50);
        self.p99.push(part.p99);
        self.messages += part.messages;
        self.server += part.cpu.0;
        self.undelivered += part.undelivered;
        if let Some(micros) = part.cpu.1 {
            *self.database.get_or_insert(0) += micros;
        }
    }

    /// The same with the memory of its server after the rounds.
    pub(crate) fn with_memory(self, rss_kib: Option<u64>) -> Self {
        Self { rss_kib, ..self }
    }

    /// Messages per second, the median of the rounds.
    pub(crate) fn rate(&self) -> f64 {
        median(&self.rates)
    }

    fn per_message(&self, micros: u64) -> f64 {
        micros as f64 / self.messages.max(1) as f64
    }

    /// Microseconds of CPU per message of server and database, over all rounds: the counters tick too slowly for one.
    pub(crate) fn cost(&self) -> f64 {
        self.per_message(self.server + self.database.unwrap_or(0))
    }

    fn json(&self) -> Value {
        json!({
            "msgs_per_s": round(self.rate()), "rounds": self.rates.iter().map(|r| r.round()).collect::<Vec<_>>(),
            "server_us_per_msg": round(self.per_message(self.server)),
            "database_us_per_msg": self.database.map(|d| round(self.per_message(d))),
            "p50_ms": round(median(&self.p50)), "p99_ms": round(median(&self.p99)), "server_rss_kib": self.rss_kib,
        })
    }
}

/// One step at one point, beside the base.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub(crate) engine: &'static str,
    pub(crate) axis: Axis,
    pub(crate) base_point: String,
    pub(crate) point: String,
    pub(crate) verb: &'static str,
    /// Whether it is a time and not a rate that matters.
    pub(crate) is_time: bool,
    pub(crate) base: Side,
    pub(crate) grown: Side,
    pub(crate) remark: String,
}

impl Row {
    /// How many times slower than the base: by rate, or by the median time where a rate is given.
    pub(crate) fn slower(&self) -> f64 {
        if self.is_time {
            return median(&self.grown.p50) / median(&self.base.p50).abs().max(0.001);
        }
        self.base.rate() / self.grown.rate().max(1e-9)
    }

    /// How many times the CPU of the base a message takes; none where it was not counted.
    pub(crate) fn dearer(&self) -> Option<f64> {
        (!self.is_time && self.base.cost() > 0.0).then(|| self.grown.cost() / self.base.cost())
    }

    pub(crate) fn json(&self) -> Value {
        json!({
            "engine": self.engine, "axis": format!("{:?}", self.axis).to_lowercase(), "base_point": self.base_point,
            "point": self.point, "verb": self.verb, "base": self.base.json(), "grown": self.grown.json(),
            "times_slower": round(self.slower()), "times_cpu": self.dearer().map(round), "remark": self.remark,
        })
    }

    fn line(&self) -> String {
        let pair =
            |way: &dyn Fn(&Side) -> Option<f64>, digits: usize| match (way(&self.base), way(&self.grown)) {
                (Some(base), Some(grown)) => format!("{base:.digits$} → {grown:.digits$}"),
                _ => "–".to_owned(),
            };
        let counted = |value: f64| (!self.is_time).then_some(value);
        format!(
            "| {} | {} → {} | {} | {} | **{:.2}** | {} | {} | {} | {} | {} | {} | {} |\n",
            self.engine,
            self.base_point,
            self.point,
            self.verb,
            pair(&|side| counted(side.rate()), 0),
            self.slower(),
            pair(&|side| counted(side.per_message(side.server)), 2),
            pair(&|side| side.database.map(|d| side.per_message(d)), 2),
            self.dearer().map_or("–".to_owned(), |times| format!("{times:.2}")),
            pair(&|side| Some(median(&side.p50)), 2),
            pair(&|side| Some(median(&side.p99)), 2),
            pair(&|side| side.rss_kib.map(|kib| kib as f64 / 1024.0), 0),
            self.remark,
        )
    }
}

/// Something that was asked for.
#[derive(Debug, Clone)]
pub(crate) struct Bar {
    pub(crate) engine: &'static str,
    pub(crate) what: String,
    pub(crate) wanted: String,
    pub(crate) found: String,
    pub(crate) met: bool,
}

/// Everything a run found.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub(crate) rows: Vec<Row>,
    pub(crate) lags: Vec<Lag>,
    pub(crate) bars: Vec<Bar>,
    /// What was left out or failed, and why.
    pub(crate) gaps: Vec<String>,
    /// What the reader must know about each axis.
    pub(crate) told: Vec<(Axis, &'static str)>,
}

impl Findings {
    pub(crate) fn json(&self) -> Value {
        let bars = self.bars.iter().map(|bar| {
            json!({"engine": bar.engine, "what": bar.what, "wanted": bar.wanted, "found": bar.found, "met": bar.met})
        });
        json!({
            "command": "growth", "rows": self.rows.iter().map(Row::json).collect::<Vec<_>>(),
            "groups_at_a_fifth_of_the_knee": self.lags.iter().map(Lag::json).collect::<Vec<_>>(),
            "bars": bars.collect::<Vec<_>>(), "gaps": self.gaps,
        })
    }

    /// The findings as markdown.
    pub(crate) fn table(&self) -> String {
        let mut text = String::new();
        if !self.bars.is_empty() {
            text.push_str("## Bars\n\n| engine | what | bar | found | met |\n|---|---|--:|--:|---|\n");
        }
        for Bar { engine, what, wanted, found, met } in &self.bars {
            let met = if *met { "yes" } else { "**no**" };
            let _ = writeln!(text, "| {engine} | {what} | {wanted} | {found} | {met} |");
        }
        for (axis, told) in &self.told {
            let rows: String = self.rows.iter().filter(|row| row.axis == *axis).map(Row::line).collect();
            if rows.is_empty() {
                continue;
            }
            let _ = write!(
                text,
                "\n## {axis:?}\n\n{told}\n\n\
                 | engine | base → point | verb | msgs/s | times slower | server CPU, µs per message | database CPU | times CPU | p50, ms | p99, ms | server RSS, MiB | |\n\
                 |---|---|---|--:|--:|--:|--:|--:|--:|--:|--:|---|\n{rows}"
            );
        }
        if !self.lags.is_empty() {
            text.push_str(&super::lag::table(&self.lags));
        }
        if !self.gaps.is_empty() {
            text.push_str("\n## Not measured\n\n");
            self.gaps.iter().for_each(|gap| text.push_str(&format!("* {gap}\n")));
        }
        text
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::shape::Step;
    use super::*;
    use crate::cli::Spread;

    pub(crate) fn side(rates: &[u64]) -> Side {
        let mut side = Side::default();
        for rate in rates {
            side.add(&Part {
                step: Step::Push(Spread::Request),
                messages: *rate,
                seconds: 1.0,
                cpu: (rate * 2, Some(rate * 3)),
                p50: 1.0,
                p99: 4.0,
                errors: json!({}),
                undelivered: 0,
            });
        }
        side
    }

    pub(crate) fn row(base: &[u64], grown: &[u64]) -> Row {
        Row {
            engine: "embedded",
            axis: Axis::Lanes,
            base_point: "10".to_owned(),
            point: "1,000".to_owned(),
            verb: "push",
            is_time: false,
            base: side(base),
            grown: side(grown),
            remark: String::new(),
        }
    }

    #[test]
    fn a_point_is_compared_by_the_medians_of_its_rounds_and_by_cpu_over_all_of_them() {
        let row = row(&[100, 1, 100], &[40, 50, 9000]);
        assert_eq!(row.slower(), 2.0);
        assert_eq!(row.base.cost(), 5.0, "server and database");
        assert_eq!(row.dearer(), Some(1.0));
    }

    #[test]
    fn where_the_rate_is_given_times_are_compared() {
        let mut timed = row(&[100], &[100]);
        timed.is_time = true;
        timed.grown.p50 = vec![3.0];
        assert_eq!((timed.slower(), timed.dearer()), (3.0, None));
        assert!(timed.line().contains("| – | **3.00** | – |"), "{}", timed.line());
    }

    #[test]
    fn the_table_has_bars_rows_and_what_is_missing() {
        let bar = Bar {
            engine: "embedded",
            what: "memory".to_owned(),
            wanted: "≤ 1".to_owned(),
            found: "2".to_owned(),
            met: false,
        };
        let findings = Findings {
            rows: vec![row(&[100], &[50])],
            bars: vec![bar],
            gaps: vec!["1,000,000: no time".to_owned()],
            told: vec![(Axis::Lanes, "told"), (Axis::Groups, "not told")],
            ..Findings::default()
        };
        let table = findings.table();
        assert!(table.contains("| embedded | memory | ≤ 1 | 2 | **no** |"), "{table}");
        assert!(table.contains("100 → 50 | **2.00**") && table.contains("1,000,000: no time"), "{table}");
        assert!(!table.contains("not told"), "an axis without rows has no section");
    }
}
