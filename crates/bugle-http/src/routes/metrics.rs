//! The numbers of the broker: as text for scrapers, as JSON for existing clients and for people. No route here calls the
//! store, so they answer while it is away.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use bugle_broker::Reading;
use bugle_wake::{CarrierStatus, HearingState};
use bugle_wire::{
    BackoffCount, BetweenServers, Counted, CpuUse, DatabaseUse, MemoryUse, MetricsSummary, ServerCount,
    SharedInShort, SharedState, TransportCount, WaiterCount,
};
use http::header::{CACHE_CONTROL, CONTENT_TYPE, VARY};
use http::{HeaderMap, HeaderValue, StatusCode};

use crate::accept::{Spelling, preferred};
use crate::app::App;
use crate::error::json;
use crate::exposition::{OPEN_METRICS, TEXT};
use crate::families::{ratio, write};
use crate::hearing::{carriers, dropped, healthy_peers, hearing};
use crate::inbox::inbox;
use crate::process::Process;

pub(crate) async fn prometheus(State(app): State<Arc<App>>) -> Response {
    text(&app, false)
}

pub(crate) async fn metrics(State(app): State<Arc<App>>, headers: HeaderMap) -> Response {
    let mut response = match preferred(&headers) {
        Spelling::Text => text(&app, false),
        Spelling::OpenMetrics => text(&app, true),
        Spelling::Json => {
            json(StatusCode::OK, &summary(&app.broker.read(), Process::read().unwrap_or_default()))
        }
    };
    response.headers_mut().insert(VARY, HeaderValue::from_static("accept"));
    response
}

pub(crate) async fn shared_state(State(app): State<Arc<App>>) -> Response {
    json(StatusCode::OK, &shared(&app.broker.read()))
}

fn text(app: &App, open_metrics: bool) -> Response {
    let page = write(&app.broker.read_all(), &app.config.edge.read(), Process::read(), open_metrics);
    let mut response = Response::new(Body::from(page));
    let kind = HeaderValue::from_static(if open_metrics { OPEN_METRICS } else { TEXT });
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}

/// What existing clients read.
fn summary(reading: &Reading, process: Process) -> MetricsSummary {
    let verbs = [&reading.push, &reading.pop, &reading.ack, &reading.transact];
    let uptime = reading.uptime.as_secs_f64();
    let counted =
        |total: u64| Counted { total, rate: if uptime > 0.0 { total as f64 / uptime } else { 0.0 } };
    MetricsSummary {
        uptime,
        requests: counted(verbs.iter().map(|verb| verb.requests).sum()),
        messages: counted(verbs.iter().map(|verb| verb.messages).sum()),
        database: DatabaseUse {
            pool_size: reading.store.max,
            idle_connections: reading.store.idle,
            waiting_requests: verbs.iter().map(|verb| verb.queued).sum(),
        },
        memory: MemoryUse {
            rss: process.resident_bytes,
            heap_total: 0,
            heap_used: 0,
            external: 0,
            array_buffers: 0,
        },
        cpu: CpuUse { user: micros(process.user), system: micros(process.system) },
    }
}

/// What this server knows of the others and of those who wait here. A "sidecar" is what holds waiting pops: here, a part
/// of the registry.
fn shared(reading: &Reading) -> SharedState<'_> {
    let (waiting, claims, pending) = (&reading.waiting, reading.claims, reading.pending);
    SharedState {
        between: between_servers(reading),
        maintenance_mode: reading.switches.push_maintenance,
        pop_maintenance_mode: reading.switches.pop_maintenance,
        inbox: inbox(reading),
        local_sidecars: waiting.shards,
        group_backoff: BackoffCount {
            groups_tracked: waiting.keys,
            groups_in_flight: waiting.keys_in_flight,
            groups_backed_off: waiting.keys_backed_off,
        },
        waiters: WaiterCount {
            waiting: waiting.waiting,
            parked: waiting.parked,
            registered: waiting.registered,
            served: waiting.served,
            expired: waiting.expired,
            cancelled: waiting.cancelled,
        },
        wakes: waiting.wakes.iter().map(|(source, count)| (source.name(), *count)).collect(),
        pop_batch_size: ratio(claims.pops, claims.calls),
        pop_batch_count: claims.calls,
        served_per_claim: ratio(claims.served, claims.calls),
        empty_claims: claims.empty,
        has_pending_checks: pending.checks,
        has_pending_hits: pending.hits,
        has_pending_misses: pending.misses,
        mean_wait_ms: waiting.mean_wait.as_secs_f64() * 1e3,
        floor_interval_ms: reading.floor.interval.as_secs_f64() * 1e3,
    }
}

