//! Backlog 0 to 10 million messages behind a group that does not read: neither pushes nor the others may feel it, and that group itself must
//! read on at the usual price.

use super::shape::{Plan, Shape, Step, count};
use crate::cli::Spread;
use crate::cli_growth::Engine;

pub(crate) fn plan(engine: Engine, shrink: u64, deep: bool) -> Plan {
    let steps = vec![Step::Push(Spread::Request), Step::Pop { claim: 1 }, Step::ReadBacklog];
    let shape = |messages: u64| {
        let messages = messages / shrink;
        Shape { label: count(messages), backlog: Some(messages), steps: steps.clone(), ..Shape::default() }
    };
    let mut points = vec![100_000, 1_000_000];
    if engine == Engine::Embedded || deep {
        points.push(10_000_000);
    }
    Plan {
        base: shape(0),
        points: points.into_iter().map(shape).collect(),
        told: "The other group began after the backlog. At the base the group behind has only what the windows push.",
    }
}
