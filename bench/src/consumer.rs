//! A waiter for whom messages come: waits, notes each delivery, acknowledges if asked to, waits again.

use std::rc::Rc;
use std::time::Duration;

use crate::answer::each_message;
use crate::client::Target;
use crate::line::{Line, Prepared};
use crate::producer::Run;
use crate::stats::Backoff;
use crate::waiters::Tally;
use crate::{body, scan};

/// One waiter.
pub(crate) struct Consumer {
    pub(crate) run: Rc<Run>,
    pub(crate) tally: Rc<Tally>,
    pub(crate) target: Target,
    pub(crate) line: Line,
    pub(crate) request: Prepared,
    /// Number of its queue and of its group.
    pub(crate) queue: u64,
    pub(crate) group: usize,
    pub(crate) group_name: Rc<str>,
    pub(crate) auto_ack: bool,
}

impl Consumer {
    /// Waits until aborted.
    pub(crate) async fn consume(mut self) {
        let (mut answer, mut backoff) = (Vec::new(), Backoff::default());
        loop {
            match self.tally.pop(&mut self.line, &self.request, &mut answer).await {
                Some(200) => {
                    let at = self.run.now();
                    backoff.reset();
                    self.receive(&answer, at).await;
                }
                Some(_) => backoff.reset(),
                None => backoff.wait(Duration::from_millis(20), Duration::from_secs(1)).await,
            }
        }
    }

    async fn receive(&mut self, answer: &[u8], at: u64) {
        let (mut numbers, mut ack) = (Vec::new(), Vec::new());
        body::begin_ack(&mut ack);
        let read = {
            let Run { schedule, content, .. } = &*self.run;
            let mut books = self.run.books.borrow_mut();
            each_message(answer, content, self.auto_ack, |message| {
                body::ack_item(&mut ack, &message.receipt);
                let Some(identity) = message.identity else { return books.unreadable() };
                let (lane, number) = (identity.lane, identity.number);
                let in_place = schedule.queue(number) == self.queue && schedule.lane(number) == lane;
                let genuine = identity.intact && in_place && message.genuine(content, lane, number);
                books.delivered(self.group, number, genuine, at);
                numbers.push(number);
            })
        };
        if read.is_err() {
            self.tally.errors.borrow_mut().count("malformed pop answer", 1);
            self.run.books.borrow_mut().unreadable();
        }
        let settled = self.auto_ack || (read.is_ok() && self.acknowledge(ack).await);
        if !settled {
            let mut books = self.run.books.borrow_mut();
            numbers.into_iter().for_each(|number| books.ack_unclear(self.group, number));
        }
    }

    /// Whether the server has confirmed all of it.
    async fn acknowledge(&mut self, mut ack: Vec<u8>) -> bool {
        body::end_ack(&mut ack, &self.group_name);
        let mut answer = Vec::new();
        let outcome = self.line.post(&self.target, "/api/v1/ack/batch", ack, &mut answer).await;
        let mut errors = self.tally.errors.borrow_mut();
        match outcome {
            Ok(200) => match scan::ack_answer(&answer) {
                Ok((accepted, 0)) if accepted > 0 => return true,
                Ok((_, refused)) => errors.count("ack refused", refused.max(1)),
                Err(_) => errors.count("malformed ack answer", 1),
            },
            Ok(status) => errors.count(&format!("ack: http_{status}"), 1),
            Err(failure) => errors.count(&format!("ack: {}", failure.kind()), 1),
        }
        false
    }
}
