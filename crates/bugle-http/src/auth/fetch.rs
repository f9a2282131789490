//! Fetches one small document by HTTP or HTTPS: a key set. No redirects, no proxies, bounded in size; the caller bounds
//! the time.

use bytes::Bytes;
use http::{Method, StatusCode, Uri, header};
use http_body_util::{BodyExt, Full, Limited};

use crate::outbound::{Failed, Line, request};

/// Most bytes of a document.
pub(crate) const MAX_BYTES: usize = 1 << 20;

/// The document at `uri`.
pub(crate) async fn fetch(uri: &Uri) -> Result<Bytes, Failed> {
    let mut line = Line::to(uri).await?;
    let request =
        request(Method::GET, uri).header(header::ACCEPT, "application/json").body(Full::default())?;
    let response = line.sender.send_request(request).await?;
    if response.status() != StatusCode::OK {
        return Err(format!("answered {}", response.status()).into());
    }
    Ok(Limited::new(response.into_body(), MAX_BYTES).collect().await?.to_bytes())
}
