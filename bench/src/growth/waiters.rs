//! Waiters 0 to 100,000 on other queues: those who work must not feel those who wait.

use super::shape::{Plan, Shape, Step, count};
use crate::cli::Spread;

pub(crate) fn plan(shrink: u64) -> Plan {
    let steps = vec![Step::Push(Spread::Request), Step::Pop { claim: 1 }, Step::Wake];
    let shape = |waiters: u64| {
        let waiters = (waiters / shrink) as usize;
        Shape { label: count(waiters as u64), waiters, steps: steps.clone(), ..Shape::default() }
    };
    Plan {
        base: shape(0),
        points: [1000, 15_000, 100_000].map(shape).into(),
        told: "Above 15,000 they are streams of HTTP/2 connections, otherwise connections of their own. `wake` is the time from a push's \
               answer to its delivery to a consumer that waits, at 100 messages per second.",
    }
}
