//! Settings in two stages: what was said ([`Raw`], every field optional, from four sources), then what it means
//! ([`Settings`], complete and checked). Only the first stage knows where a value came from, only the second is used.
//!
//! Modules in reading order; each uses only those above it.

mod amount;
mod auth;
mod checked;
mod limits;
mod old;
mod raw;
mod sources;
mod telemetry;
mod waking;

mod document;

pub(crate) use amount::Span;
pub(crate) use auth::TlsFiles;
pub(crate) use checked::{PostgresSettings, Settings, StoreSettings};
pub(crate) use document::markdown as document;
pub(crate) use raw::LogFormat;
pub(crate) use sources::{ServeArgs, Sources};
pub(crate) use waking::WakingSettings;
