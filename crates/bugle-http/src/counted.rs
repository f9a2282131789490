//! The scan of a push's body, for `bench/instructions`, which counts what it costs.

use bytes::Bytes;

use crate::convert::Sender;
use crate::routes::push;

/// Reads the body of a push; the number of its messages, none if it is refused.
pub fn push_items(body: &Bytes) -> usize {
    push::items(body, Sender::default()).map_or(0, |items| items.len())
}
