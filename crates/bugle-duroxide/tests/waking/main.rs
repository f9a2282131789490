//! Waking, on a real PostgreSQL: whatever makes an item fetchable reaches a fetch that waits, on this node or another.
//!
//! The fallback is an hour away and a fetch waits for a minute, so a test passes only if somebody was woken.
#![allow(clippy::unwrap_used)]

mod degraded;
mod herd;
mod matrix;
mod nodes;
