//! Faults of the disk under the embedded engine.

mod error;
mod full;

use std::sync::Arc;

use crate::scenario::Scenario;

/// All of them.
pub(crate) fn all() -> Vec<Arc<dyn Scenario>> {
    vec![Arc::new(full::Full), Arc::new(error::Broken)]
}
