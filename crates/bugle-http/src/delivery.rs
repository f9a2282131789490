//! An answer that never reaches its consumer is given back to the queue.

use axum::body::Body;
use bugle_broker::Receipt;

use crate::watched::{Watch, watched};

/// Holds the receipt until the last byte went out.
struct Delivery(Option<Receipt>);

/// The same body, under `receipt`.
pub(crate) fn delivered(body: Body, receipt: Receipt) -> Body {
    watched(body, Delivery(Some(receipt)))
}

impl Watch for Delivery {
    fn over(&mut self) {
        if let Some(receipt) = self.0.take() {
            receipt.sent();
        }
    }
}
