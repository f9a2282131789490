//! What the tests of this crate share. Each test file uses a part of it.
#![allow(dead_code)]

pub(crate) mod change;
pub(crate) mod model;
pub(crate) mod picture;
pub(crate) mod regions;
