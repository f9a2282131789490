//! Races on purpose, for the models in `models/`, which must find each of them. Without a model's build every question here is
//! answered `false` at compile time, and nothing is left of them.

/// Whether this race is to happen.
#[cfg(not(bugle_model))]
pub(crate) const fn race(_name: &str) -> bool {
    false
}

#[cfg(bugle_model)]
pub(crate) use tokio::model::is_planted as race;
