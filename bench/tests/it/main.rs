//! The generator against a small server in this process, which can be told to break its promises.

#![expect(clippy::unwrap_used, reason = "helpers of tests are not in a test function")]

mod fake;
mod growing;
mod launching;
mod rates;
mod verification;
mod waiting;
