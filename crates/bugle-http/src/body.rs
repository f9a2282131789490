//! Reads request bodies whole, with a bound on bytes and on time.
//!
//! One extractor-like function instead of a layer: a layer would box every body, and only handlers know which
//! requests have one.

use axum::body::{Body, HttpBody};
use bytes::{Bytes, BytesMut};
use http::StatusCode;
use http_body_util::BodyExt;
use tokio::time::timeout;

use crate::app::HttpConfig;
use crate::error::Failure;

/// Room set aside at once for an announced body; the rest only as it arrives.
const FIRST_ROOM: usize = 1 << 20;

/// The whole body in one piece. A body that arrived in one piece is not copied.
pub(crate) async fn read(mut body: Body, config: &HttpConfig) -> Result<Bytes, Failure> {
    let announced = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    if announced > config.max_body {
        discard(&mut body, config).await;
        return Err(too_large(config));
    }
    let Some(first) = piece(&mut body, config).await? else { return Ok(Bytes::new()) };
    if body.is_end_stream() && first.len() <= config.max_body {
        return Ok(first);
    }
    let mut whole = BytesMut::with_capacity(announced.clamp(first.len(), FIRST_ROOM.max(first.len())));
    whole.extend_from_slice(&first);
    drop(first);
    loop {
        if whole.len() > config.max_body {
            discard(&mut body, config).await;
            return Err(too_large(config));
        }
        match piece(&mut body, config).await? {
            Some(next) => whole.extend_from_slice(&next),
            None => return Ok(whole.freeze()),
        }
    }
}

async fn piece(body: &mut Body, config: &HttpConfig) -> Result<Option<Bytes>, Failure> {
    loop {
        let next = timeout(config.body_timeout, body.frame())
            .await
            .map_err(|_| Failure::new(StatusCode::REQUEST_TIMEOUT, "request body did not arrive in time"))?;
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
                    return Ok(Some(data));
                }
            }
        }
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
    let _ = timeout(config.body_timeout.min(std::time::Duration::from_secs(5)), reading).await;
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;
    use std::time::Duration;

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
