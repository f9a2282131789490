//! Markdown tables: a line per figure, a column per contender, and how ours compares.

use std::fmt::{self, Write as _};

use crate::contender::{Contender, Part};

/// Which of two figures is the better one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Better {
    Lower,
    Higher,
}

/// What stands in a column.
#[derive(Debug, Clone)]
pub(crate) enum Cell {
    /// A figure as it is printed, and the number that ratios are made of.
    Figure { text: String, number: f64 },
    /// Why there cannot be one here.
    Missing(String),
    /// Why there is none although there should be.
    Failed(String),
}

/// A figure that cannot be had with these options, this server or this provider: no fault.
#[derive(Debug)]
pub(crate) struct Unavailable(pub(crate) String);

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Unavailable {}

impl Cell {
    /// A figure that is printed as it is.
    pub(crate) fn number(number: f64) -> Self {
        Self::Figure { text: shown(number), number }
    }

    /// Something that was counted.
    pub(crate) fn count(count: u64) -> Self {
        Self::Figure { text: count.to_string(), number: count as f64 }
    }

    /// What a measurement gave, or why it gave nothing.
    pub(crate) fn from_result<T>(result: &anyhow::Result<T>, figure: impl FnOnce(&T) -> Self) -> Self {
        match result {
            Ok(value) => figure(value),
            Err(error) if error.is::<Unavailable>() => Self::Missing(format!("{error:#}")),
            Err(error) => Self::Failed(format!("failed: {error:#}")),
        }
    }

    fn value(&self) -> Option<f64> {
        match self {
            Self::Figure { number, .. } => Some(*number),
            Self::Missing(_) | Self::Failed(_) => None,
        }
    }
}

/// One figure of every contender.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) label: String,
    pub(crate) better: Better,
    pub(crate) cells: Vec<(Contender, Cell)>,
}

/// A table with its explanation.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) title: &'static str,
    /// What was done and what the figures mean.
    pub(crate) about: String,
    pub(crate) lines: Vec<Line>,
}

impl Table {
    pub(crate) fn markdown(&self) -> String {
        let mut columns: Vec<Contender> = Vec::new();
        for (contender, _) in self.lines.iter().flat_map(|line| &line.cells) {
            if !columns.contains(contender) {
                columns.push(*contender);
            }
        }
        let comparison = Comparison::of(&columns);
        let mut head: Vec<String> = vec![String::new()];
        head.extend(columns.iter().map(|c| c.name().to_owned()));
        head.extend(comparison.heads());
        let mut text = format!("### {}\n\n{}\n\n{}", self.title, self.about, row(&head));
        text += &row(&vec!["---".to_owned(); head.len()]);
        let mut reasons: Vec<&str> = Vec::new();
        for line in &self.lines {
            let mut cells = vec![line.label.clone()];
            cells.extend(columns.iter().map(|column| match line.cell(*column) {
                Some(Cell::Figure { text, .. }) => text.clone(),
                Some(Cell::Missing(reason) | Cell::Failed(reason)) => mark(&mut reasons, reason),
                None => String::new(),
            }));
            cells.extend(comparison.ratios(line));
            text += &row(&cells);
        }
        for (index, reason) in reasons.iter().enumerate() {
            // Writing to a string cannot fail.
            let _ = write!(text, "{}({}) {reason}", if index == 0 { "\n" } else { "  \n" }, index + 1);
        }
        if reasons.is_empty() { text } else { text + "\n" }
    }

    /// Whether a measurement failed.
    pub(crate) fn has_failures(&self) -> bool {
        self.lines.iter().flat_map(|line| &line.cells).any(|(_, cell)| matches!(cell, Cell::Failed(_)))
    }
}

/// A gap with the number of its reason.
fn mark<'t>(reasons: &mut Vec<&'t str>, reason: &'t str) -> String {
    let at = reasons.iter().position(|known| *known == reason).unwrap_or_else(|| {
        reasons.push(reason);
        reasons.len() - 1
    });
    format!("– ({})", at + 1)
}

fn row(cells: &[String]) -> String {
    format!("| {} |\n", cells.join(" | "))
}

impl Line {
    fn cell(&self, contender: Contender) -> Option<&Cell> {
        self.cells.iter().find(|(c, _)| *c == contender).map(|(_, cell)| cell)
    }

    fn value(&self, contender: Contender) -> Option<f64> {
        self.cell(contender)?.value()
    }
}

