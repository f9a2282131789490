//! `tokio` as far as Bugle uses it, under the models' scheduler.
//!
//! Tasks are the scheduler's, and so is the time ([`time`]): it stands still while anybody can do anything, except now and
//! then. What tokio's channels do inside is taken for granted, each of their steps for one that cannot be interrupted;
//! [`sync::Notify`] and [`sync::oneshot`] let others come first before every step. Input and output are tokio's own and
//! cannot be used here.
//!
//! [`model`] is what the models are written with.

pub mod model;
pub mod sync;
pub mod task;
pub mod time;

mod atomic;
mod dice;

pub use atomic::{AtomicBool, AtomicU64, AtomicUsize};
pub use task::spawn;
pub use tokio::{join, net};

/// For the macros.
#[doc(hidden)]
pub use tokio as real;

/// The first that is ready. Of several, the one that is named first: chance would have to come from the scheduler.
#[macro_export]
macro_rules! select {
    (biased; $($branches:tt)*) => { $crate::real::select! { biased; $($branches)* } };
    ($($branches:tt)*) => { $crate::real::select! { biased; $($branches)* } };
}
