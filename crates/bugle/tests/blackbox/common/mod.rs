//! Starts the server on an engine and talks to it.

mod answer_eater;
mod client;
mod collector;
pub(crate) mod contract;
mod datagrams;
mod events;
mod metrics;
mod own_postgres;
mod server;
mod sql;
mod waiter;
mod wire_cutter;

use std::time::Duration;

use tokio::time::{Instant, sleep};

pub(crate) use answer_eater::AnswerEater;
pub(crate) use client::{Answer, Client, Line, ids};
pub(crate) use collector::{Collector, text as attribute};
pub(crate) use datagrams::{DatagramProxy, free_udp};
pub(crate) use events::Events;
pub(crate) use metrics::Metrics;
pub(crate) use own_postgres::OwnPostgres;
pub(crate) use server::{On, Server, command};
pub(crate) use sql::Sql;
pub(crate) use waiter::Waiter;
pub(crate) use wire_cutter::WireCutter;

/// Longest time that any awaited event may take; the machine may be busy.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Wait until something is so that tells nobody: it is looked at again until it fits.
pub(crate) async fn until_true(what: &str, mut fits: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !fits().await {
        assert!(Instant::now() < deadline, "never so: {what}");
        sleep(Duration::from_millis(5)).await;
    }
}

/// Run each test on the embedded engine, on PostgreSQL, and on PostgreSQL behind a transaction pooler.
macro_rules! on_every_engine {
    ($(async fn $name:ident($on:ident: On) $body:block)*) => {
        $(async fn $name($on: crate::common::On) $body)*

        mod embedded {
            $(#[tokio::test] async fn $name() { super::$name(crate::common::On::embedded()).await })*
        }
        mod postgres {
            $(#[tokio::test] async fn $name() { super::$name(crate::common::On::postgres().await).await })*
        }
        mod pgbouncer {
            $(#[tokio::test] async fn $name() { super::$name(crate::common::On::pgbouncer().await).await })*
        }
    };
}

/// Run each test on PostgreSQL, and behind a transaction pooler with listening connections that go around it: what
/// several servers can share.
macro_rules! on_every_database {
    ($(async fn $name:ident($on:ident: On) $body:block)*) => {
        $(async fn $name($on: crate::common::On) $body)*

        mod database {
            $(#[tokio::test] async fn $name() { super::$name(crate::common::On::postgres().await).await })*
        }
        mod pooled_database {
            $(#[tokio::test] async fn $name() { super::$name(crate::common::On::listening_pgbouncer().await).await })*
        }
    };
}
