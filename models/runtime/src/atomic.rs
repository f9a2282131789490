//! Atomic numbers that the scheduler knows. Statics and counters of metrics may stay the standard library's.

pub use shuttle::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
