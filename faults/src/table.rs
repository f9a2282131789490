//! What a run found, as a table for people.

use std::fmt;
use std::time::Duration;

use crate::scenario::{Engine, Outcome};

/// All rounds of one fault on one engine.
#[derive(Clone, Debug)]
pub struct Row {
    /// The fault.
    pub name: &'static str,
    /// Where it was made.
    pub engine: Engine,
    /// Rounds that ended.
    pub rounds: u64,
    /// Requests of clients, each checked.
    pub operations: u64,
    /// Messages pushed, delivered and acknowledged in them.
    pub messages: (u64, u64, u64),
    /// Faults made.
    pub injected: u64,
    /// Promises broken.
    pub violations: u64,
    /// Requests whose outcome nobody knows.
    pub unknown: u64,
    /// Rounds that could not be judged, and why.
    pub failures: Vec<String>,
    /// Longest time without service.
    pub gap: Duration,
    /// What else was measured, of the last round.
    pub figures: Vec<String>,
}

impl Row {
    /// Nothing yet.
    pub fn new(name: &'static str, engine: Engine) -> Self {
        Self {
            name,
            engine,
            rounds: 0,
            operations: 0,
            messages: (0, 0, 0),
            injected: 0,
            violations: 0,
            unknown: 0,
            failures: Vec::new(),
            gap: Duration::ZERO,
            figures: Vec::new(),
        }
    }

    /// Another round.
    pub fn add(&mut self, outcome: Outcome) {
        let Outcome { report, injected, gap, figures } = outcome;
        self.rounds += 1;
        self.operations += report.operations;
        let (pushed, delivered, acked) = self.messages;
        self.messages = (pushed + report.pushed, delivered + report.delivered, acked + report.acked);
        self.injected += injected;
        self.violations += report.counts.values().sum::<u64>();
        self.unknown += report.unknown;
        self.gap = self.gap.max(gap);
        self.figures = figures;
    }

    /// Whether every round was judged, and no promise was broken.
    pub fn is_good(&self) -> bool {
        self.violations == 0 && self.failures.is_empty() && self.rounds > 0
    }
}

/// All rows of a run.
pub struct Table(pub Vec<Row>);

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "| fault | engine | rounds | operations checked | faults injected | violations | unknown outcomes | messages pushed / delivered / acknowledged | longest time without service | measured |"
        )?;
        writeln!(f, "|---|---|--:|--:|--:|--:|--:|--:|--:|---|")?;
        for row in &self.0 {
            let (pushed, delivered, acked) = row.messages;
            write!(f, "| {} | {} | {} | ", row.name, row.engine, row.rounds)?;
            write!(f, "{} | {} | ", grouped(row.operations), grouped(row.injected))?;
            write!(f, "{} | {} | ", violations(row), grouped(row.unknown))?;
            write!(f, "{} / {} / {} | ", grouped(pushed), grouped(delivered), grouped(acked))?;
            writeln!(f, "{:.2} s | {} |", row.gap.as_secs_f64(), row.figures.join("; "))?;
        }
        for engine in [Engine::Embedded, Engine::Postgres] {
            let of = || self.0.iter().filter(|row| row.engine == engine);
            if of().next().is_some() {
                let sum = |of_row: fn(&Row) -> u64| grouped(of().map(of_row).sum());
                write!(f, "| **all** | {engine} | {} | ", sum(|row| row.rounds))?;
                write!(f, "{} | {} | ", sum(|row| row.operations), sum(|row| row.injected))?;
                write!(f, "{} | {} | ", sum(|row| row.violations), sum(|row| row.unknown))?;
                write!(f, "{} / {} / ", sum(|row| row.messages.0), sum(|row| row.messages.1))?;
                writeln!(f, "{} | | |", sum(|row| row.messages.2))?;
            }
        }
        Ok(())
    }
}

fn violations(row: &Row) -> String {
    match row.failures.len() {
        0 => grouped(row.violations),
        failed => format!("{} and {failed} rounds without a judgement", grouped(row.violations)),
    }
}

/// `1234567` as `1,234,567`.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use bugle_history::{Report, Rule};

    #[test]
    fn numbers_are_grouped() {
        for (number, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(grouped(number), text);
        }
    }

    #[test]
    fn a_row_is_good_if_all_of_it_was_judged_and_nothing_was_broken() {
        let mut row = Row::new("kill", Engine::Embedded);
        assert!(!row.is_good(), "nothing was checked");
        row.add(Outcome { report: Report { operations: 7, ..Report::default() }, ..Outcome::default() });
        assert!(row.is_good());
        assert!(Table(vec![row.clone()]).to_string().contains("| **all** | embedded | 1 | 7 |"));
        let mut failed = row.clone();
        failed.failures.push("no server".to_owned());
        assert!(!failed.is_good());
        let counts = [(Rule::Lost, 2)].into();
        row.add(Outcome { report: Report { counts, ..Report::default() }, ..Outcome::default() });
        assert!(!row.is_good() && row.violations == 2);
    }
}