/// Who is compared with whom: ours with the best of the others, or, without ours, the last with the best before it.
struct Comparison {
    subject: Option<Contender>,
    peers: Vec<Contender>,
    polling: Option<Contender>,
}

impl Comparison {
    fn of(columns: &[Contender]) -> Self {
        let with = |part| columns.iter().copied().find(|c| c.part() == part);
        let mut peers: Vec<Contender> = columns.iter().copied().filter(|c| c.part() == Part::Peer).collect();
        let subject = with(Part::Ours).or_else(|| peers.pop());
        Self { subject: subject.filter(|_| !peers.is_empty()), peers, polling: with(Part::OursPolling) }
    }

    fn heads(&self) -> Vec<String> {
        let against = if self.peers.len() == 1 { self.peers[0].name() } else { "the better" };
        let best = self.subject.map(|s| format!("{} ÷ {against}", s.name()));
        let polling = self.both_modes().map(|_| "long poll on ÷ off".to_owned());
        best.into_iter().chain(polling).collect()
    }

    fn both_modes(&self) -> Option<(Contender, Contender)> {
        Some((self.subject.filter(|s| s.part() == Part::Ours)?, self.polling?))
    }

    fn ratios(&self, line: &Line) -> Vec<String> {
        let best = self.subject.map(|subject| {
            let values = self.peers.iter().filter_map(|peer| line.value(*peer));
            let best = values.reduce(|a, b| match line.better {
                Better::Lower => a.min(b),
                Better::Higher => a.max(b),
            });
            ratio(line.value(subject), best)
        });
        let polling = self.both_modes().map(|(on, off)| ratio(line.value(on), line.value(off)));
        best.into_iter().chain(polling).collect()
    }
}

fn ratio(own: Option<f64>, other: Option<f64>) -> String {
    match (own, other) {
        (Some(own), Some(other)) if own >= 0.0 && other > 0.0 => format!("× {}", shown(own / other)),
        _ => String::new(),
    }
}

/// About three digits, and no more than make sense.
pub(crate) fn shown(number: f64) -> String {
    let digits = match number.abs() {
        n if n >= 100.0 => 0,
        n if n >= 10.0 => 1,
        n if n >= 1.0 => 2,
        _ => 3,
    };
    format!("{number:.digits$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(label: &str, better: Better, cells: [Cell; 2]) -> Line {
        let cells = [Contender::DuroxidePg, Contender::DuroxidePgOpt].into_iter().zip(cells).collect();
        Line { label: label.to_owned(), better, cells }
    }

    #[test]
    fn every_line_has_all_columns_and_gaps_give_their_reason_once() {
        let gap = || Cell::Missing("no such thing".to_owned());
        let lines = vec![
            line("a", Better::Lower, [Cell::number(40.0), Cell::number(0.5)]),
            line("b", Better::Lower, [gap(), Cell::number(1.0)]),
            line("c", Better::Lower, [gap(), gap()]),
        ];
        let table = Table { title: "T", about: "What.".to_owned(), lines };
        let text = table.markdown();
        let expected = "### T\n\nWhat.\n\n\
            |  | duroxide-pg 0.1.38 | duroxide-pg-opt 0.1.28 | duroxide-pg-opt 0.1.28 ÷ duroxide-pg 0.1.38 |\n\
            | --- | --- | --- | --- |\n\
            | a | 40.0 | 0.500 | × 0.013 |\n| b | – (1) | 1.00 |  |\n| c | – (1) | – (1) |  |\n\
            \n(1) no such thing\n";
        assert_eq!(text, expected);
        assert!(!table.has_failures());
    }

    #[test]
    fn what_cannot_be_had_here_is_no_failure() {
        let cell = |error: anyhow::Error| Cell::from_result(&Err::<(), _>(error), |()| Cell::number(1.0));
        let table = |cell: Cell| Table {
            title: "T",
            about: String::new(),
            lines: vec![line("a", Better::Lower, [cell, Cell::number(1.0)])],
        };
        assert!(!table(cell(Unavailable("no option".to_owned()).into())).has_failures());
        assert!(table(cell(anyhow::anyhow!("broken"))).has_failures());
    }

    #[test]
    fn digits_follow_the_size() {
        let texts = [1234.5, 99.94, 9.994, 0.0123, -20.0].map(shown);
        assert_eq!(texts, ["1234", "99.9", "9.99", "0.012", "-20.0"].map(str::to_owned));
    }
}
