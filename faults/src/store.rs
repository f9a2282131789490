//! What is measured of stores under faults: recovery with many messages, and a snapshot that somebody holds.

mod recovery;
mod resume;
mod snapshot;

use std::sync::Arc;

use crate::scenario::Scenario;

/// All of them.
pub(crate) fn all() -> Vec<Arc<dyn Scenario>> {
    vec![Arc::new(recovery::Recovery), Arc::new(resume::Resume), Arc::new(snapshot::Snapshot)]
}
