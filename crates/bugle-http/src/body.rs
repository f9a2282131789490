//! Reads request bodies whole, with a bound on bytes and on time.
//!
//! One extractor-like function instead of a layer: a layer would box every body, and only handlers know which
//! requests have one.

use std::time::Duration;

use axum::body::{Body, HttpBody};
use bytes::{Bytes, BytesMut};
use http::StatusCode;
use http_body_util::BodyExt;
use tokio::time::{Instant, timeout};

use crate::app::HttpConfig;
use crate::aside::aside;
use crate::edge::{Edge, Limit};
use crate::error::Failure;

/// Room set aside at once for an announced body; the rest only as it arrives.
const FIRST_ROOM: usize = 1 << 20;
/// Reading a body of this size keeps a thread longer than others should wait for it.
const LONG: usize = 256 << 10;
/// Suggested pause when there is no room for a body.
const ROOM_RETRY: Duration = Duration::from_secs(1);

/// The whole body in one piece. A body that arrived in one piece is not copied.
pub(crate) async fn read(mut body: Body, config: &HttpConfig) -> Result<Bytes, Failure> {
    let announced = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    if announced > config.max_body {
        discard(&mut body, config).await;
        return Err(too_large(config));
    }
    let mut pace = Pace { begun: None, received: 0, config };
    let Some(first) = pace.piece(&mut body).await? else { return Ok(Bytes::new()) };
    if body.is_end_stream() && first.len() <= config.max_body {
        return Ok(first);
    }
    let mut whole = Large { bytes: BytesMut::new(), room: Room { edge: config.edge.clone(), bytes: 0 } };
    whole.bytes.reserve(announced.clamp(first.len(), FIRST_ROOM.max(first.len())));
    let mut next = Some(first);
    while let Some(piece) = next {
        if whole.bytes.len() + piece.len() > config.max_body {
            drop((piece, whole));
            discard(&mut body, config).await;
            return Err(too_large(config));
        }
        if !whole.room.grow(piece.len(), config.max_body_memory) {
            drop((piece, whole));
            discard(&mut body, config).await;
            return Err(no_room(config));
        }
        whole.bytes.extend_from_slice(&piece);
        drop(piece);
        next = pace.piece(&mut body).await?;
    }
    Ok(Bytes::from_owner(whole))
}

/// Do work that takes as long as a body is long.
pub(crate) fn digest<T>(body: &Bytes, work: impl FnOnce() -> T) -> T {
    if body.len() >= LONG { aside(work) } else { work() }
}

/// A body that came in pieces. Counted until the last message of it is stored.
struct Large {
    bytes: BytesMut,
    room: Room,
}

impl AsRef<[u8]> for Large {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// A share of the memory that all bodies may have.
struct Room {
    edge: Edge,
    bytes: usize,
}

impl Room {
    fn grow(&mut self, by: usize, most: usize) -> bool {
        let fits = self.edge.enter(by, most);
        self.bytes += if fits { by } else { 0 };
        fits
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.edge.leave(self.bytes);
    }
}

/// How fast a body arrives.
struct Pace<'a> {
    /// When its first piece had arrived.
    begun: Option<Instant>,
    received: usize,
    config: &'a HttpConfig,
}

impl Pace<'_> {
    async fn piece(&mut self, body: &mut Body) -> Result<Option<Bytes>, Failure> {
        loop {
            let next = timeout(self.patience(), body.frame()).await.map_err(|_| {
                Failure::new(StatusCode::REQUEST_TIMEOUT, "request body did not arrive in time")
            })?;
            match next {
                None => return Ok(None),
                Some(Err(error)) => {
                    return Err(Failure::new(
                        StatusCode::BAD_REQUEST,
                        format!("request body could not be read: {error}"),
                    ));
                }
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.received += data.len();
                        return Ok(Some(data));
                    }
                }
            }
        }
    }

    /// How long to wait for the next piece: not longer than for any, and not so long that the whole would come too slowly.
    /// Bodies in one piece, which most are, ask no clock.
    fn patience(&mut self) -> Duration {
        let longest = self.config.body_timeout;
        if self.received == 0 {
            return longest;
        }
        let begun = *self.begun.get_or_insert_with(Instant::now);
        let earned = Duration::from_secs_f64(self.received as f64 / self.config.min_body_rate.max(1) as f64);
        longest.min((longest + earned).saturating_sub(begun.elapsed()))
    }
}

