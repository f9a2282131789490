//! What a failover to a standby that lagged has lost, and whether anything of it is served all the same.
//!
//! The usual judgement is of no use here: acknowledged messages are gone, and so are leases and acknowledgements, as it says
//! loudly. What still holds is that there is one history from the failover on: what the new primary holds, told by a group of
//! its own that reads everything, is all that anybody gets, and everything that was taken since is part of it.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use bugle_history::{Delivered, History, Op, Outcome, Pushed, Report, Rule, Violation};

/// When the old primary was gone, and when the new one served everybody, in microseconds of the clients' clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Break {
    pub(super) killed: u64,
    pub(super) resumed: u64,
}

/// All that is stored: by queue, partition and position.
#[derive(Clone, Debug, Default)]
pub(super) struct Contents {
    at: HashMap<(String, String, u64), String>,
    times: HashMap<String, u64>,
}

impl Contents {
    pub(super) fn add(&mut self, queue: &str, partition: &str, offset: u64, id: &str) {
        self.at.insert((queue.to_owned(), partition.to_owned(), offset), id.to_owned());
        *self.times.entry(id.to_owned()).or_default() += 1;
    }

    /// How often a message is stored.
    pub(super) fn times(&self, id: &str) -> u64 {
        self.times.get(id).copied().unwrap_or_default()
    }

    fn holds(&self, queue: &str, delivered: &Delivered) -> bool {
        let key = (queue.to_owned(), delivered.partition.clone(), delivered.offset);
        self.at.get(&key).is_some_and(|id| *id == delivered.id)
    }
}

/// Messages that were acknowledged to their producers before the failover, and are not stored after it.
pub(super) fn lost(history: &History, broken: Break, contents: &Contents) -> Vec<Pushed> {
    let mut lost = Vec::new();
    for record in history.records.iter().filter(|record| record.ended_at < broken.killed) {
        if let Op::Push { messages, outcome: Outcome::Done(()) }
        | Op::Transact { messages, outcome: Outcome::Done(()), .. } = &record.op
        {
            lost.extend(messages.iter().filter(|message| contents.times(&message.id) == 0).cloned());
        }
    }
    lost
}

/// Violations of what holds from the failover on.
pub(super) fn judge(history: &History, broken: Break, contents: &Contents, report: &mut Report) {
    let after = || history.records.iter().filter(|record| record.began_at > broken.resumed);
    let mut given: BTreeMap<&str, HashSet<&str>> = BTreeMap::new();
    let mut groups: BTreeSet<(&str, &str)> = BTreeSet::new();
    for record in after() {
        match &record.op {
            Op::Pop { queue, group, lease_for, outcome: Outcome::Done((_, messages)), .. } => {
                if lease_for.is_some() {
                    given.entry(group).or_default().extend(messages.iter().map(|m| m.id.as_str()));
                }
                for message in messages.iter().filter(|message| !contents.holds(queue, message)) {
                    add(report, Rule::Phantom, || {
                        format!("{group} was given {message:?} of {queue}, which is not stored there")
                    });
                }
            }
            Op::Drained { queue, group } => drop(groups.insert((queue, group))),
            _ => {}
        }
    }
    for record in after() {
        let (Op::Push { messages, outcome: Outcome::Done(()) }
        | Op::Transact { messages, outcome: Outcome::Done(()), .. }) = &record.op
        else {
            continue;
        };
        for message in messages {
            match contents.times(&message.id) {
                1 => {}
                0 => add(report, Rule::Lost, || {
                    format!("{message:?} was taken after the failover and is not stored")
                }),
                _ => add(report, Rule::StoredTwice, || format!("{message:?} is stored twice")),
            }
            let of_queue = groups.iter().filter(|(queue, _)| *queue == message.queue);
            for (_, group) in of_queue {
                if given.get(group).is_some_and(|given| !given.contains(message.id.as_str())) {
                    add(report, Rule::Skipped, || format!("{group} was never given {message:?}"));
                }
            }
        }
    }
}

fn add(report: &mut Report, rule: Rule, text: impl FnOnce() -> String) {
    *report.counts.entry(rule).or_default() += 1;
    if report.violations.len() < 20 {
        report.violations.push(Violation { rule, text: text() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bugle_history::Record;

    const BREAK: Break = Break { killed: 100, resumed: 200 };

    fn at(time: u64, op: Op) -> Record {
        Record { began: time, ended: time + 1, began_at: time, ended_at: time + 1, op }
    }

    fn push(time: u64, id: &str) -> Record {
        let message = Pushed { queue: "q".into(), partition: "p".into(), id: id.into() };
        at(time, Op::Push { messages: vec![message], outcome: Outcome::Done(()) })
    }

    fn pop(time: u64, id: &str, offset: u64) -> Record {
        let message = Delivered { partition: "p".into(), offset, id: id.into(), payload: id.into() };
        let outcome = Outcome::Done((None, vec![message]));
        let (queue, group) = ("q".to_owned(), "g".to_owned());
        at(time, Op::Pop { queue, group, lease_for: Some(1), batch: 10, partitions: 1, outcome })
    }

    fn drained(time: u64) -> Record {
        at(time, Op::Drained { queue: "q".into(), group: "g".into() })
    }

    fn stored(ids: &[&str]) -> Contents {
        let mut contents = Contents::default();
        for (offset, id) in (0..).zip(ids) {
            contents.add("q", "p", offset, id);
        }
        contents
    }

    fn rules(records: Vec<Record>, contents: &Contents) -> Vec<Rule> {
        let mut report = Report::default();
        judge(&History { records }, BREAK, contents, &mut report);
        report.counts.into_keys().collect()
    }

    #[test]
    fn what_was_acknowledged_and_is_not_stored_is_lost() {
        let history = History { records: vec![push(10, "kept"), push(20, "gone"), push(150, "between")] };
        let lost = lost(&history, BREAK, &stored(&["kept"]));
        assert_eq!(lost.iter().map(|message| message.id.as_str()).collect::<Vec<_>>(), ["gone"]);
    }

    #[test]
    fn one_history_after_the_failover_breaks_nothing() {
        let records = vec![push(10, "a"), pop(20, "x", 1), push(210, "b"), pop(220, "b", 1), drained(300)];
        assert_eq!(rules(records, &stored(&["a", "b"])), []);
    }

    #[test]
    fn what_was_lost_must_not_be_served() {
        let records = vec![push(10, "x"), push(210, "b"), pop(220, "b", 1), pop(230, "x", 1)];
        assert_eq!(rules(records, &stored(&["a", "b"])), [Rule::Phantom]);
    }

    #[test]
    fn what_is_taken_after_the_failover_is_stored_once_and_given_to_all() {
        assert_eq!(rules(vec![push(210, "b")], &stored(&["a"])), [Rule::Lost]);
        assert_eq!(rules(vec![push(210, "b")], &stored(&["b", "b"])), [Rule::StoredTwice]);
        let records = vec![push(210, "b"), pop(220, "a", 0), drained(300)];
        assert_eq!(rules(records, &stored(&["a", "b"])), [Rule::Skipped]);
    }
}
