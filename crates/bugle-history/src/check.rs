//! Decides from a history which promises were broken, in time linear in its length.
//!
//! Nothing is assumed of servers but what clients saw. A request takes effect, if it does, somewhere between its beginning and
//! its end; one without an outcome, at any time from its beginning on, or never. So for every lane and group there are two
//! bounds at every moment: what *certainly* is committed (acks whose answers had come) and what *possibly* is (acks that had
//! been sent). A delivery that starts below the first, as it was when the pop began, brings back what is done; one that
//! starts above the second, as it is when the pop ends, leads past something.

mod missing;
mod names;
mod reader;
mod stored;
mod timeline;
mod transactions;

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use crate::record::{History, Op, Outcome};
use crate::report::{Report, Rule};

use names::{GroupNo, Names, QueueNo};
use stored::Stored;
use timeline::Timeline;

/// What the run allows.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// How much earlier than the clients' clock says a lease may end. `None` = at any time, for runs in which the clock that
    /// leases end by is made to jump.
    pub lease_slack: Option<Duration>,
}

impl Default for Terms {
    fn default() -> Self {
        Self { lease_slack: Some(Duration::from_millis(50)) }
    }
}

/// Which promises were broken.
pub fn check(history: &History, terms: &Terms) -> Report {
    let mut report = Report::default();
    count(history, &mut report);
    let mut names = Names::default();
    let stored = Stored::find(history, &mut names, &mut report);
    let mut timeline = Timeline::new(terms, &stored);
    timeline.run(history, &mut names, &mut report);
    let drained = drained(history, &mut names);
    transactions::check(history, &stored, &timeline, &drained, &mut names, &mut report);
    lost(&stored, &mut timeline, &drained, &names, &mut report);
    report
}

/// Who was drained of what.
type Drained = HashMap<QueueNo, HashSet<GroupNo>>;

fn drained(history: &History, names: &mut Names) -> Drained {
    let mut drained = Drained::new();
    for record in &history.records {
        if let Op::Drained { queue, group } = &record.op {
            drained.entry(names.queue(queue)).or_default().insert(names.group(group));
        }
    }
    drained
}

/// Acknowledged pushes that a drained group was never given.
fn lost(stored: &Stored, timeline: &mut Timeline<'_>, drained: &Drained, names: &Names, report: &mut Report) {
    let (placed, nowhere): (Vec<_>, Vec<_>) = stored.messages().partition(|(_, m)| m.offset.is_some());
    for (id, message) in placed.into_iter().chain(nowhere) {
        let Some(groups) = drained.get(&message.queue).filter(|_| message.done) else { continue };
        for group in groups {
            if timeline.was_given(id, *group) || timeline.may_have_missed(message, *group) {
                continue;
            }
            let rule = match (message.transacted, message.offset) {
                (true, _) => Rule::Transaction,
                (false, Some(_)) => Rule::Skipped,
                (false, None) => Rule::Lost,
            };
            report.add(rule, || {
                let (message, group) = (names.message_name(id), names.group_name(*group));
                format!("{message} was acknowledged to its producer and never given to {group}")
            });
        }
    }
}

fn count(history: &History, report: &mut Report) {
    for record in &history.records {
        report.operations += 1;
        match &record.op {
            Op::Push { outcome, messages } => {
                report.pushed += if *outcome == Outcome::Done(()) { messages.len() as u64 } else { 0 };
                report.count(outcome);
            }
            Op::Transact { outcome, messages, said, .. } => {
                if *outcome == Outcome::Done(()) {
                    report.pushed += messages.len() as u64;
                    report.acked += said.len() as u64;
                }
                report.count(outcome);
            }
            Op::Pop { outcome, .. } => {
                if let Outcome::Done((_, messages)) = outcome {
                    report.delivered += messages.len() as u64;
                }
                report.count(outcome);
            }
            Op::Ack { outcome, .. } => {
                if let Outcome::Done(acked) = outcome {
                    report.acked += acked.iter().filter(|acked| acked.success && !acked.noop).count() as u64;
                }
                report.count(outcome);
            }
            Op::Renew { outcome, .. } => report.count(outcome),
            Op::Drained { .. } => report.operations -= 1,
        }
    }
}

impl Report {
    fn count<T>(&mut self, outcome: &Outcome<T>) {
        match outcome {
            Outcome::Done(_) => (),
            Outcome::Not => self.not_done += 1,
            Outcome::Unknown => self.unknown += 1,
        }
    }
}

#[cfg(test)]
mod missing_tests;
#[cfg(test)]
mod tests;
