//! Brings the three moments of a message together by its number: when its push was due, when the push was answered and when
//! each group got it. Delivery and answer come over different connections, so either may be first.

use serde_json::{Value, json};

use crate::samples::Samples;
use crate::schedule::Schedule;

const NEVER: u64 = u64::MAX;

/// The books of a run; all moments are nanoseconds after its start.
#[derive(Debug)]
pub(crate) struct Books {
    schedule: Schedule,
    sent: Vec<u64>,
    answered: Vec<u64>,
    groups: Vec<Group>,
    /// Deliveries that an answered push has promised and that have not come.
    owed: u64,
    corrupt: u64,
}

#[derive(Debug, Clone)]
struct Group {
    first: Vec<u64>,
    copies: Vec<u8>,
    /// The ack had no clear answer: the message may come again.
    may_repeat: Vec<bool>,
    redelivered: u64,
}

/// What the books say at the end.
#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) deliveries: u64,
    /// Stored, by the server's word, and never delivered to a group.
    pub(crate) missing: u64,
    /// Delivered to a group again although nothing was unclear about the first time.
    pub(crate) doubled: u64,
    /// Delivered again after an ack without a clear answer, as at-least-once delivery allows.
    pub(crate) redelivered: u64,
    pub(crate) corrupt: u64,
    /// Pushes without the answer "queued"; delivered or not, they prove nothing.
    pub(crate) unconfirmed: u64,
    pub(crate) start_to_delivery: Samples,
    pub(crate) answer_to_delivery: Samples,
    pub(crate) start_to_answer: Samples,
    pub(crate) behind_schedule: Samples,
}

impl Books {
    pub(crate) fn new(schedule: Schedule, groups: usize) -> Self {
        let count = schedule.total as usize;
        let group = Group {
            first: vec![NEVER; count],
            copies: vec![0; count],
            may_repeat: vec![false; count],
            redelivered: 0,
        };
        Self {
            schedule,
            sent: vec![NEVER; count],
            answered: vec![NEVER; count],
            groups: vec![group; groups],
            owed: 0,
            corrupt: 0,
        }
    }

    /// The push left.
    pub(crate) fn sent(&mut self, number: u64, at: u64) {
        self.sent[number as usize] = at;
    }

    /// The push was answered with "queued".
    pub(crate) fn answered(&mut self, number: u64, at: u64) {
        let number = number as usize;
        self.answered[number] = at;
        self.owed += self.groups.iter().filter(|group| group.copies[number] == 0).count() as u64;
    }

    /// A group got a message; `genuine` is whether queue, lane, id and payload fit its number.
    pub(crate) fn delivered(&mut self, group: usize, number: u64, genuine: bool, at: u64) {
        if !genuine || number >= self.schedule.total {
            self.corrupt += 1;
            return;
        }
        let number = number as usize;
        let group = &mut self.groups[group];
        if group.copies[number] == 0 {
            group.first[number] = at;
            if self.answered[number] != NEVER {
                self.owed -= 1;
            }
        } else if group.may_repeat[number] {
            group.redelivered += 1;
            return;
        }
        group.copies[number] = group.copies[number].saturating_add(1);
    }

    /// Something came that cannot be told to be any message.
    pub(crate) fn unreadable(&mut self) {
        self.corrupt += 1;
    }

    /// The ack of a message had no clear answer.
    pub(crate) fn ack_unclear(&mut self, group: usize, number: u64) {
        if let Some(flag) = self.groups[group].may_repeat.get_mut(number as usize) {
            *flag = true;
        }
    }

    /// Whether every group has got everything that was answered so far.
    pub(crate) fn complete(&self) -> bool {
        self.owed == 0
    }

    pub(crate) fn close(&self) -> Report {
        let mut report = Report { corrupt: self.corrupt, missing: self.owed, ..Report::default() };
        report.unconfirmed = self.answered.iter().filter(|at| **at == NEVER).count() as u64;
        for group in &self.groups {
            report.redelivered += group.redelivered;
            report.doubled +=
                group.copies.iter().map(|copies| u64::from(copies.saturating_sub(1))).sum::<u64>();
            report.deliveries += group.first.iter().filter(|at| **at != NEVER).count() as u64;
        }
        for number in self.schedule.warmup..self.schedule.total {
            self.measure(number, &mut report);
        }
        report
    }

