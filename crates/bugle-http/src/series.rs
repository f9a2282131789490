//! From the history to the numbers that charts show: servers put together, sums turned into means and rates.

use bugle_broker::{History, HistoryQuery, QueueCounts, Refused, ServerCounts, ServerPoint};
use bugle_store::Timestamp;
use bugle_wire::{BucketRange, Millis, Seconds, ThroughputPoint, WorkerPoint};

use crate::listing::{name, time};
use crate::query::Query;

/// How far back most charts go by default.
pub(crate) const HOUR: std::time::Duration = std::time::Duration::from_secs(3600);

/// What every route that tells of the past understands.
pub(crate) fn history_query(query: &Query<'_>) -> Result<HistoryQuery, Refused> {
    Ok(HistoryQuery {
        from: time(query, "from")?,
        to: time(query, "to")?,
        span: HOUR,
        bucket: None,
        queue: name(query, "queue")?,
        namespace: name(query, "namespace")?,
        task: name(query, "task")?,
        host: query.text("hostname").map(str::to_owned),
        server: query.text("workerId").map(str::to_owned),
        by_queue: false,
    })
}

/// The time that an answer tells of.
pub(crate) fn time_range(history: &History) -> BucketRange {
    BucketRange { from: Millis(history.from.0), to: Millis(history.to.0) }
}

/// Length of a bucket.
pub(crate) fn bucket_minutes(history: &History) -> u64 {
    history.bucket.as_secs() / 60
}

/// A number for people: to a thousandth.
pub(crate) fn round(number: f64) -> f64 {
    (number * 1e3).round() / 1e3
}

/// Microseconds in milliseconds.
pub(crate) fn millis(us: u64) -> f64 {
    us as f64 / 1e3
}

/// The mean lag in milliseconds.
pub(crate) fn mean_lag(counts: &QueueCounts) -> f64 {
    let lags = counts.lag_count.max(1) as f64;
    round(counts.lag_us as f64 / lags / 1e3)
}

/// Some servers together, over one bucket or over all.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Together {
    pub(crate) counts: ServerCounts,
    pub(crate) traffic: QueueCounts,
    pub(crate) mean_delay_ms: f64,
    pub(crate) max_delay_ms: f64,
    pub(crate) mean_queued: f64,
    pub(crate) max_queued: u64,
    pub(crate) mean_free: f64,
    pub(crate) min_free: u64,
    pub(crate) in_use: u64,
    pub(crate) idle: u64,
    pub(crate) pool: u64,
    pub(crate) backed_off: u64,
    pub(crate) resident_bytes: u64,
    user_us: f64,
    system_us: f64,
}

impl Together {
    /// One bucket of several servers: what they did, have and use adds up; delays do not.
    pub(crate) fn of(points: &[&ServerPoint]) -> Self {
        let mut sum = Self { max_delay_ms: 0.0, ..Self::default() };
        for point in points {
            let gauges = &point.gauges;
            sum.counts.add(&point.counts);
            sum.traffic.add(&point.traffic);
            sum.mean_delay_ms += gauges.delay_us.mean() / 1e3 / points.len() as f64;
            sum.max_delay_ms = sum.max_delay_ms.max(millis(gauges.delay_us.max));
            sum.mean_queued += gauges.queued.mean();
            sum.max_queued += gauges.queued.max;
            sum.mean_free += (gauges.pool_max.mean() - gauges.pool_in_use.mean()).max(0.0);
            sum.min_free += gauges.pool_max.last.saturating_sub(gauges.pool_in_use.max);
            sum.in_use += gauges.pool_in_use.last;
            sum.idle += gauges.pool_idle.last;
            sum.pool += gauges.pool_max.last;
            sum.backed_off += gauges.backed_off.last;
            sum.resident_bytes += gauges.resident_bytes.last;
            sum.user_us += point.user.mean();
            sum.system_us += point.system.mean();
        }
        sum
    }

    /// Messages that were done with: acknowledged, or taken without need to.
    pub(crate) fn processed(&self) -> u64 {
        self.traffic.acked + self.traffic.auto_acked
    }
}

/// One bucket of `/api/v1/status`. With `filtered` what is known by queue is that of the queues asked for.
pub(crate) fn throughput(
    history: &History,
    at: Timestamp,
    sum: &Together,
    filtered: bool,
) -> ThroughputPoint {
    let per_second = |count: u64| round(count as f64 / history.seconds(at));
    let (counts, traffic) = (&sum.counts, &sum.traffic);
    ThroughputPoint {
        timestamp: Seconds(at.0),
        ingested: traffic.pushed,
        processed: sum.processed(),
        pop_messages: traffic.popped,
        ingested_per_second: per_second(traffic.pushed),
        processed_per_second: per_second(sum.processed()),
        pop_per_second: per_second(traffic.popped),
        avg_lag_ms: mean_lag(traffic),
        max_lag_ms: round(millis(traffic.lag_max_us)),
        avg_event_loop_lag_ms: round(sum.mean_delay_ms),
        max_event_loop_lag_ms: round(sum.max_delay_ms),
        min_free_slots: sum.min_free,
        db_errors: counts.store_errors,
        ack_failed: if filtered { traffic.ack_failed } else { counts.ack_failed },
        dlq_count: if filtered { traffic.dead } else { counts.dead_lettered },
        // A microsecond in a second is a ten thousandth of a percent of one processor.
        queen_cpu_user_pct: round(sum.user_us / 1e4),
        queen_cpu_sys_pct: round(sum.system_us / 1e4),
        queen_rss_mb: round(sum.resident_bytes as f64 / f64::from(1 << 20)),
        db_pool_active: sum.in_use,
        db_pool_idle: sum.idle,
        db_pool_size: sum.pool,
    }
}

