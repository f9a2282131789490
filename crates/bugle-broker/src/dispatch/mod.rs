//! Dispatch: many small requests, few large store calls.
//!
//! Whatever waits when a slot frees goes out together (natural batching): nothing is delayed to make a batch larger, an
//! idle broker sends a lone request at once, a busy one sends large batches.

mod intake;
mod limit;

pub(crate) use intake::Intake;
pub(crate) use limit::Limit;
