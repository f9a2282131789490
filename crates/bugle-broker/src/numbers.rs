//! All numbers of the broker at one moment.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bugle_store::{Queue, QueueId};

use crate::api::PopTarget;
use crate::inner::Inner;
use crate::is_system;
use crate::meters::{
    ClaimReading, FloorReading, InboxReading, PendingReading, QueueMeter, QueueReading, Reading,
    SpoolReading, StoreReading, WaitingReading,
};
use crate::semantics::retention::Rule;

impl Inner {
    /// Messages became dead letters.
    pub(crate) fn count_dead(&self, queue: QueueId, messages: u64) {
        self.meters.dead_lettered.add(messages);
        self.meters.queues.of(queue).dead.add(messages);
        self.meters.stir();
    }

    /// A pop got nothing.
    pub(crate) fn count_empty(&self, target: &PopTarget) {
        self.meters.pop_empty.one();
        if let PopTarget::Lane { queue, .. } | PopTarget::Queue { queue } = target
            && let Some(queue) = self.catalog.queue(queue)
        {
            self.meters.queues.of(queue.id).pop_empty.one();
        }
    }

    /// Messages of a queue were removed by a rule.
    pub(crate) fn count_removed(&self, queue: &Queue, rule: Rule, messages: u64) {
        if messages == 0 || is_system(&queue.name) {
            return;
        }
        let meter = self.meters.queues.of(queue.id);
        match rule {
            Rule::Any => meter.retained.add(messages),
            Rule::Consumed => meter.completed.add(messages),
            Rule::Unread => meter.evicted.add(messages),
        }
        meter.removals.one();
        self.meters.stir();
    }

    fn read_inbox(&self) -> InboxReading {
        let (meters, depth) = (&self.meters, self.mover.depth());
        let (blocked, blocked_queues) = self.mover.blocked();
        InboxReading {
            stored: meters.inbox_stored.get(),
            duplicates: meters.inbox_duplicates.get(),
            failures: meters.inbox_failures.get(),
            waiting: depth.rows,
            oldest: depth.oldest.map_or(Duration::ZERO, |at| self.engine.now().latest.since(at)),
            blocked,
            blocked_queues,
            delay: meters.inbox_delay.read(),
        }
    }

    /// See [`crate::Broker::read`].
    pub(crate) fn read(&self) -> Reading {
        let meters = &self.meters;
        let connections = self.engine.connections();
        Reading {
            uptime: self.started.elapsed(),
            push: meters.push.read(self.pushes().queued()),
            pop: meters.pop.read(self.pops().queued()),
            ack: meters.ack.read(self.settles().queued()),
            transact: meters.transact.read(0),
            acks_rejected: meters.ack_failed.get(),
            dead_lettered: meters.dead_lettered.get(),
            redriven: meters.redriven.get(),
            switches: self.board.now(),
            spool: SpoolReading {
                state: self.spooling.state(),
                spooled: meters.spooled.get(),
                drained: meters.drained.get(),
            },
            inbox: self.engine.inbox().map(|_| self.read_inbox()),
            waiting: self.read_waiting(),
            claims: ClaimReading {
                calls: meters.claim_calls.get(),
                pops: meters.claim_jobs.get(),
                served: meters.claim_served.get(),
                lanes: meters.claim_lanes.get(),
                lost: meters.claims_lost.get(),
                empty: meters.claims_empty.get(),
                cached: meters.claims_cached.get(),
            },
            pending: PendingReading {
                checks: meters.pending_checks.get(),
                hits: meters.pending_hits.get(),
                misses: meters.pending_misses.get(),
            },
            floor: FloorReading {
                interval: self.floor.interval(self.hears()),
                surveys: meters.surveys.get(),
                errors: meters.survey_errors.get(),
            },
            store: StoreReading {
                connected: !self.store_health().away,
                calls: meters.store_calls.get(),
                errors: meters.store_errors.get(),
                timelines: meters.timelines.get(),
                in_use: connections.in_use,
                idle: connections.idle,
                max: connections.max,
            },
            packing: meters.packing.read(),
            hearing: self.bell.hearing(),
            carriers: self.bell.status(),
            queues: Vec::new(),
        }
    }

    fn read_waiting(&self) -> WaitingReading {
        let meters = &self.meters;
        let (mut parked, mut backed_off) = (self.channels.parked_filters(), 0);
        for channel in &self.channels.wanted() {
            let state = channel.state.lock();
            parked += state.parked();
            if state.empty_checks >= self.config.floor.threshold {
                backed_off += state.keys();
            }
        }
        WaitingReading {
            waiting: self.waiters.load(Ordering::Relaxed),
            parked,
            registered: meters.registered.get(),
            served: meters.served.get(),
            expired: meters.expired.get(),
            cancelled: meters.cancelled.get(),
            keys: self.channels.keys(),
            keys_in_flight: self.claiming.lock().len(),
            keys_backed_off: backed_off,
            shards: self.channels.count(),
            wakes: meters.wakes(),
            mean_wait: meters.mean_wait(),
            wake_to_delivery: meters.wake_to_delivery(),
        }
    }

    /// See [`crate::Broker::read_all`].
    pub(crate) fn read_queues(&self) -> Vec<QueueReading> {
        let mut queues: Vec<QueueReading> = self
            .meters
            .queues
            .all()
            .into_iter()
            .filter_map(|(id, meter)| {
                let name: Arc<str> = self.catalog.queue_by_id(id)?.name.clone();
                let channels = self.channels.of_queue(id);
                let waiting = channels.iter().map(|channel| channel.state.lock().parked()).sum();
                Some(queue_reading(name, &meter, waiting))
            })
            .collect();
        queues.push(queue_reading("other".into(), self.meters.queues.rest(), 0));
        queues.sort_by_key(|queue| std::cmp::Reverse(queue.pushed + queue.popped + queue.waiting as u64));
        queues
    }
}

fn queue_reading(name: Arc<str>, meter: &QueueMeter, waiting: usize) -> QueueReading {
    QueueReading {
        name,
        pushed: meter.pushed.get(),
        popped: meter.popped.get(),
        acked: meter.acked.get(),
        waiting,
        overdue: meter.overdue(),
    }
}
