//! Starts the server on an engine and talks to it.

mod client;
mod server;
mod wire_cutter;

use std::time::Duration;

pub(crate) use client::{Client, ids};
pub(crate) use server::{On, Server, command};
pub(crate) use wire_cutter::WireCutter;

/// Longest time that any awaited event may take; the machine may be busy.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

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
