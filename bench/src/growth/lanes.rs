//! Lanes 10 to 1,000,000: what a message costs must not depend on how many lanes there are, and a lane at rest must cost next to nothing.

use super::report::{Bar, Row};
use super::shape::{Plan, Shape, Step, count};
use super::station::Station;
use crate::cli::Spread;

/// Slower than this against the base is too slow.
pub(crate) const TIMES: f64 = 1.5;
/// Most memory of a lane at rest.
const BYTES: f64 = 1024.0;

pub(crate) fn plan(shrink: u64) -> Plan {
    let steps = vec![
        Step::Push(Spread::Request),
        Step::Pop { claim: 1 },
        Step::Push(Spread::Item),
        Step::Pop { claim: 100 },
    ];
    let shape = |lanes: u64| {
        let lanes = (lanes / shrink).max(2) as u32;
        Shape { label: count(u64::from(lanes)), lanes, steps: steps.clone(), ..Shape::default() }
    };
    Plan {
        base: shape(1000),
        points: [10, 100_000, 1_000_000].map(shape).into(),
        told: "Every lane exists, has had a message and is read. A request pushes 100 messages to one lane and a pop takes from one lane; \
               or each message goes to a lane of its own and a pop takes from 100. Requests go to lanes all over.",
    }
}

/// What is asked of the largest point.
pub(crate) fn bars(base: &Station, point: &Station, rows: &[Row]) -> Vec<Bar> {
    let mut bars: Vec<Bar> = rows
        .iter()
        .map(|row| Bar {
            engine: row.engine,
            what: format!("{} against {} lanes, {}: times slower", row.point, base.shape.label, row.verb),
            wanted: format!("≤ {TIMES}"),
            found: format!("{:.2}", row.slower()),
            met: row.slower() <= TIMES,
        })
        .collect();
    if let Some(bytes) = memory(point) {
        bars.push(Bar {
            engine: point.engine(),
            what: format!("memory of each of {} lanes at rest, bytes", point.shape.label),
            wanted: format!("≤ {BYTES:.0}"),
            found: format!("{bytes:.0}"),
            met: bytes <= BYTES,
        });
    }
    bars
}

/// Bytes of each lane at rest.
pub(crate) fn memory(station: &Station) -> Option<f64> {
    let grown = station.rest_kib?.saturating_sub(station.fresh_kib?);
    Some(grown as f64 * 1024.0 / f64::from(station.shape.lanes))
}
