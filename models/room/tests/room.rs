//! Models of the waiting room of the duroxide provider.
#![allow(clippy::unwrap_used)]

use bugle_room_model::{leaving, sitting};

#[test]
fn a_fetch_that_sits_down_misses_nothing() {
    sitting().holds();
}

#[test]
fn a_fetch_that_leaves_takes_nothing_along() {
    leaving().holds();
}

#[test]
fn a_fetch_that_sits_down_whatever_happened_is_found() {
    sitting().finds("sit down whatever happened");
}

#[test]
fn a_fetch_that_leaves_with_its_ticket_is_found() {
    leaving().finds("leave with the ticket");
}
