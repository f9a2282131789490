//! Payload 16 bytes to 1 MB: small messages cost what a message costs, large ones what their bytes cost.

use super::report::Row;
use super::shape::{BATCH, PAYLOAD, Plan, Shape};

/// Most bytes of payload in a request.
const REQUEST: usize = 1 << 20;

pub(crate) fn plan() -> Plan {
    let shape = |payload: usize| Shape {
        label: size(payload),
        payload,
        batch: (REQUEST / payload).clamp(1, BATCH),
        ..Shape::default()
    };
    Plan {
        base: shape(PAYLOAD),
        points: [16, 4 << 10, 64 << 10, 1 << 20].map(shape).into(),
        told: "Requests have 100 messages, or as many as 1 MiB holds. Compare bytes, not messages.",
    }
}

fn size(bytes: usize) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..1_048_576 => format!("{} KiB", bytes >> 10),
        _ => format!("{} MiB", bytes >> 20),
    }
}

/// Bytes per second and what each costs the server and the database.
pub(crate) fn remark(row: &Row, base: &Shape, point: &Shape) -> String {
    let told =
        |rate: f64, micros: f64, bytes: usize| (rate * bytes as f64 / 1e6, micros * 1e3 / bytes as f64);
    let (base_rate, base_cost) = told(row.base.rate(), row.base.cost(), base.payload);
    let (rate, cost) = told(row.grown.rate(), row.grown.cost(), point.payload);
    format!("{base_rate:.0} → {rate:.0} MB/s, {base_cost:.2} → {cost:.2} ns of CPU per byte")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_has_as_many_messages_as_a_mebibyte_holds() {
        let plan = plan();
        let told: Vec<_> = plan.points.iter().map(|p| (p.label.as_str(), p.batch)).collect();
        assert_eq!(told, [("16 B", 100), ("4 KiB", 100), ("64 KiB", 16), ("1 MiB", 1)]);
    }
}
