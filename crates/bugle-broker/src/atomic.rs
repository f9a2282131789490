//! Atomic numbers that others act upon: the models see every step of them.

#[cfg(not(bugle_model))]
pub(crate) use std::sync::atomic::{AtomicBool, AtomicUsize};

#[cfg(bugle_model)]
pub(crate) use tokio::{AtomicBool, AtomicUsize};
