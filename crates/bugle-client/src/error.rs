//! What can go wrong, told so that a program can decide: nothing happened, it was refused, or nobody knows.

use std::time::Duration;

type Source = Box<dyn std::error::Error + Send + Sync>;

/// Why an operation did not end well.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The client cannot be built like this.
    #[error("{0}")]
    Setup(String),
    /// A payload cannot be written as JSON, or read as the type asked for.
    #[error("the payload does not fit: {0}")]
    Payload(#[source] serde_json::Error),
    /// The server understood and said no (4xx). Nothing has changed, and asking again will not help.
    #[error("refused with {status}: {message}")]
    Refused {
        /// HTTP status.
        status: u16,
        /// What is wrong, and with which field.
        message: String,
        /// For programs, where the server gives one.
        code: Option<String>,
    },
    /// An acknowledgement or a transaction was turned down: a lease that is over, a message nobody knows, an id that
    /// was there already. Nothing has changed.
    #[error("turned down: {message}")]
    Rejected {
        /// Why.
        message: String,
        /// For programs, where the server gives one.
        reason: Option<String>,
    },
    /// No attempt got through. Nothing has changed.
    #[error("not done after {attempts} attempts")]
    Unavailable {
        /// How often it was tried.
        attempts: u32,
        /// Why the last attempt failed.
        #[source]
        cause: Cause,
    },
    /// At least one attempt may have got through, but no answer came back: it is done, or it is not. Operations that
    /// carry ids can be sent again safely with the same ids.
    #[error("outcome unknown after {attempts} attempts")]
    OutcomeUnknown {
        /// How often it was tried.
        attempts: u32,
        /// Why the last attempt failed.
        #[source]
        cause: Cause,
    },
    /// The server did it, but its answer cannot be read.
    #[error("cannot read the answer: {0}")]
    Answer(#[source] Source),
}

/// Why one attempt failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Cause {
    /// There was no connection, so the server has not seen the request.
    #[error("no connection to {server}")]
    Connect {
        /// Which server.
        server: String,
        /// Why.
        #[source]
        source: Source,
    },
    /// No answer in time.
    #[error("no answer from {server} within {after:?}")]
    Timeout {
        /// Which server.
        server: String,
        /// How long was waited.
        after: Duration,
    },
    /// The connection broke before the answer was complete.
    #[error("the connection to {server} broke")]
    Broken {
        /// Which server.
        server: String,
        /// How.
        #[source]
        source: Source,
    },
    /// The server answered with an error.
    #[error("{server} answered {status}: {message}")]
    Status {
        /// Which server.
        server: String,
        /// HTTP status.
        status: u16,
        /// Its text.
        message: String,
        /// Its code, if any.
        code: Option<String>,
        /// When to come back, if it said so.
        retry_after: Option<Duration>,
    },
}

/// What a failed attempt means for the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Try again.
    Again,
    /// The request is at fault.
    Refused,
    /// The server is at fault in a way that will not pass by waiting.
    Hopeless,
}

impl Cause {
    pub(crate) fn verdict(&self) -> Verdict {
        match self {
            Self::Connect { .. } | Self::Timeout { .. } | Self::Broken { .. } => Verdict::Again,
            Self::Status { status: 429 | 502 | 503 | 504, .. } => Verdict::Again,
            Self::Status { status: 500.., .. } => Verdict::Hopeless,
            Self::Status { .. } => Verdict::Refused,
        }
    }

    /// The request may have been carried out although this is all that came back.
    pub(crate) fn in_doubt(&self) -> bool {
        match self {
            Self::Connect { .. } => false,
            Self::Timeout { .. } | Self::Broken { .. } => true,
            Self::Status { status, .. } => *status >= 500,
        }
    }

    /// Another server may do better. One that is only busy may not: the others see the same load.
    pub(crate) fn blames_server(&self) -> bool {
        !matches!(self, Self::Status { status: 429, .. })
    }

    pub(crate) fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Status { retry_after, .. } => *retry_after,
            Self::Connect { .. } | Self::Timeout { .. } | Self::Broken { .. } => None,
        }
    }

    /// The error of an operation that ends with this cause. `doubt`: an attempt may have got through.
    pub(crate) fn into_error(self, attempts: u32, doubt: bool) -> Error {
        match self {
            Self::Status { status, message, code, .. } if (300..500).contains(&status) && status != 429 => {
                Error::Refused { status, message, code }
            }
            cause if doubt => Error::OutcomeUnknown { attempts, cause },
            cause => Error::Unavailable { attempts, cause },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(status: u16) -> Cause {
        Cause::Status { server: "s".into(), status, message: "m".into(), code: None, retry_after: None }
    }

    #[test]
    fn only_what_may_pass_is_tried_again() {
        for again in [429, 502, 503, 504] {
            assert_eq!(status(again).verdict(), Verdict::Again, "{again}");
        }
        for refused in [301, 400, 401, 403, 404, 409, 413, 428] {
            assert_eq!(status(refused).verdict(), Verdict::Refused, "{refused}");
        }
        assert_eq!(status(500).verdict(), Verdict::Hopeless);
        let timeout = Cause::Timeout { server: "s".into(), after: Duration::ZERO };
        assert_eq!(timeout.verdict(), Verdict::Again);
    }

    #[test]
    fn doubt_is_told_apart_from_nothing_done() {
        let connect = || Cause::Connect { server: "s".into(), source: "x".into() };
        assert!(!connect().in_doubt() && !status(429).in_doubt() && status(503).in_doubt());
        assert!(matches!(connect().into_error(3, false), Error::Unavailable { attempts: 3, .. }));
        assert!(matches!(connect().into_error(3, true), Error::OutcomeUnknown { .. }));
        assert!(matches!(status(404).into_error(1, false), Error::Refused { status: 404, .. }));
        assert!(matches!(status(429).into_error(1, false), Error::Unavailable { .. }));
        assert!(matches!(status(500).into_error(1, true), Error::OutcomeUnknown { .. }));
    }
}
