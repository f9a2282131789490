//! The level map: what a request needs, by method and path alone, and what a role gives.
//!
//! The router matches raw paths, so this does too: a path that is spelled otherwise reaches no route. What is not known
//! here errs on the strict side: reading needs a reader, anything else a writer, and deleting an administrator.

use std::convert::Infallible;
use std::net::SocketAddr;

use axum::extract::FromRequestParts;
use bugle_broker::Consumer;
use bytes::Bytes;
use http::Method;
use http::request::Parts;

use super::callers::Allowance;
use crate::convert::Sender;
use crate::error::Failure;
use crate::trace_headers;

/// Paths that need no credentials unless a setting says otherwise, as [`listed`] reads them: what tells of the server and
/// of its API, and nothing of messages.
pub const PUBLIC_PATHS: [&str; 8] =
    ["/", "/assets/", "/health", "/health/", "/metrics", "/metrics/", "/docs", "/openapi.json"];

/// What somebody is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Everything.
    Admin,
    /// Everything but administration.
    ReadWrite,
    /// Push, and nothing else.
    WriteOnly,
    /// Look, and change nothing. Pops are changes.
    ReadOnly,
}

impl Role {
    /// All of them, with their names.
    pub const ALL: [(Self, &'static str); 4] = [
        (Self::Admin, "admin"),
        (Self::ReadWrite, "read-write"),
        (Self::WriteOnly, "write-only"),
        (Self::ReadOnly, "read-only"),
    ];

    /// The role of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|(_, known)| *known == name).map(|(role, _)| role)
    }
}

/// What somebody may do: the union of their roles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Permissions(u8);

impl Permissions {
    /// These and those of `role`.
    pub fn with(self, role: Role) -> Self {
        let more = match role {
            Role::Admin => 0b1111,
            Role::ReadWrite => 0b0111,
            Role::WriteOnly => 0b0010,
            Role::ReadOnly => 0b0001,
        };
        Self(self.0 | more)
    }

    /// Whether they suffice.
    pub(crate) fn allow(self, level: Level) -> bool {
        self.0 & level as u8 != 0
    }
}

/// What a request needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Level {
    ReadOnly = 0b0001,
    Push = 0b0010,
    ReadWrite = 0b0100,
    Admin = 0b1000,
}

/// Who sent a request, as far as it is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Caller {
    /// The token's `sub` or the key's name.
    pub(crate) subject: Option<Bytes>,
    pub(crate) permissions: Permissions,
}

/// Who sends messages, as handlers take it.
pub(crate) struct Producer {
    /// What its messages have from the request: the subject of an authenticated caller, and the trace.
    pub(crate) sender: Sender,
    allowance: Option<Allowance>,
}

impl Producer {
    /// Refuse more messages than the caller may send.
    pub(crate) fn sends(&self, messages: usize) -> Result<(), Failure> {
        self.allowance.as_ref().map_or(Ok(()), |allowance| allowance.take(messages))
    }
}

impl<S: Sync> FromRequestParts<S> for Producer {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let subject = parts.extensions.get::<Caller>().and_then(|caller| caller.subject.clone());
        let sender = Sender { subject, context: trace_headers::of(&parts.headers) };
        Ok(Self { sender, allowance: parts.extensions.get().cloned() })
    }
}

/// Where a request came from, for handlers that want to know.
#[derive(Clone, Copy)]
pub(crate) struct Peer(pub(crate) SocketAddr);

/// Who waits for messages, as handlers take it; nobody knows who does not wait.
pub(crate) struct Asking(pub(crate) Option<Consumer>);

impl<S: Sync> FromRequestParts<S> for Asking {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let subject = || parts.extensions.get::<Caller>().and_then(|caller| caller.subject.clone());
        let peer = parts.extensions.get::<Peer>();
        Ok(Self(peer.map(|Peer(peer)| Consumer { peer: *peer, subject: subject() })))
    }
}

/// What is known of a request by its method and path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rule {
    pub(crate) level: Level,
    /// Its name in the audit log, if it belongs there.
    pub(crate) audit: Option<&'static str>,
}

/// The rule for a request.
pub(crate) fn rule(method: &Method, path: &str) -> Rule {
    let read = matches!(*method, Method::GET | Method::HEAD);
    let (level, action) = match administration(method, path) {
        Some(action) => (Level::Admin, action),
        None if read && under(path, "/api/v1/pop") => return Rule { level: Level::ReadWrite, audit: None },
        None if read => (Level::ReadOnly, ""),
        None => change(method, path),
    };
    let asks = read || *method == Method::OPTIONS;
    Rule { level, audit: Some(action).filter(|action| !asks && !action.is_empty()) }
}

