//! A statement written once, whatever the connection behind it can do.
//!
//! The SQL names its parameter types, so the same text can be prepared once per connection or, behind a transaction
//! pooler, be sent unnamed every time. The schema is put in by one replacement at start-up.

use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};

use tokio_postgres::types::{ToSql, Type};

static NEXT: AtomicU32 = AtomicU32::new(0);

/// The place in SQL where the quoted schema goes.
const PLACE: &str = "{schema}";

/// A schema name, checked, to be put into SQL quoted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schema(String);

/// A schema name that PostgreSQL would refuse or silently shorten.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("schema {0:?}: a schema name has 1 to 63 bytes, no NUL, and does not begin with pg_")]
pub struct SchemaError(String);

impl Schema {
    /// Check a name.
    pub fn new(name: &str) -> Result<Self, SchemaError> {
        if name.is_empty() || name.len() > 63 || name.contains('\0') || name.starts_with("pg_") {
            return Err(SchemaError(name.to_owned()));
        }
        Ok(Self(name.to_owned()))
    }

    /// The name as given.
    pub fn name(&self) -> &str {
        &self.0
    }

    /// The SQL with every `{schema}` replaced by the quoted name. A name that holds `$$` would end the body of a function
    /// that is quoted so: then the body gets quotes that the name does not hold.
    pub fn fill(&self, sql: &str) -> String {
        let name = self.to_string();
        let body = (0..).map(|n| format!("$body{n}$")).find(|quote| !name.contains(quote.as_str()));
        match body.filter(|_| name.contains("$$")) {
            Some(quote) => sql.replace("$$", &quote).replace(PLACE, &name),
            None => sql.replace(PLACE, &name),
        }
    }
}

impl fmt::Display for Schema {
    /// The name as a quoted identifier.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0.replace('"', "\"\""))
    }
}

/// SQL with the types of its parameters.
#[derive(Debug)]
pub struct Statement {
    pub(crate) id: u32,
    pub(crate) sql: String,
    pub(crate) types: &'static [Type],
}

impl Statement {
    /// A statement in `schema`.
    pub fn new(schema: &Schema, sql: &str, types: &'static [Type]) -> Self {
        Self { id: NEXT.fetch_add(1, Ordering::Relaxed), sql: schema.fill(sql), types }
    }
}

/// One statement of a pipeline with its parameters.
#[derive(Clone)]
pub struct Step<'a> {
    pub(crate) statement: &'a Statement,
    pub(crate) params: Vec<&'a (dyn ToSql + Sync)>,
}

impl<'a> Step<'a> {
    /// Run `statement` with `params`, one for each of its types.
    pub fn new(statement: &'a Statement, params: &[&'a (dyn ToSql + Sync)]) -> Self {
        debug_assert_eq!(statement.types.len(), params.len(), "{}", statement.sql);
        Self { statement, params: params.to_vec() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemas_are_quoted_wherever_they_go() {
        let schema = Schema::new("we\"ird Schema").unwrap();
        assert_eq!(
            schema.fill("SELECT FROM {schema}.a, {schema}.b"),
            "SELECT FROM \"we\"\"ird Schema\".a, \"we\"\"ird Schema\".b"
        );
    }

    #[test]
    fn no_name_ends_the_body_of_a_function() {
        let filled = |name| Schema::new(name).unwrap().fill("AS $$ {schema}.a $$");
        assert_eq!(filled("a$b"), "AS $$ \"a$b\".a $$");
        assert_eq!(filled("a$$b"), "AS $body0$ \"a$$b\".a $body0$");
        assert_eq!(filled("$body0$$"), "AS $body1$ \"$body0$$\".a $body1$");
    }

    #[test]
    fn names_that_would_be_cut_or_refused_are_refused_here() {
        assert!(Schema::new(&"x".repeat(63)).is_ok());
        for bad in ["", "pg_x", "a\0b", &"x".repeat(64)] {
            assert!(Schema::new(bad).is_err(), "{bad:?}");
        }
    }
}
