//! `POST /api/v1/lease/:leaseId/extend`: a refusal is told in the body, the status is 200.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::response::Response;
use bugle_broker::Refused;
use bugle_wire::{Field, Millis, RenewAnswer, RenewRequest, read};
use http::StatusCode;

use crate::app::App;
use crate::body;
use crate::convert;
use crate::error::{Failure, json};
use crate::routes::pop::{MAX_LEASE_SECONDS, bad_path};

const DEFAULT_SECONDS: u64 = 60;

pub(crate) async fn extend(
    State(app): State<Arc<App>>,
    path: Result<Path<String>, PathRejection>,
    body: Body,
) -> Result<Response, Failure> {
    let Path(lease) = path.map_err(|e| bad_path(&e))?;
    let body = body::read(body, &app.config).await?;
    let renewed = app.broker.renew(convert::lease(&lease), seconds(&body)?).await?;
    let end = renewed.expires_at.map(|at| Millis(at.0));
    Ok(json(
        StatusCode::OK,
        &RenewAnswer {
            index: 0,
            lease_id: &lease,
            success: renewed.error.is_none() && renewed.renewed > 0,
            renewed: renewed.renewed,
            error: renewed.error,
            new_expires_at: end,
            expires_at: end,
            lease_expires_at: end,
        },
    ))
}

/// A body that cannot be read means the default: a consumer that wants to keep its lease shall not lose it for that.
fn seconds(body: &[u8]) -> Result<u64, Refused> {
    match read::<RenewRequest>(body).map(|request| request.seconds) {
        Ok(Field::Is(seconds)) => match u64::try_from(seconds) {
            Ok(seconds) if seconds >= 1 => Ok(seconds.min(MAX_LEASE_SECONDS)),
            _ => Err(Refused::Invalid("seconds must be at least 1".into())),
        },
        Ok(Field::Absent | Field::Wrong) | Err(_) => Ok(DEFAULT_SECONDS),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_have_a_default_and_bounds() {
        for body in ["", "{}", "nonsense", "[]", r#"{"seconds":null}"#, r#"{"seconds":"9"}"#] {
            assert_eq!(seconds(body.as_bytes()).unwrap(), 60, "{body}");
        }
        assert_eq!(seconds(br#"{"seconds":5}"#).unwrap(), 5);
        assert_eq!(seconds(br#"{"seconds":99999999}"#).unwrap(), MAX_LEASE_SECONDS);
        assert!(seconds(br#"{"seconds":0}"#).is_err() && seconds(br#"{"seconds":-1}"#).is_err());
    }
}