/// The name of an action that only administrators may do.
fn administration(method: &Method, path: &str) -> Option<&'static str> {
    if under(path, "/api/v1/system/maintenance") {
        return Some("maintenance");
    }
    if path == "/api/v1/system/backup" {
        return Some("backup");
    }
    for (prefix, action) in [
        ("/api/v1/system", "system"),
        ("/api/v1/internal", "internal"),
        ("/internal", "internal"),
        ("/api/v1/migration", "migration"),
        ("/api/v1/stats/refresh", "stats.refresh"),
    ] {
        if under(path, prefix) {
            return Some(action);
        }
    }
    if *method != Method::DELETE || under(path, "/api/v1/messages") || under(path, "/api/v1/dlq") {
        return None;
    }
    Some(match () {
        () if under(path, "/api/v1/resources/queues") => "queue.delete",
        () if under(path, "/api/v1/queues") && path.ends_with("/clear") => "queue.clear",
        () if under(path, "/api/v1/consumer-groups") => "group.delete",
        () => "delete",
    })
}

/// Level and name of a change that is no administration. An empty name is too ordinary for the audit log.
fn change(method: &Method, path: &str) -> (Level, &'static str) {
    match path {
        "/api/v1/push" => return (Level::Push, ""),
        "/streams/v1/state/get" => return (Level::ReadOnly, ""),
        "/api/v1/configure" => return (Level::ReadWrite, "queue.configure"),
        _ => {}
    }
    let delete = *method == Method::DELETE;
    let action = match () {
        () if under(path, "/api/v1/messages") && delete => "message.delete",
        () if under(path, "/api/v1/messages") && path.ends_with("/dlq") => "message.dlq",
        () if under(path, "/api/v1/messages") => "dlq.redrive",
        () if under(path, "/api/v1/dlq") && delete => "dlq.delete",
        () if under(path, "/api/v1/dlq") => "dlq.redrive",
        () if under(path, "/api/v1/consumer-groups") && path.ends_with("/seek") => "group.seek",
        () if under(path, "/api/v1/consumer-groups") => "group.change",
        () => "",
    };
    (Level::ReadWrite, action)
}