/// One bucket of `/api/v1/analytics/worker-metrics`.
pub(crate) fn work(history: &History, at: Timestamp, sum: &Together) -> WorkerPoint {
    let per_second = |count: u64| round(count as f64 / history.seconds(at));
    let (counts, traffic) = (&sum.counts, &sum.traffic);
    WorkerPoint {
        timestamp: Seconds(at.0),
        push_messages: traffic.pushed,
        pop_messages: traffic.popped,
        ack_messages: traffic.acked,
        push_requests: counts.push_requests,
        pop_requests: counts.pop_requests,
        ack_requests: counts.ack_requests,
        transactions: counts.transactions,
        jobs_done: counts.store_calls,
        push_per_second: per_second(traffic.pushed),
        pop_per_second: per_second(traffic.popped),
        ack_per_second: per_second(traffic.acked),
        avg_event_loop_lag_ms: round(sum.mean_delay_ms),
        max_event_loop_lag_ms: round(sum.max_delay_ms),
        avg_free_slots: round(sum.mean_free),
        min_free_slots: sum.min_free,
        db_connections: sum.in_use + sum.idle,
        avg_job_queue_size: round(sum.mean_queued),
        max_job_queue_size: sum.max_queued,
        backoff_size: sum.backed_off,
        avg_lag_ms: mean_lag(traffic),
        max_lag_ms: round(millis(traffic.lag_max_us)),
        lag_count: traffic.lag_count,
        db_errors: counts.store_errors,
        ack_success: traffic.acked,
        ack_failed: counts.ack_failed,
        dlq_count: counts.dead_lettered,
        refused: counts.push_refused + counts.pop_refused + counts.ack_refused + counts.transactions_refused,
        partitions_created: traffic.lanes_created,
        partitions_deleted: traffic.lanes_deleted,
    }
}

#[cfg(test)]
mod tests {
    use bugle_broker::{GaugeLooks, Looks};
    use std::time::Duration;

    use super::*;

    fn looks(sum: u64, max: u64, last: u64) -> Looks {
        Looks { looks: 2, sum, min: 0, max, last }
    }

    fn point(scale: u64) -> ServerPoint {
        let gauges = GaugeLooks {
            delay_us: looks(4000 * scale, 3000 * scale, 1000),
            pool_in_use: looks(2 * scale, 2 * scale, scale),
            pool_idle: looks(scale, scale, scale),
            pool_max: looks(32, 16, 16),
            resident_bytes: looks(0, 0, scale << 20),
            ..GaugeLooks::default()
        };
        let counts =
            ServerCounts { store_errors: scale, ack_failed: 7, dead_lettered: 9, ..ServerCounts::default() };
        let traffic = QueueCounts {
            pushed: 60 * scale,
            acked: 20,
            auto_acked: 4,
            lag_count: 2,
            lag_us: 3000,
            lag_max_us: 2500 * scale,
            ack_failed: 1,
            dead: 2,
            ..QueueCounts::default()
        };
        let user = looks(20_000, 0, 0);
        ServerPoint { counts, traffic, gauges, user, ..ServerPoint::default() }
    }

    #[test]
    fn servers_add_up_and_lags_and_delays_do_not() {
        let (one, two) = (point(1), point(2));
        let sum = Together::of(&[&one, &two]);
        let history =
            History { to: Timestamp(i64::MAX), bucket: Duration::from_secs(60), ..History::default() };
        let told = throughput(&history, Timestamp::ZERO, &sum, false);
        assert_eq!((told.ingested, told.ingested_per_second, told.processed), (180, 3.0, 48));
        assert_eq!((told.avg_lag_ms, told.max_lag_ms), (1.5, 5.0));
        assert_eq!((told.avg_event_loop_lag_ms, told.max_event_loop_lag_ms), (3.0, 6.0));
        assert_eq!((told.db_pool_active, told.db_pool_idle, told.db_pool_size), (3, 3, 32));
        assert_eq!((told.min_free_slots, told.queen_rss_mb, told.queen_cpu_user_pct), (26, 3.0, 2.0));
        assert_eq!((told.db_errors, told.ack_failed, told.dlq_count), (3, 14, 18));
        let told = throughput(&history, Timestamp::ZERO, &sum, true);
        assert_eq!((told.db_errors, told.ack_failed, told.dlq_count), (3, 2, 4));
        let told = work(&history, Timestamp::ZERO, &sum);
        assert_eq!((told.push_per_second, told.avg_free_slots, told.db_connections), (3.0, 29.0, 6));
    }

    #[test]
    fn nothing_divides_by_nothing() {
        let sum = Together::of(&[]);
        let told = throughput(&History::default(), Timestamp::ZERO, &sum, false);
        assert_eq!((told.avg_lag_ms, told.ingested_per_second), (0.0, 0.0));
    }
}