/// Read on for a bounded while, so that a client that is still sending gets to see the answer instead of a reset.
async fn discard(body: &mut Body, config: &HttpConfig) {
    let mut left = config.max_body;
    let reading = async {
        while let Some(Ok(frame)) = body.frame().await {
            let len = frame.data_ref().map_or(0, Bytes::len);
            if len > left {
                return;
            }
            left -= len;
        }
    };
    // Over either bound the connection is simply closed after the answer.
    let _ = timeout(config.body_timeout.min(Duration::from_secs(5)), reading).await;
}

fn too_large(config: &HttpConfig) -> Failure {
    Failure {
        code: Some("body_too_large"),
        ..Failure::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            format!("request body is larger than {} bytes", config.max_body),
        )
    }
}

fn no_room(config: &HttpConfig) -> Failure {
    config.edge.limited(Limit::Bodies);
    Failure {
        code: Some("busy"),
        retry_after: Some(ROOM_RETRY),
        ..Failure::new(
            StatusCode::TOO_MANY_REQUESTS,
            format!(
                "request bodies already take the {} bytes that they may take together",
                config.max_body_memory
            ),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    #[tokio::test]
    async fn bodies_in_pieces_share_a_bound_until_they_are_dropped() {
        let config = HttpConfig { max_body_memory: 10, ..config(8) };
        let first = read(in_pieces(&["123", "456"]), &config).await.unwrap();
        assert_eq!(first, "123456");
        let slice = first.slice(1..2);
        drop(first);
        let refused = read(in_pieces(&["123", "456"]), &config).await.unwrap_err();
        assert_eq!((refused.status, refused.code), (StatusCode::TOO_MANY_REQUESTS, Some("busy")));
        assert_eq!((config.edge.read().bodies, config.edge.read().limited[Limit::Bodies as usize]), (6, 1));
        assert_eq!(read(Body::from("12345678"), &config).await.unwrap(), "12345678", "one piece is free");
        drop(slice);
        assert!(read(in_pieces(&["123", "456"]), &config).await.is_ok());
        assert_eq!(config.edge.read().bodies, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_dribbles_is_given_up_and_one_that_is_only_slow_is_not() {
        let config = HttpConfig { body_timeout: Duration::from_secs(10), min_body_rate: 2, ..config(1000) };
        for (bytes, fast_enough) in [("x", false), ("123456789012345678", true)] {
            let pieces = futures_util::stream::unfold(0, move |n| async move {
                tokio::time::sleep(Duration::from_secs(9)).await;
                (n < 50).then_some((Ok::<_, Infallible>(Bytes::from_static(bytes.as_bytes())), n + 1))
            });
            let read = read(Body::from_stream(pieces), &config).await;
            match read {
                Ok(body) => assert!(fast_enough && body.len() == 50 * bytes.len()),
                Err(failure) => assert!(!fast_enough && failure.status == StatusCode::REQUEST_TIMEOUT),
            }
        }
    }

    fn config(max_body: usize) -> HttpConfig {
        HttpConfig { max_body, ..HttpConfig::default() }
    }

    fn in_pieces(pieces: &[&'static str]) -> Body {
        let pieces: Vec<_> =
            pieces.iter().map(|p| Ok::<_, Infallible>(Bytes::from_static(p.as_bytes()))).collect();
        Body::from_stream(futures_util::stream::iter(pieces))
    }

    #[tokio::test]
    async fn a_body_of_the_bound_passes_and_one_byte_more_does_not() {
        for (pieces, ok) in [
            (&["12345"][..], true),
            (&["123", "45"], true),
            (&["123456"], false),
            (&["123", "456"], false),
            (&[], true),
        ] {
            let seen = read(in_pieces(pieces), &config(5)).await;
            match seen {
                Ok(bytes) => assert!(ok && bytes == pieces.concat().as_bytes()),
                Err(e) => assert!(!ok && e.status == StatusCode::PAYLOAD_TOO_LARGE),
            }
        }
        let announced = read(Body::from("123456"), &config(5)).await.unwrap_err();
        assert_eq!(announced.status, StatusCode::PAYLOAD_TOO_LARGE);
    }

    #[tokio::test]
    async fn a_body_that_stops_arriving_is_given_up() {
        let stuck = Body::from_stream(futures_util::stream::pending::<Result<Bytes, Infallible>>());
        let config = HttpConfig { body_timeout: Duration::from_millis(20), ..config(5) };
        assert_eq!(read(stuck, &config).await.unwrap_err().status, StatusCode::REQUEST_TIMEOUT);
    }
}
