//! `bugle bench`: only that it is the program it says it is; what it measures is tested in `bench/`.

use crate::support::On;

#[test]
fn what_is_measured_is_reported_and_checked() {
    let on = On::embedded();
    let server = on.start();
    let args =
        ["bench", "pop", "--messages", "200", "--batch", "10", "--connections", "2", "--partitions", "4"];
    let report: serde_json::Value = serde_json::from_str(&server.bugle(&args).ok()).unwrap();
    assert_eq!((&report["verified"], &report["missing"]), (&200.into(), &0.into()), "{report}");
}
