//! What must be in a schema, and which settings of the server weaken what is promised. Pure.

use std::collections::BTreeSet;

/// What a setting with this value takes away; `None` = nothing.
pub(super) fn durability(name: &str, value: &str) -> Option<&'static str> {
    match (name, value) {
        ("fsync", "off") => Some("a crash of the machine may lose or damage everything"),
        ("full_page_writes", "off") => Some("a crash of the machine may damage pages"),
        ("synchronous_commit", "off") => Some("a crash loses messages that were answered as stored"),
        ("autovacuum", "off") => Some("tables grow without bound and become slow"),
        _ => None,
    }
}

/// Objects of the list that are not there, and whether lanes can be looked at without them.
pub(super) fn missing_objects<'a>(list: &'a str, there: &BTreeSet<&str>) -> (Vec<&'a str>, bool) {
    let wanted = list.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let missing: Vec<&str> = wanted.filter(|line| !there.contains(line)).collect();
    let usable = !missing.iter().any(|line| line.starts_with("column "));
    (missing, usable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weak_settings_are_told() {
        for name in ["fsync", "full_page_writes", "synchronous_commit", "autovacuum"] {
            assert!(durability(name, "off").is_some(), "{name}");
            assert_eq!(durability(name, "on"), None);
        }
        assert_eq!(durability("synchronous_commit", "remote_apply"), None);
    }

    #[test]
    fn what_is_missing_is_listed_and_columns_are_needed() {
        let list = "# told by\nindex a on t\ncolumn t.x bigint\n";
        let both = BTreeSet::from(["index a on t", "column t.x bigint", "index more on t"]);
        assert_eq!(missing_objects(list, &both), (vec![], true));
        assert_eq!(
            missing_objects(list, &BTreeSet::from(["column t.x bigint"])),
            (vec!["index a on t"], true)
        );
        assert_eq!(
            missing_objects(list, &BTreeSet::from(["index a on t"])),
            (vec!["column t.x bigint"], false)
        );
    }
}
