//! Errors sorted by what a caller can do about them.
//!
//! The driver's errors say what happened; a caller needs to know two other things: is it worth trying again, and can
//! the change have been made all the same?

use std::fmt;

use tokio_postgres::error::SqlState;

/// What kind of trouble it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PgErrorKind {
    /// No connection could be had: refused, timed out, pool exhausted or closed.
    Connect,
    /// The connection broke or the server is going away.
    Broken,
    /// No answer in time, or cancelled by the server's timeout.
    Timeout,
    /// A serialisation failure or deadlock: the same again will probably work.
    Conflict,
    /// The database goes on on another timeline than the one that the call was made for.
    Timeline,
    /// The server refused the statement or its data: the same again will fail again.
    Refused,
    /// An answer did not have the expected shape.
    Unexpected,
}

/// An error from PostgreSQL or from the way to it. Its text carries no passwords and no parameter values.
#[derive(Clone, Debug)]
pub struct PgError {
    kind: PgErrorKind,
    code: Option<SqlState>,
    message: String,
    not_applied: bool,
}

impl PgError {
    /// An error of our own making, before anything was sent.
    pub fn new(kind: PgErrorKind, message: impl Into<String>) -> Self {
        Self { kind, code: None, message: message.into(), not_applied: true }
    }

    /// The kind of trouble.
    pub fn kind(&self) -> PgErrorKind {
        self.kind
    }

    /// The server's code, if the server answered.
    pub fn code(&self) -> Option<&SqlState> {
        self.code.as_ref()
    }

    /// Whether it is certain that nothing was changed.
    pub fn not_applied(&self) -> bool {
        self.not_applied
    }

    /// Whether the same call may well succeed when repeated.
    pub fn is_retryable(&self) -> bool {
        matches!(self.kind, PgErrorKind::Connect | PgErrorKind::Broken | PgErrorKind::Conflict)
    }

    /// Whether the connection it happened on must not be used again.
    pub(crate) fn breaks_connection(&self) -> bool {
        matches!(self.kind, PgErrorKind::Broken | PgErrorKind::Timeout | PgErrorKind::Unexpected)
            || self.code.as_ref().is_some_and(|c| {
                *c == SqlState::INVALID_SQL_STATEMENT_NAME || *c == SqlState::FEATURE_NOT_SUPPORTED
            })
    }

    /// The same error where the outcome is not known.
    pub(crate) fn in_doubt(mut self) -> Self {
        self.not_applied = false;
        self
    }

    /// The same error where it is certain that nothing happened.
    pub(crate) fn harmless(mut self) -> Self {
        self.not_applied = true;
        self
    }
}

impl fmt::Display for PgError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.code {
            Some(code) => write!(f, "{} ({})", self.message, code.code()),
            None => f.write_str(&self.message),
        }
    }
}

impl std::error::Error for PgError {}

impl From<tokio_postgres::Error> for PgError {
    /// A server's answer about a statement means that the statement changed nothing; anything else leaves doubt.
    fn from(error: tokio_postgres::Error) -> Self {
        let Some(db) = error.as_db_error() else {
            let kind = if error.is_closed() || source_is_io(&error) {
                PgErrorKind::Broken
            } else {
                PgErrorKind::Unexpected
            };
            return Self { kind, code: None, message: error.to_string(), not_applied: false };
        };
        let code = db.code().clone();
        let kind = classify(&code);
        // The server's detail may quote row values: only its message is kept.
        let message = db.message().to_owned();
        // A server that takes no writes has made none.
        let not_applied = kind != PgErrorKind::Broken || code == SqlState::READ_ONLY_SQL_TRANSACTION;
        Self { kind, code: Some(code), message, not_applied }
    }
}

fn source_is_io(error: &tokio_postgres::Error) -> bool {
    std::error::Error::source(error).is_some_and(|s| s.is::<std::io::Error>())
}

fn classify(code: &SqlState) -> PgErrorKind {
    match code.code() {
        "40001" | "40P01" => PgErrorKind::Conflict,
        // Prepared statements that no longer fit are gone with the connection.
        "0A000" | "26000" => PgErrorKind::Conflict,
        "57014" | "55P03" | "25P03" => PgErrorKind::Timeout,
        // The last one: a primary that has become a standby. Another server takes the writes now.
        "57P01" | "57P02" | "57P03" | "57P05" | "25006" => PgErrorKind::Broken,
        c if c.starts_with("08") => PgErrorKind::Broken,
        c if c.starts_with("53") => PgErrorKind::Connect,
        _ => PgErrorKind::Refused,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_sorted_by_what_to_do() {
        let kind = |c: &str| classify(&SqlState::from_code(c));
        assert_eq!(kind("40001"), PgErrorKind::Conflict);
        assert_eq!(kind("40P01"), PgErrorKind::Conflict);
        assert_eq!(kind("08006"), PgErrorKind::Broken);
        assert_eq!(kind("57P01"), PgErrorKind::Broken);
        assert_eq!(kind("25006"), PgErrorKind::Broken);
        assert_eq!(kind("57014"), PgErrorKind::Timeout);
        assert_eq!(kind("23505"), PgErrorKind::Refused);
        assert_eq!(kind("22021"), PgErrorKind::Refused);
    }

    #[test]
    fn only_transient_kinds_are_retried() {
        assert!(PgError::new(PgErrorKind::Conflict, "x").is_retryable());
        assert!(PgError::new(PgErrorKind::Broken, "x").is_retryable());
        assert!(!PgError::new(PgErrorKind::Refused, "x").is_retryable());
        assert!(!PgError::new(PgErrorKind::Timeout, "x").is_retryable());
        assert!(!PgError::new(PgErrorKind::Timeline, "x").is_retryable());
    }
}
