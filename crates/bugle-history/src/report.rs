//! What a check found.

use std::collections::BTreeMap;
use std::fmt;

/// A promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// An acknowledged push is delivered to every group.
    Lost,
    /// Only what was pushed, and was not refused, is delivered, with the payload it was pushed with.
    Phantom,
    /// A message is stored once, however often it is pushed.
    StoredTwice,
    /// A lane keeps the order of pushes, and is delivered in it.
    Order,
    /// A group is led past no message.
    Skipped,
    /// Nothing is delivered after its ack was confirmed.
    AfterAck,
    /// There are no two live leases on one lane for one group.
    TwoLeases,
    /// An acknowledgement under a lease that another one has replaced is refused.
    StaleAck,
    /// What a transaction pushes appears if and only if its acks hold.
    Transaction,
}

/// A broken promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which.
    pub rule: Rule,
    /// What was seen.
    pub text: String,
}

/// Violations that are told; the others are only counted.
const TOLD: usize = 50;

/// What was checked, and what was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Requests.
    pub operations: u64,
    /// Requests whose outcome nobody knows.
    pub unknown: u64,
    /// Requests that were certainly not done.
    pub not_done: u64,
    /// Messages whose push was acknowledged.
    pub pushed: u64,
    /// Messages delivered, repeated deliveries included.
    pub delivered: u64,
    /// Messages whose acknowledgement was confirmed.
    pub acked: u64,
    /// The first violations, in the order they were found.
    pub violations: Vec<Violation>,
    /// All of them.
    pub counts: BTreeMap<Rule, u64>,
}

impl Report {
    pub(crate) fn add(&mut self, rule: Rule, text: impl FnOnce() -> String) {
        *self.counts.entry(rule).or_default() += 1;
        if self.violations.len() < TOLD {
            self.violations.push(Violation { rule, text: text() });
        }
    }

    /// Add what another check found, of another history.
    pub fn merge(&mut self, other: Self) {
        self.operations += other.operations;
        self.unknown += other.unknown;
        self.not_done += other.not_done;
        self.pushed += other.pushed;
        self.delivered += other.delivered;
        self.acked += other.acked;
        for (rule, count) in other.counts {
            *self.counts.entry(rule).or_default() += count;
        }
        let room = TOLD.saturating_sub(self.violations.len());
        self.violations.extend(other.violations.into_iter().take(room));
    }

    /// Name a broken promise. For those who check what the checker cannot know.
    pub fn violated(&mut self, rule: Rule, text: String) {
        self.add(rule, || text);
    }

    /// Whether nothing was violated.
    pub fn is_clean(&self) -> bool {
        self.counts.is_empty()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} operations ({} unknown, {} not done), {} messages pushed, {} delivered, {} acknowledged",
            self.operations, self.unknown, self.not_done, self.pushed, self.delivered, self.acked
        )?;
        for (rule, count) in &self.counts {
            writeln!(f, "{rule:?}: {count} violations")?;
        }
        for violation in &self.violations {
            writeln!(f, "  {:?}: {}", violation.rule, violation.text)?;
        }
        Ok(())
    }
}