    fn measure(&self, number: u64, report: &mut Report) {
        let (due, number) = (self.schedule.due(number), number as usize);
        let (sent, answered) = (self.sent[number], self.answered[number]);
        if sent != NEVER {
            report.behind_schedule.span(due, sent);
        }
        if answered == NEVER {
            return;
        }
        report.start_to_answer.span(due, answered);
        for first in self.groups.iter().map(|group| group.first[number]).filter(|at| *at != NEVER) {
            report.start_to_delivery.span(due, first);
            report.answer_to_delivery.span(answered, first);
        }
    }
}

impl Report {
    pub(crate) fn ok(&self) -> bool {
        self.start_to_delivery.len() > 0 && self.missing + self.doubled + self.corrupt == 0
    }

    /// The verdicts and times, under names that say from where the time counts.
    pub(crate) fn json(&self) -> Value {
        json!({
            "deliveries": self.deliveries, "missing": self.missing, "doubled": self.doubled,
            "redelivered": self.redelivered, "corrupt": self.corrupt, "unconfirmed_pushes": self.unconfirmed,
            "measured_deliveries": self.start_to_delivery.len(),
            "delivered_before_answer": self.answer_to_delivery.negative(),
            "scheduled_push_start_to_delivery_ms": self.start_to_delivery.json(),
            "push_answer_to_delivery_ms": self.answer_to_delivery.json(),
            "scheduled_push_start_to_answer_ms": self.start_to_answer.json(),
            "push_sent_behind_schedule_ms": self.behind_schedule.json(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Books of 4 messages, the first of them warm-up, one per millisecond.
    fn books(groups: usize) -> Books {
        Books::new(Schedule::new(1000.0, 0.001, 0.003, 1, 1), groups)
    }

    const MS: u64 = 1_000_000;

    #[test]
    fn times_count_from_the_scheduled_start_and_warm_up_is_left_out() {
        let mut books = books(1);
        for number in 0..4 {
            books.sent(number, number * MS + 2 * MS);
            books.answered(number, number * MS + 5 * MS);
            books.delivered(0, number, true, number * MS + 6 * MS);
        }
        let report = books.close();
        assert!(report.ok() && books.complete());
        assert_eq!((report.deliveries, report.start_to_delivery.len()), (4, 3));
        let json = report.json();
        assert_eq!(json["scheduled_push_start_to_delivery_ms"]["p50"], 6.0);
        assert_eq!(json["push_answer_to_delivery_ms"]["max"], 1.0);
        assert_eq!(json["scheduled_push_start_to_answer_ms"]["p50"], 5.0);
        assert_eq!(json["push_sent_behind_schedule_ms"]["p50"], 2.0);
    }

    #[test]
    fn a_delivery_before_the_answer_stays_negative() {
        let mut books = books(1);
        books.delivered(0, 1, true, 3 * MS);
        books.answered(1, 4 * MS);
        assert!(books.complete(), "what came before the answer is not owed after it");
        let report = books.close();
        assert_eq!(report.json()["push_answer_to_delivery_ms"]["max"], -1.0);
        assert_eq!(report.answer_to_delivery.negative(), 1);
    }

    #[test]
    fn each_group_is_owed_each_answered_message_once() {
        let mut books = books(2);
        books.answered(1, MS);
        books.delivered(0, 1, true, MS);
        assert!(!books.complete());
        books.delivered(0, 1, true, MS);
        let report = books.close();
        assert_eq!((report.missing, report.doubled, report.unconfirmed), (1, 1, 3));
        assert!(!report.ok());
        books.delivered(1, 1, true, MS);
        assert!(books.complete());
    }

    #[test]
    fn a_copy_after_an_unclear_ack_is_allowed() {
        let mut books = books(1);
        books.answered(1, MS);
        books.delivered(0, 1, true, MS);
        books.ack_unclear(0, 1);
        books.delivered(0, 1, true, MS);
        let report = books.close();
        assert_eq!((report.doubled, report.redelivered), (0, 1));
        assert!(report.ok());
    }

    #[test]
    fn foreign_and_unreadable_messages_are_corrupt_and_settle_nothing() {
        let mut books = books(1);
        books.answered(1, MS);
        books.delivered(0, 1, false, MS);
        books.delivered(0, 99, true, MS);
        books.unreadable();
        let report = books.close();
        assert_eq!((report.corrupt, report.missing), (3, 1));
    }

    #[test]
    fn a_push_without_an_answer_is_owed_to_nobody() {
        let mut books = books(1);
        books.sent(1, MS);
        assert!(books.complete());
        assert_eq!(books.close().missing, 0);
    }
}
