//! A PostgreSQL cluster as people run it, and what becomes of messages when its primary is lost, moved or cut off.
//!
//! Three nodes under Patroni, one etcd, all on loopback. They need their packages, minutes and the machine for themselves, so
//! they are played only when they are asked for by name.

mod balancer;
mod cluster;
mod contrast;
mod loss;
mod node;
mod scene;
mod store;
mod takeover;

use std::sync::Arc;

use crate::scenario::Scenario;
use contrast::Contrast;
use scene::OnCluster;
use takeover::{Takeover, Trouble};

/// All of them.
pub(crate) fn all() -> Vec<Arc<dyn Scenario>> {
    vec![
        Arc::new(OnCluster(Takeover { trouble: Trouble::Killed, balancer: false })),
        Arc::new(OnCluster(Takeover { trouble: Trouble::Switched, balancer: false })),
        Arc::new(OnCluster(Takeover { trouble: Trouble::Isolated, balancer: false })),
        Arc::new(OnCluster(Takeover { trouble: Trouble::CutOff, balancer: false })),
        Arc::new(OnCluster(Takeover { trouble: Trouble::Switched, balancer: true })),
        Arc::new(OnCluster(Contrast)),
    ]
}
