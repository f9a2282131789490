//! Transactions whose outcome is not known: both ways are right, but not half of one.

use std::collections::HashMap;

use uuid::Uuid;

use crate::record::{History, Op, Outcome, Record, Said, Status};
use crate::report::{Report, Rule};

use super::Drained;
use super::names::{GroupNo, LaneNo, Names};
use super::stored::Stored;
use super::timeline::Timeline;

/// What requests under one lease may have committed: request, lane, everything below.
type Commits = HashMap<Uuid, Vec<(usize, LaneNo, u64)>>;

pub(super) fn check(
    history: &History,
    stored: &Stored,
    timeline: &Timeline<'_>,
    drained: &Drained,
    names: &mut Names,
    report: &mut Report,
) {
    let commits = commits(history, names);
    for (index, record) in history.records.iter().enumerate() {
        let Op::Transact { group, lease, said, messages, outcome: Outcome::Unknown } = &record.op else {
            continue;
        };
        let group = names.group(group);
        let all_drained = messages.iter().all(|m| {
            let queue = names.queue(&m.queue);
            drained.get(&queue).is_some_and(|groups| !groups.is_empty())
        });
        if messages.is_empty() || !all_drained {
            continue;
        }
        let stored_at = |id: &str, names: &mut Names| stored.get(names.message(id)).and_then(|m| m.offset);
        let appeared = messages.iter().filter(|m| stored_at(&m.id, names).is_some()).count();
        if 0 < appeared && appeared < messages.len() {
            let all = messages.len();
            let first = &messages[0].id;
            report.add(Rule::Transaction, || {
                format!("{appeared} of {all} messages appeared, of {first} and others")
            });
        }
        if appeared == 0 {
            let transaction = Doubt { index, record, group, lease: *lease };
            for said in said {
                transaction.must_not_hold(said, timeline, &commits, drained, names, report);
            }
        }
    }
}

fn commits(history: &History, names: &mut Names) -> Commits {
    let mut commits = Commits::new();
    for (index, record) in history.records.iter().enumerate() {
        let (lease, said) = match &record.op {
            Op::Ack { lease, said, outcome, .. } if *outcome != Outcome::Not => (lease, said),
            Op::Transact { lease, said, outcome, .. } if *outcome != Outcome::Not => (lease, said),
            _ => continue,
        };
        for said in said.iter().filter(|said| said.status != Status::Retry) {
            let lane = names.lane(&said.queue, &said.partition);
            commits.entry(*lease).or_default().push((index, lane, said.offset + 1));
        }
    }
    commits
}

/// A transaction that did not happen, as its messages show.
struct Doubt<'r> {
    index: usize,
    record: &'r Record,
    group: GroupNo,
    lease: Uuid,
}

impl Doubt<'_> {
    /// What it acknowledged comes again, unless another request under the same lease settled it.
    fn must_not_hold(
        &self,
        said: &Said,
        timeline: &Timeline<'_>,
        commits: &Commits,
        drained: &Drained,
        names: &mut Names,
        report: &mut Report,
    ) {
        let lane = names.lane(&said.queue, &said.partition);
        let queue = names.queue(&said.queue);
        let drained = drained.get(&queue).is_some_and(|groups| groups.contains(&self.group));
        let place = (lane, self.group, said.offset);
        let again = timeline.was_given_again(place, self.lease, self.record.began);
        let others = commits.get(&self.lease).into_iter().flatten();
        let settled = others
            .filter(|(index, other, below)| *index != self.index && *other == lane && said.offset < *below)
            .count();
        if drained && !again && settled == 0 {
            report.add(Rule::Transaction, || {
                format!(
                    "{} at {} is done by a transaction whose messages never appeared",
                    names.lane_name(lane),
                    said.offset
                )
            });
        }
    }
}
