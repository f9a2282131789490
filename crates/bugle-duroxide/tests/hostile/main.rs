//! Bad input: whatever comes, the answer is a typed error or the right result, nothing is half written, and unrelated work
//! goes on.

#![allow(clippy::unwrap_used)]

mod booting;
mod connections;
mod sizes;
mod stage;
mod tokens;
mod zero;
