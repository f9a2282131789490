//! Waking sleepers: exact timers now, carriers between servers later.
//!
//! A hint is only a hint. Whoever is woken looks at the truth again; whoever is not woken is found by a timer.

mod timer;

pub use timer::Timers;
