//! `POST /api/v1/lease/:leaseId/extend`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::field::Field;
use crate::shape::Seconds;
use crate::time::Millis;

/// `{"seconds": 60}`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub struct RenewRequest {
    /// 60 if absent, or no whole number.
    #[schemars(with = "Seconds")]
    pub seconds: Field<i64>,
}

/// The union of the forms that clients read; the new end is told under all three of its names.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RenewAnswer<'a> {
    /// Always 0.
    pub index: usize,
    /// As sent.
    #[serde(rename = "leaseId")]
    pub lease_id: &'a str,
    /// Something was extended.
    pub success: bool,
    /// Lanes extended.
    pub renewed: usize,
    /// `Lease not found` or `Lease already expired`.
    pub error: Option<&'a str>,
    /// The earliest new end.
    #[serde(rename = "newExpiresAt")]
    pub new_expires_at: Option<Millis>,
    /// The same.
    #[serde(rename = "expiresAt")]
    pub expires_at: Option<Millis>,
    /// The same.
    pub lease_expires_at: Option<Millis>,
}
