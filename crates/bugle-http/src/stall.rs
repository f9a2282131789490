//! A connection whose other end stops reading is given up. Without that, a client that asks for large answers and reads
//! none of them would keep their memory for as long as it likes.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// Writes fail if nothing can be written for so long. Costs nothing while writing goes on.
pub(crate) struct Stalling<I> {
    io: I,
    limit: Duration,
    /// Runs while nothing can be written.
    since: Option<Pin<Box<Sleep>>>,
}

impl<I> Stalling<I> {
    pub(crate) fn new(io: I, limit: Duration) -> Self {
        Self { io, limit, since: None }
    }

    fn timed<T>(&mut self, cx: &mut Context<'_>, outcome: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if outcome.is_ready() {
            self.since = None;
            return outcome;
        }
        let since = self.since.get_or_insert_with(|| Box::pin(sleep(self.limit)));
        match since.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<I: AsyncRead + Unpin> AsyncRead for Stalling<I> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, into)
    }
}

impl<I: AsyncWrite + Unpin> AsyncWrite for Stalling<I> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.io).poll_write(cx, bytes);
        self.timed(cx, outcome)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.io).poll_write_vectored(cx, bytes);
        self.timed(cx, outcome)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.io).poll_flush(cx);
        self.timed(cx, outcome)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.io).poll_shutdown(cx);
        self.timed(cx, outcome)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    #[tokio::test(start_paused = true)]
    async fn a_reader_that_is_slow_is_waited_for_and_one_that_stops_is_not() {
        let (ours, mut theirs) = duplex(4);
        let mut stalling = Stalling::new(ours, Duration::from_secs(10));
        let writing = tokio::spawn(async move { stalling.write_all(&[7; 12]).await.map_err(|e| e.kind()) });
        for _ in 0..2 {
            sleep(Duration::from_secs(9)).await;
            theirs.read_exact(&mut [0; 4]).await.unwrap();
        }
        assert_eq!(writing.await.unwrap(), Ok(()), "slow");
        let (ours, _theirs) = duplex(4);
        let mut stalling = Stalling::new(ours, Duration::from_secs(10));
        assert_eq!(stalling.write_all(&[7; 12]).await.map_err(|e| e.kind()), Err(io::ErrorKind::TimedOut));
    }
}