/// How servers hear each other.
pub(crate) fn between_servers(reading: &Reading) -> BetweenServers<'_> {
    BetweenServers {
        enabled: !reading.carriers.is_empty(),
        running: reading.carriers.iter().any(|carrier| carrier.state != HearingState::Isolated),
        hearing: hearing(reading),
        transport: transport(reading),
        carriers: carriers(reading),
        server_health: servers(reading),
    }
}

/// The part of the shared state that `/health` tells to everybody.
pub(crate) fn shared_in_short(reading: &Reading) -> SharedInShort {
    let between = between_servers(reading);
    SharedInShort {
        enabled: between.enabled,
        running: between.running,
        server_health: between.server_health,
        maintenance_mode: reading.switches.push_maintenance,
        pop_maintenance_mode: reading.switches.pop_maintenance,
    }
}

fn transport(reading: &Reading) -> TransportCount {
    let sum = |count: fn(&CarrierStatus) -> u64| reading.carriers.iter().map(count).sum();
    TransportCount {
        sent: sum(|carrier| carrier.sent),
        received: sum(|carrier| carrier.received),
        dropped: sum(|carrier| dropped(carrier).iter().map(|(_, count)| count).sum()),
    }
}

/// One server may be heard by several carriers: the one that knows most of them says how many there are.
fn servers(reading: &Reading) -> ServerCount {
    let tracked = reading.carriers.iter().map(|carrier| carrier.peers.len()).max().unwrap_or(0);
    let alive = reading.carriers.iter().map(healthy_peers).max().unwrap_or(0);
    ServerCount {
        servers_tracked: tracked,
        servers_alive: alive,
        servers_dead: tracked.saturating_sub(alive),
    }
}

fn micros(span: std::time::Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::sample::{lonely, reading};
    use serde_json::json;

    #[test]
    fn the_summary_has_what_existing_clients_read() {
        let process = Process {
            user: Duration::from_millis(1500),
            system: Duration::from_millis(20),
            resident_bytes: 4096,
            virtual_bytes: 1 << 30,
        };
        let wanted = json!({
            "uptime": 2.5,
            "requests": {"total": 100, "rate": 40.0},
            "messages": {"total": 104, "rate": 41.6},
            "database": {"poolSize": 105, "idleConnections": 104, "waitingRequests": 112},
            "memory": {"rss": 4096, "heapTotal": 0, "heapUsed": 0, "external": 0, "arrayBuffers": 0},
            "cpu": {"user": 1_500_000, "system": 20_000},
        });
        assert_eq!(json!(summary(&reading(), process)), wanted);
    }

    #[test]
    fn the_shared_state_tells_of_carriers_and_waiters() {
        let state = json!(shared(&reading()));
        for (pointer, wanted) in [
            ("/maintenance_mode", json!(true)),
            ("/pop_maintenance_mode", json!(false)),
            ("/enabled", json!(true)),
            ("/running", json!(true)),
            ("/hearing", json!("degraded")),
            ("/transport", json!({"sent": 222, "received": 224, "dropped": 30})),
            ("/carriers/1/peers/1/healthy", json!(false)),
            ("/server_health", json!({"servers_tracked": 2, "servers_alive": 1, "servers_dead": 1})),
            ("/inbox/blockedQueues/0/queue", json!("full")),
            ("/local_sidecars", json!(60)),
            (
                "/group_backoff",
                json!({"groups_tracked": 57, "groups_in_flight": 58, "groups_backed_off": 59}),
            ),
            (
                "/waiters",
                json!({"waiting": 51, "parked": 52, "registered": 53, "served": 54, "expired": 55, "cancelled": 56}),
            ),
            ("/wakes", json!({"local": 61, "notify": 62, "udp": 63, "timer": 64, "floor": 65})),
            ("/pop_batch_size", json!(2.5)),
            ("/pop_batch_count", json!(4)),
            ("/served_per_claim", json!(1.5)),
            ("/empty_claims", json!(74)),
            ("/has_pending_checks", json!(81)),
            ("/has_pending_hits", json!(82)),
            ("/has_pending_misses", json!(83)),
            ("/mean_wait_ms", json!(250.0)),
            ("/floor_interval_ms", json!(100.0)),
        ] {
            assert_eq!(state.pointer(pointer), Some(&wanted), "{pointer}");
        }
    }

    #[test]
    fn a_server_by_itself_shares_no_state() {
        let state = json!(shared(&lonely()));
        assert_eq!((&state["enabled"], &state["running"]), (&json!(false), &json!(false)));
        assert_eq!(state["hearing"], "none");
        assert_eq!(state["transport"], json!({"sent": 0, "received": 0, "dropped": 0}));
    }
}
