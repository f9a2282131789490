//! How commands end: exit codes that scripts can rely on, and errors that say what to do next.

use std::fmt;
use std::io;

use bugle_client::{Cause, Error};

/// It was tried and did not work.
pub(crate) const FAILED: u8 = 1;
/// The command line makes no sense.
pub(crate) const USAGE: u8 = 2;
/// The server does not know what was named.
pub(crate) const NOT_FOUND: u8 = 3;
/// The server said no.
pub(crate) const REFUSED: u8 = 4;
/// No server answered.
pub(crate) const UNREACHABLE: u8 = 5;
/// There is nothing to be had.
pub(crate) const NOTHING: u8 = 6;

/// Printed below the help of every command.
pub(crate) const HELP: &str = "\
Exit status:
  0  done
  1  failed (bugle doctor: something is damaged)
  2  the command line makes no sense (bugle doctor: it cannot be told)
  3  the server does not know what was named
  4  the server said no
  5  no server answered
  6  there was nothing (pop, tail, dlq redrive)";

/// An end that the command itself knows.
#[derive(Debug)]
pub(crate) enum End {
    /// The command line makes no sense.
    Usage(String),
    /// There is no such thing.
    NotFound(String),
    /// There was nothing.
    Nothing(String),
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(text) | Self::NotFound(text) | Self::Nothing(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for End {}

/// The exit status of an error; none if it is no failure at all: whoever read the output has seen enough.
pub(crate) fn status(error: &anyhow::Error) -> Option<u8> {
    for cause in error.chain() {
        if cause.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe) {
            return None;
        }
        if let Some(end) = cause.downcast_ref::<End>() {
            return Some(match end {
                End::Usage(_) => USAGE,
                End::NotFound(_) => NOT_FOUND,
                End::Nothing(_) => NOTHING,
            });
        }
        if let Some(error) = cause.downcast_ref::<Error>() {
            return Some(of_client(error));
        }
    }
    Some(FAILED)
}

fn of_client(error: &Error) -> u8 {
    match error {
        Error::Setup(_) => USAGE,
        Error::Refused { status: 404, .. } => NOT_FOUND,
        Error::Refused { .. } | Error::Rejected { .. } => REFUSED,
        Error::Unavailable { cause, .. } | Error::OutcomeUnknown { cause, .. } => match cause {
            Cause::Status { .. } => REFUSED,
            _ => UNREACHABLE,
        },
        _ => FAILED,
    }
}

/// What may help.
pub(crate) fn advice(error: &anyhow::Error) -> Option<&'static str> {
    match error.chain().find_map(|cause| cause.downcast_ref::<Error>())? {
        Error::Unavailable { cause: Cause::Connect { .. }, .. } => Some(
            "is the server running? start it with `bugle serve`, or name it with --server or BUGLE_SERVER",
        ),
        Error::Unavailable { cause: Cause::Status { status: 429, .. }, .. } => {
            Some("the server is busy: try again later, or with smaller batches")
        }
        Error::Unavailable { cause: Cause::Status { .. }, .. } => {
            Some("the server has no store at the moment: `curl SERVER/health` says more")
        }
        Error::OutcomeUnknown { .. } => {
            Some("it may have been done or not: look before you do it again, or repeat it with the same ids")
        }
        Error::Refused { status: 401, .. } => {
            Some("give an API key or a token by BUGLE_API_KEY or --api-key-file")
        }
        Error::Refused { status: 403, .. } => {
            Some("the API key's role is not enough for this; use another one")
        }
        Error::Refused { code: Some(code), .. } if code == "no_such_route" => {
            Some("is this a Bugle server, of a version that knows the route? `curl SERVER/` tells")
        }
        Error::Refused { status: 404, .. } => {
            Some("`bugle queues`, `bugle groups` and `bugle messages` list what there is")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::{Context as _, anyhow};

    fn refused(status: u16) -> Error {
        Error::Refused { status, message: "no".into(), code: None }
    }

    #[test]
    fn every_end_has_its_own_status() {
        assert_eq!(status(&anyhow!("x")), Some(FAILED));
        assert_eq!(status(&anyhow!(refused(404)).context("more")), Some(NOT_FOUND));
        assert_eq!(status(&anyhow!(refused(403))), Some(REFUSED));
        assert_eq!(status(&anyhow!(End::Nothing("n".into()))), Some(NOTHING));
        assert_eq!(status(&anyhow!(End::Usage("n".into()))), Some(USAGE));
        let connect = Cause::Connect { server: "s".into(), source: "x".into() };
        assert_eq!(status(&anyhow!(Error::Unavailable { attempts: 1, cause: connect })), Some(UNREACHABLE));
        let broken: Result<(), io::Error> = Err(io::ErrorKind::BrokenPipe.into());
        assert_eq!(status(&broken.context("stdout").unwrap_err()), None);
    }

    #[test]
    fn the_help_names_every_status() {
        for status in [FAILED, USAGE, NOT_FOUND, REFUSED, UNREACHABLE, NOTHING] {
            assert!(HELP.contains(&format!("\n  {status}  ")), "{status}");
        }
    }
}
