//! Retention that removes all the time, against none.

use anyhow::{Result, ensure};

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

/// Whether the server with retention keeps less than the one without, which keeps everything: otherwise nothing was measured.
pub(crate) fn check(kept_without: Option<u64>, kept: Option<u64>) -> Result<()> {
    ensure!(
        kept_without.zip(kept).is_some_and(|(all, kept)| kept < all),
        "retention removed nothing: {kept:?} messages kept"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retention_that_removes_nothing_is_no_measurement() {
        check(Some(10), Some(4)).unwrap();
        for (without, with) in [(Some(10), Some(10)), (None, None), (None, Some(3))] {
            assert!(check(without, with).is_err(), "{without:?} {with:?}");
        }
    }
}
