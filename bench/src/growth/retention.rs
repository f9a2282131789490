//! Retention that removes all the time, against none.

use super::shape::{Plan, Shape};

pub(crate) fn plan() -> Plan {
    let shape = |label: &str, retention| Shape {
        label: label.to_owned(),
        retention,
        longer: 2.0,
        ..Shape::default()
    };
    Plan {
        base: shape("none", false),
        points: vec![shape("running", true)],
        told: "Messages go one second after they were read; the server looks every second. Windows are twice as long.",
    }
}
