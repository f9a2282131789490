//! How programs that work with a schema are seen by the others: by the names of their connections.
//!
//! That costs nothing, and ends with the program however it ends.

use aws_lc_rs::digest;

use crate::statement::Schema;

use super::Migration;

/// The name for the connections of `program`: what it knows, and a mark of the schema it works with.
///
/// ```text
/// bugle/5 1f0c2a77
/// ```
pub fn presence(program: &str, schema: &Schema, migrations: &[Migration]) -> String {
    let hash = digest::digest(&digest::SHA256, schema.name().as_bytes());
    let mark: String = hash.as_ref().iter().take(4).map(|b| format!("{b:02x}")).collect();
    format!("{program}/{} {mark}", migrations.last().map_or(0, |m| m.version))
}

/// Program, version and mark of such a name.
pub(super) fn read(name: &str) -> Option<(&str, i32, &str)> {
    let (name, mark) = name.rsplit_once(' ')?;
    let (program, version) = name.rsplit_once('/')?;
    Some((program, version.parse().ok()?, mark))
}

/// Connections of older programs of this database: $1 the program, $2 the mark of the schema, $3 the version they do not know.
pub(super) const OLDER: &str = "
    SELECT count(*), coalesce(min(pid), 0) FROM pg_catalog.pg_stat_activity
    WHERE datname = current_database() AND starts_with(application_name, $1 || '/')
        AND right(application_name, 9) = ' ' || $2
        AND substring(application_name FROM '/([0-9]{1,9}) [0-9a-f]{8}$')::int < $3";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_tells_program_version_and_schema() {
        let (one, two) = (Schema::new("one").unwrap(), Schema::new("two").unwrap());
        let name = presence("bugle", &one, &[]);
        let (program, version, mark) = read(&name).unwrap();
        assert_eq!((program, version, mark.len()), ("bugle", 0, 8));
        assert_ne!(presence("bugle", &two, &[]), name);
        assert_eq!(read("bugle"), None);
        assert_eq!(read("my own name"), None);
    }
}
