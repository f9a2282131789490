//! Groups 1 to 50, each of which gets everything: a delivery costs the same whoever else is there, and a push does not care at all.

use super::shape::{Plan, Shape, count};

pub(crate) fn plan() -> Plan {
    let shape = |groups: usize| Shape { label: count(groups as u64), groups, ..Shape::default() };
    Plan {
        base: shape(1),
        points: [10, 50].map(shape).into(),
        told: "`pop + ack` counts deliveries over all groups. Many groups are given fewer messages in a window.",
    }
}