/// Whether `path` is `prefix` or lies below it.
fn under(path: &str, prefix: &str) -> bool {
    path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Whether `path` is on a list of exact paths and, ending with `/`, prefixes. `/` alone is exact.
pub(crate) fn listed(list: &[String], path: &str) -> bool {
    list.iter()
        .any(|entry| entry == path || (entry.len() > 1 && entry.ends_with('/') && path.starts_with(entry)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATHS: &[(&str, &str, Level, &str)] = &[
        ("POST", "/api/v1/push", Level::Push, ""),
        ("GET", "/api/v1/push", Level::ReadOnly, ""),
        ("GET", "/api/v1/pop", Level::ReadWrite, ""),
        ("HEAD", "/api/v1/pop/queue/q", Level::ReadWrite, ""),
        ("GET", "/api/v1/pop/queue/q/partition/p", Level::ReadWrite, ""),
        ("GET", "/api/v1/popular", Level::ReadOnly, ""),
        ("POST", "/api/v1/ack", Level::ReadWrite, ""),
        ("POST", "/api/v1/ack/batch", Level::ReadWrite, ""),
        ("POST", "/api/v1/lease/x/extend", Level::ReadWrite, ""),
        ("POST", "/api/v1/transaction", Level::ReadWrite, ""),
        ("POST", "/api/v1/configure", Level::ReadWrite, "queue.configure"),
        ("GET", "/api/v1/resources/queues", Level::ReadOnly, ""),
        ("GET", "/api/v1/resources/queues/q", Level::ReadOnly, ""),
        ("GET", "/api/v1/resources/queues/q/depth", Level::ReadOnly, ""),
        ("GET", "/api/v1/resources/partitions", Level::ReadOnly, ""),
        ("GET", "/api/v1/resources/overview", Level::ReadOnly, ""),
        ("GET", "/api/v1/resources/namespaces", Level::ReadOnly, ""),
        ("GET", "/api/v1/resources/tasks", Level::ReadOnly, ""),
        ("DELETE", "/api/v1/resources/queues/q", Level::Admin, "queue.delete"),
        ("DELETE", "/api/v1/queues/q/clear", Level::Admin, "queue.clear"),
        ("GET", "/api/v1/messages", Level::ReadOnly, ""),
        ("GET", "/api/v1/messages/p/t", Level::ReadOnly, ""),
        ("DELETE", "/api/v1/messages/p/t", Level::ReadWrite, "message.delete"),
        ("POST", "/api/v1/messages/p/t/retry", Level::ReadWrite, "dlq.redrive"),
        ("POST", "/api/v1/messages/p/t/dlq", Level::ReadWrite, "message.dlq"),
        ("GET", "/api/v1/dlq", Level::ReadOnly, ""),
        ("GET", "/api/v1/dlq/count", Level::ReadOnly, ""),
        ("POST", "/api/v1/dlq/5/replay", Level::ReadWrite, "dlq.redrive"),
        ("POST", "/api/v1/dlq/redrive", Level::ReadWrite, "dlq.redrive"),
        ("DELETE", "/api/v1/dlq", Level::ReadWrite, "dlq.delete"),
        ("DELETE", "/api/v1/dlq/5", Level::ReadWrite, "dlq.delete"),
        ("POST", "/api/v1/traces", Level::ReadWrite, ""),
        ("GET", "/api/v1/traces/names", Level::ReadOnly, ""),
        ("GET", "/api/v1/traces/by-name/x", Level::ReadOnly, ""),
        ("GET", "/api/v1/traces/p/t", Level::ReadOnly, ""),
        ("GET", "/api/v1/events", Level::ReadOnly, ""),
        ("GET", "/api/v1/waiting", Level::ReadOnly, ""),
        ("GET", "/api/v1/consumer-groups", Level::ReadOnly, ""),
        ("GET", "/api/v1/consumer-groups/lagging", Level::ReadOnly, ""),
        ("GET", "/api/v1/consumer-groups/g", Level::ReadOnly, ""),
        ("POST", "/api/v1/consumer-groups/g/subscription", Level::ReadWrite, "group.change"),
        ("POST", "/api/v1/consumer-groups/g/queues/q/seek", Level::ReadWrite, "group.seek"),
        ("POST", "/api/v1/consumer-groups/g/queues/q/partitions/p/seek", Level::ReadWrite, "group.seek"),
        ("DELETE", "/api/v1/consumer-groups/g", Level::Admin, "group.delete"),
        ("DELETE", "/api/v1/consumer-groups/g/queues/q", Level::Admin, "group.delete"),
        ("GET", "/api/v1/status", Level::ReadOnly, ""),
        ("GET", "/api/v1/status/queues", Level::ReadOnly, ""),
        ("GET", "/api/v1/status/queues/q", Level::ReadOnly, ""),
        ("GET", "/api/v1/status/queues/q/messages", Level::ReadOnly, ""),
        ("GET", "/api/v1/analytics/queue-ops", Level::ReadOnly, ""),
        ("POST", "/api/v1/stats/refresh", Level::Admin, "stats.refresh"),
        ("GET", "/api/v1/system/shared-state", Level::Admin, ""),
        ("GET", "/api/v1/system/maintenance", Level::Admin, ""),
        ("POST", "/api/v1/system/maintenance", Level::Admin, "maintenance"),
        ("POST", "/api/v1/system/maintenance/pop", Level::Admin, "maintenance"),
        ("POST", "/api/v1/system/backup", Level::Admin, "backup"),
        ("PUT", "/api/v1/system/else", Level::Admin, "system"),
        ("POST", "/internal/api/notify", Level::Admin, "internal"),
        ("GET", "/api/v1/migration/status", Level::Admin, ""),
        ("POST", "/streams/v1/queries", Level::ReadWrite, ""),
        ("POST", "/streams/v1/cycle", Level::ReadWrite, ""),
        ("POST", "/streams/v1/state/get", Level::ReadOnly, ""),
        ("GET", "/metrics", Level::ReadOnly, ""),
        ("GET", "/health", Level::ReadOnly, ""),
        ("DELETE", "/api/v1/anything", Level::Admin, "delete"),
        ("PATCH", "/api/v1/anything", Level::ReadWrite, ""),
        ("OPTIONS", "/api/v1/configure", Level::ReadWrite, ""),
    ];

    #[test]
    fn every_route_has_its_level_and_its_name() {
        for (method, path, level, action) in PATHS {
            let rule = rule(&method.parse().unwrap(), path);
            assert_eq!((rule.level, rule.audit.unwrap_or("")), (*level, *action), "{method} {path}");
        }
    }

    #[test]
    fn roles_contain_each_other_and_write_only_is_push_alone() {
        let may = |role| {
            let all = [Level::ReadOnly, Level::Push, Level::ReadWrite, Level::Admin];
            all.map(|level| Permissions::default().with(role).allow(level))
        };
        assert_eq!(may(Role::Admin), [true; 4]);
        assert_eq!(may(Role::ReadWrite), [true, true, true, false]);
        assert_eq!(may(Role::WriteOnly), [false, true, false, false]);
        assert_eq!(may(Role::ReadOnly), [true, false, false, false]);
        let both = Permissions::default().with(Role::ReadOnly).with(Role::WriteOnly);
        assert!(both.allow(Level::ReadOnly) && both.allow(Level::Push) && !both.allow(Level::ReadWrite));
        assert!(!Permissions::default().allow(Level::ReadOnly), "nobody without a role reads");
    }

    #[test]
    fn listed_paths_are_exact_or_prefixes() {
        let list = ["/", "/health", "/assets/"].map(str::to_owned);
        for (path, yes) in [
            ("/", true),
            ("/health", true),
            ("/health/live", false),
            ("/healthy", false),
            ("/assets/", true),
            ("/assets/a.js", true),
            ("/assets", false),
            ("/api/v1/push", false),
        ] {
            assert_eq!(listed(&list, path), yes, "{path}");
        }
    }
}
