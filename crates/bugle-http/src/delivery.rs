//! A body that knows whether it was sent: an answer that never reaches its consumer is given back to the queue.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use axum::body::{Body, HttpBody};
use bugle_broker::Receipt;
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};

/// See the module.
pub(crate) struct Delivery {
    body: Body,
    receipt: Option<Receipt>,
}

impl Delivery {
    /// The same body, under `receipt`.
    pub(crate) fn wrap(body: Body, receipt: Receipt) -> Body {
        Body::new(Self { body, receipt: Some(receipt) })
    }
}

impl HttpBody for Delivery {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        // The server does not ask again after the last piece if it knows that it was the last.
        let over = match &frame {
            None => true,
            Some(Ok(_)) => self.body.is_end_stream(),
            Some(Err(_)) => false,
        };
        if over && let Some(receipt) = self.receipt.take() {
            receipt.sent();
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
