//! How this server tells others what moved, hears them, and what it does when it cannot.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use bugle_broker::{BrokerConfig, FloorConfig};

use super::amount::Span;
use super::checked::{get, lasting, positive, redacted};
use super::raw::Raw;

/// Shortest secret that signs datagrams.
const SECRET_MIN: usize = 16;

/// See the module.
pub(crate) struct WakingSettings {
    /// Tell and hear by NOTIFY.
    pub(crate) notify: bool,
    /// Where to LISTEN, with the password, if not where the store is.
    pub(crate) listen_store: Option<String>,
    /// Datagrams between servers.
    pub(crate) udp: Option<UdpSettings>,
    /// What this server calls itself.
    pub(crate) name: Option<String>,
    /// A number of poll workers was given, and has no meaning.
    pub(crate) poll_workers: Option<u32>,
}

/// Datagrams between servers.
pub(crate) struct UdpSettings {
    /// Own address.
    pub(crate) bind: SocketAddr,
    /// The others'.
    pub(crate) peers: Vec<String>,
    /// Signs every datagram.
    pub(crate) secret: Vec<u8>,
}

impl std::fmt::Debug for WakingSettings {
    /// Everything but passwords and secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WakingSettings")
            .field("notify", &self.notify)
            .field("listen_store", &self.listen_store.as_deref().map(redacted))
            .field("udp", &self.udp.as_ref().map(|udp| (udp.bind, &udp.peers)))
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl WakingSettings {
    /// Check what was said.
    pub(super) fn check(raw: &Raw) -> Result<Self> {
        Ok(Self {
            notify: get(raw.notify, "notify")?,
            listen_store: raw.listen_store.clone().filter(|address| !address.is_empty()),
            udp: udp(raw)?,
            name: raw.server_name.clone().filter(|name| !name.is_empty()),
            poll_workers: raw.poll_worker_count,
        })
    }
}

fn udp(raw: &Raw) -> Result<Option<UdpSettings>> {
    let Some(listen) = raw.udp_listen.as_deref().filter(|text| !text.is_empty()) else {
        ensure!(raw.udp_peers.is_none(), "udp-peers needs udp-listen");
        return Ok(None);
    };
    if raw.store.as_deref() == Some("embedded") {
        bail!("udp-listen: the embedded store has one server only, so there is nobody to tell");
    }
    let bind = listen.parse().with_context(|| format!("udp-listen {listen:?} is not IP:PORT"))?;
    let named = raw.udp_peers.as_deref().unwrap_or_default().split(',').map(str::trim);
    let peers: Vec<String> = named.filter(|peer| !peer.is_empty()).map(str::to_owned).collect();
    ensure!(!peers.is_empty(), "udp-listen needs udp-peers");
    for peer in &peers {
        let port = peer.rsplit_once(':').and_then(|(host, port)| (!host.is_empty()).then_some(port));
        ensure!(port.is_some_and(|port| port.parse::<u16>().is_ok()), "udp-peers: {peer:?} is not HOST:PORT");
    }
    let secret = raw.udp_secret.clone().unwrap_or_default().into_bytes();
    ensure!(secret.len() >= SECRET_MIN, "udp-secret must have at least {SECRET_MIN} bytes");
    Ok(Some(UdpSettings { bind, peers, secret }))
}

/// The floor's settings.
pub(super) fn floor(raw: &Raw) -> Result<FloorConfig> {
    let multiplier = get(raw.pop_wait_multiplier, "pop-wait-multiplier")?;
    ensure!((1.0..=1000.0).contains(&multiplier), "pop-wait-multiplier must be between 1 and 1000");
    let (base, max) =
        (lasting(raw.pop_wait_base, "pop-wait-base")?, lasting(raw.pop_wait_max, "pop-wait-max")?);
    ensure!(base <= max, "pop-wait-base must not be longer than pop-wait-max");
    ensure!(base >= Duration::from_millis(1), "pop-wait-base must be at least 1ms");
    Ok(FloorConfig {
        base,
        active: lasting(raw.pop_wait_active, "pop-wait-active")?,
        max,
        threshold: positive(raw.pop_wait_threshold, "pop-wait-threshold")?,
        multiplier,
        with_carrier: lasting(raw.pop_wait_with_carrier, "pop-wait-with-carrier")?,
        pending_check: get(raw.pending_check, "pending-check")?,
        pending_check_from: get(raw.pending_check_from, "pending-check-from")?.0,
    })
}

pub(super) fn defaults(broker: &BrokerConfig) -> Raw {
    let floor = broker.floor;
    Raw {
        notify: Some(true),
        pop_wait_base: Some(Span(floor.base)),
        pop_wait_active: Some(Span(floor.active)),
        pop_wait_threshold: Some(floor.threshold),
        pop_wait_multiplier: Some(floor.multiplier),
        pop_wait_max: Some(Span(floor.max)),
        pop_wait_with_carrier: Some(Span(floor.with_carrier)),
        pending_check: Some(floor.pending_check),
        pending_check_from: Some(Span(floor.pending_check_from)),
        pop_batching: Some(broker.pop_batching),
        ..Raw::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_udp(listen: &str, peers: &str, secret: &str) -> Raw {
        let text = |text: &str| Some(text.to_owned());
        Raw {
            store: text("postgres://x"),
            udp_listen: text(listen),
            udp_peers: text(peers),
            udp_secret: text(secret),
            ..Raw::default()
        }
    }

    #[test]
    fn udp_needs_an_address_peers_and_a_long_secret() {
        let good = udp(&with_udp("127.0.0.1:7000", "a:1, b.example:2", "0123456789abcdef")).unwrap().unwrap();
        assert_eq!(good.peers, ["a:1", "b.example:2"]);
        for (raw, word) in [
            (with_udp("localhost:1", "a:1", "0123456789abcdef"), "udp-listen"),
            (with_udp("127.0.0.1:1", " ,", "0123456789abcdef"), "udp-peers"),
            (with_udp("127.0.0.1:1", "a", "0123456789abcdef"), "udp-peers"),
            (with_udp("127.0.0.1:1", "a:x", "0123456789abcdef"), "udp-peers"),
            (with_udp("127.0.0.1:1", "a:1", "short"), "udp-secret"),
            (Raw { udp_peers: Some("a:1".into()), ..Raw::default() }, "udp-listen"),
        ] {
            let error = udp(&raw).err().map(|e| e.to_string()).unwrap_or_default();
            assert!(error.contains(word) && !error.contains("short"), "{word}: {error}");
        }
        let alone = Raw { store: Some("embedded".into()), ..with_udp("127.0.0.1:1", "a:1", "x") };
        assert!(udp(&alone).is_err());
    }

    #[test]
    fn the_floor_is_refused_where_it_makes_no_sense() {
        let all = |raw: Raw| floor(&raw.or(defaults(&BrokerConfig::default())));
        assert!(all(Raw::default()).is_ok());
        let span = |ms| Some(Span(Duration::from_millis(ms)));
        for raw in [
            Raw { pop_wait_base: span(0), ..Raw::default() },
            Raw { pop_wait_base: span(2000), ..Raw::default() },
            Raw { pop_wait_multiplier: Some(0.5), ..Raw::default() },
            Raw { pop_wait_multiplier: Some(f64::NAN), ..Raw::default() },
            Raw { pop_wait_threshold: Some(0), ..Raw::default() },
        ] {
            assert!(all(raw.clone()).is_err(), "{raw:?}");
        }
    }
}
