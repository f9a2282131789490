//! How well other servers are heard, in the words of `/health`, `/metrics` and `shared-state`.

use bugle_broker::Reading;
use bugle_wake::{CarrierStatus, HearingState};
use bugle_wire::{CarrierEntry, PeerEntry};

/// All words for it.
pub(crate) const HEARINGS: [&str; 4] = ["connected", "degraded", "isolated", "none"];

/// The word for it: a server without carriers is not cut off from others, there are none it could hear.
pub(crate) fn hearing(reading: &Reading) -> &'static str {
    match reading.hearing.state {
        _ if reading.carriers.is_empty() => "none",
        HearingState::Connected => "connected",
        HearingState::Degraded => "degraded",
        HearingState::Isolated => "isolated",
    }
}

/// The carriers, for people.
pub(crate) fn carriers(reading: &Reading) -> Vec<CarrierEntry<'_>> {
    reading.carriers.iter().map(carrier).collect()
}

/// Peers that are heard.
pub(crate) fn healthy_peers(carrier: &CarrierStatus) -> usize {
    carrier.peers.iter().filter(|peer| peer.healthy).count()
}

/// Frames dropped, by reason.
pub(crate) fn dropped(carrier: &CarrierStatus) -> [(&'static str, u64); 5] {
    let dropped = carrier.dropped;
    [
        ("forged", dropped.forged),
        ("malformed", dropped.malformed),
        ("replayed", dropped.replayed),
        ("stale", dropped.stale),
        ("own", dropped.own),
    ]
}

fn carrier(carrier: &CarrierStatus) -> CarrierEntry<'_> {
    let ms = |span: Option<std::time::Duration>| span.map(|span| span.as_secs_f64() * 1e3);
    let peers = carrier.peers.iter().map(|peer| PeerEntry {
        name: &peer.name,
        healthy: peer.healthy,
        last_round_trip_ms: ms(peer.round_trip),
        silent_for_ms: ms(peer.silent_for),
    });
    CarrierEntry {
        name: carrier.source.to_string(),
        state: carrier.state.to_string(),
        peers: peers.collect(),
        last_round_trip_ms: ms(carrier.round_trip),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{lonely, reading};
    use serde_json::json;

    #[test]
    fn a_server_without_carriers_hears_none_and_is_not_isolated() {
        assert_eq!((hearing(&lonely()), carriers(&lonely())), ("none", Vec::new()));
        let heard = reading();
        assert_eq!(hearing(&heard), "degraded");
        let carriers = carriers(&heard);
        assert_eq!(
            json!(carriers[0]),
            json!({"name": "notify", "state": "connected", "lastRoundTripMs": 1.5,
                   "peers": [{"name": "b", "healthy": true, "lastRoundTripMs": null, "silentForMs": 2000.0}]})
        );
        assert_eq!(carriers[1].state, "degraded");
    }
}
