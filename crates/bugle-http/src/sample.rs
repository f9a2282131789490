//! Numbers for tests: each one different, so that none can stand in the place of another.

use std::time::Duration;

use bugle_broker::{
    BlockedQueue, ClaimReading, FloorReading, HistogramReading, InboxReading, PackingReading, PendingReading,
    QueueReading, Reading, SpoolReading, StoreReading, VerbReading, WaitingReading, WakeSource,
};
use bugle_store::{SpoolState, Switches};
use bugle_wake::{CarrierStatus, Dropped, Hearing, HearingState, PeerStatus, Source};

/// A server with two carriers and two queues.
pub(crate) fn reading() -> Reading {
    let verb = |from: u64| VerbReading {
        requests: from,
        messages: from + 1,
        refused: from + 2,
        queued: from as usize + 3,
        took: HistogramReading { buckets: vec![(0.1, from)], count: from + 1, sum: from as f64 + 0.5 },
    };
    Reading {
        uptime: Duration::from_millis(2500),
        push: verb(10),
        pop: verb(20),
        ack: verb(30),
        transact: verb(40),
        acks_rejected: 45,
        dead_lettered: 46,
        redriven: 47,
        switches: Switches { push_maintenance: true, pop_maintenance: false },
        spool: SpoolReading {
            state: SpoolState { records: 121, bytes: 122, max_bytes: 123, failed: None },
            spooled: 124,
            drained: 125,
        },
        inbox: Some(InboxReading {
            stored: 141,
            duplicates: 142,
            failures: 143,
            waiting: 144,
            oldest: Duration::from_millis(1450),
            blocked: 146,
            blocked_queues: vec![BlockedQueue {
                queue: "full".into(),
                reason: "queue full holds all it may".into(),
                since: Duration::from_millis(1460),
            }],
            delay: HistogramReading { buckets: vec![(0.1, 147)], count: 148, sum: 149.5 },
        }),
        waiting: waiting(),
        claims: ClaimReading { calls: 4, pops: 10, served: 6, lanes: 72, lost: 73, empty: 74, cached: 75 },
        pending: PendingReading { checks: 81, hits: 82, misses: 83 },
        floor: FloorReading { interval: Duration::from_millis(100), surveys: 91, errors: 92 },
        store: StoreReading {
            connected: true,
            calls: 101,
            errors: 102,
            timelines: 106,
            in_use: 103,
            idle: 104,
            max: 105,
        },
        packing: PackingReading { before: 900, after: 300, unpaid: 2 },
        hearing: Hearing { state: HearingState::Degraded, covered: true, lapses: 3 },
        carriers: vec![
            carrier(Source::Notify, HearingState::Connected, &["b"]),
            carrier(Source::Udp, HearingState::Degraded, &["b", "silent"]),
        ],
        queues: vec![queue("orders", 200), queue("a\"b\\c\nd", 100)],
    }
}

/// The same without carriers.
pub(crate) fn lonely() -> Reading {
    Reading {
        hearing: Hearing { state: HearingState::Isolated, covered: false, lapses: 0 },
        carriers: Vec::new(),
        inbox: None,
        ..reading()
    }
}

/// The same with this many queues, the busiest first.
pub(crate) fn crowded(queues: u64) -> Reading {
    Reading { queues: (0..queues).map(|n| queue(&format!("queue-{n}"), queues - n)).collect(), ..reading() }
}

pub(crate) fn queue(name: &str, pushed: u64) -> QueueReading {
    QueueReading {
        name: name.into(),
        pushed,
        popped: pushed + 1,
        acked: pushed + 2,
        waiting: pushed as usize + 3,
        overdue: pushed + 4,
    }
}

fn waiting() -> WaitingReading {
    WaitingReading {
        waiting: 51,
        parked: 52,
        registered: 53,
        served: 54,
        expired: 55,
        cancelled: 56,
        keys: 57,
        keys_in_flight: 58,
        keys_backed_off: 59,
        shards: 60,
        wakes: WakeSource::ALL.map(|source| (source, 61 + source as u64)),
        mean_wait: Duration::from_millis(250),
        wake_to_delivery: HistogramReading { buckets: vec![(0.001, 1), (5.0, 3)], count: 4, sum: 9.5 },
    }
}

fn carrier(source: Source, state: HearingState, peers: &[&str]) -> CarrierStatus {
    let peer = |name: &&str| PeerStatus {
        name: (*name).to_owned(),
        healthy: *name != "silent",
        round_trip: None,
        silent_for: Some(Duration::from_secs(2)),
    };
    CarrierStatus {
        source,
        state,
        peers: peers.iter().map(peer).collect(),
        round_trip: (state == HearingState::Connected).then_some(Duration::from_micros(1500)),
        sent: 111,
        received: 112,
        send_failed: 113,
        dropped: Dropped { forged: 1, malformed: 2, replayed: 3, stale: 4, own: 5 },
        gaps: 114,
        reconnects: 115,
    }
}
