//! `PostgresProvider::import` from a schema that the real `duroxide-pg` made, filled and left.

#![allow(clippy::unwrap_used)]

mod database;
mod moving;
mod old;
mod refusals;
