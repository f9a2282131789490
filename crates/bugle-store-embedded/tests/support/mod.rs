//! What the tests of this crate share. Each test file uses a part of it.
#![allow(dead_code)]

pub mod disk;
pub mod model;
