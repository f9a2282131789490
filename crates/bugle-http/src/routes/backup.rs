//! A backup as a tar archive, sent as fast as it is taken.

use std::io;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{RawQuery, State};
use axum::response::Response;
use bugle_broker::{BackupPieces, Refused};
use bugle_store::BackupPiece;
use bytes::Bytes;
use futures_util::stream::{self, Stream};
use http::HeaderValue;
use http::header::CONTENT_TYPE;

use crate::app::App;
use crate::archive::Archive;
use crate::error::Failure;
use crate::query::Query;

pub(crate) async fn backup(
    State(app): State<Arc<App>>,
    RawQuery(query): RawQuery,
) -> Result<Response, Failure> {
    let query = Query::read(query.as_deref())?;
    let spool_only = match query.text("spool") {
        None => false,
        Some("only") => true,
        Some(_) => return Err(Refused::Invalid("spool must be only, or be left out".into()).into()),
    };
    let pieces = app.broker.backup(spool_only).await?;
    let mut response = Response::new(Body::from_stream(archive(pieces)));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/x-tar"));
    Ok(response)
}

/// The archive, piece by piece. One that was given up ends with an error, so that nobody takes it for whole.
fn archive(pieces: BackupPieces) -> impl Stream<Item = io::Result<Bytes>> {
    stream::unfold(Some((pieces, Archive::now())), |state| async move {
        let (mut pieces, mut archive) = state?;
        match pieces.recv().await {
            Some(Ok(Some(BackupPiece::File { name, size }))) => {
                Some((archive.begin(&name, size), Some((pieces, archive))))
            }
            Some(Ok(Some(BackupPiece::Bytes(bytes)))) => {
                archive.count(bytes.len());
                Some((Ok(bytes), Some((pieces, archive))))
            }
            Some(Ok(None)) => Some((archive.end(), None)),
            Some(Err(error)) => Some((Err(error), None)),
            None => Some((Err(io::Error::other("the backup was given up")), None)),
        }
    })
}
