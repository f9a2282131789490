//! The systems there are to compare with: one file each.

pub(crate) mod bugle;
pub(crate) mod jobs;
mod nats;
mod node;
mod pgmq;
mod rabbitmq;
mod redis;

use anyhow::Result;
use clap::ValueEnum;

use crate::lab::Lab;
use crate::peer::Running;

/// A system that can be measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, ValueEnum)]
pub(crate) enum Peer {
    BuglePostgres,
    BugleEmbedded,
    JobTable,
    JobTransaction,
    Pgmq,
    PgBoss,
    GraphileWorker,
    Redis,
    Rabbitmq,
    Nats,
}

impl Peer {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::BuglePostgres => "Bugle on PostgreSQL",
            Self::BugleEmbedded => "Bugle embedded",
            Self::JobTable => "job table, SKIP LOCKED, lease",
            Self::JobTransaction => "job table, SKIP LOCKED, open transaction",
            Self::Pgmq => "pgmq",
            Self::PgBoss => "pg-boss",
            Self::GraphileWorker => "graphile-worker",
            Self::Redis => "Redis Streams",
            Self::Rabbitmq => "RabbitMQ quorum queue",
            Self::Nats => "NATS JetStream (not synced)",
        }
    }

    pub(crate) fn is_bugle(self) -> bool {
        matches!(self, Self::BuglePostgres | Self::BugleEmbedded)
    }

    /// Whether it keeps its messages in PostgreSQL.
    pub(crate) fn on_postgres(self) -> bool {
        !matches!(self, Self::BugleEmbedded | Self::Redis | Self::Rabbitmq | Self::Nats)
    }

    pub(crate) async fn start(self, lab: &Lab) -> Result<Running> {
        match self {
            Self::BuglePostgres => bugle::start(lab, Some(&lab.dsn)).await,
            Self::BugleEmbedded => bugle::start(lab, None).await,
            Self::JobTable => Ok(jobs::start(lab, jobs::Holding::Lease)),
            Self::JobTransaction => Ok(jobs::start(lab, jobs::Holding::Transaction)),
            Self::Pgmq => pgmq::start(lab).await,
            Self::PgBoss => node::start(lab, node::Library::PgBoss).await,
            Self::GraphileWorker => node::start(lab, node::Library::GraphileWorker).await,
            Self::Redis => redis::start(lab).await,
            Self::Rabbitmq => rabbitmq::start(lab).await,
            Self::Nats => nats::start(lab).await,
        }
    }
}
