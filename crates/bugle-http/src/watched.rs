//! A body that somebody watches while it passes: how much of it, and whether all of it.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use axum::body::{Body, HttpBody};
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};

/// Who watches a body. Dropped with it, also if it never came to its end.
pub(crate) trait Watch: Send + Unpin + 'static {
    /// A piece of this many bytes went by.
    fn piece(&mut self, _bytes: u64) {}

    /// All of it went by.
    fn over(&mut self) {}
}

struct Watched<W> {
    body: Body,
    watch: W,
}

/// The same body, watched.
pub(crate) fn watched(body: Body, watch: impl Watch) -> Body {
    Body::new(Watched { body, watch })
}

impl<W: Watch> HttpBody for Watched<W> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        if let Some(Ok(frame)) = &frame {
            self.watch.piece(frame.data_ref().map_or(0, Bytes::len) as u64);
        }
        // Nobody asks again after the last piece who knows that it was the last.
        let over = match &frame {
            None => true,
            Some(Ok(_)) => self.body.is_end_stream(),
            Some(Err(_)) => false,
        };
        if over {
            self.watch.over();
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
