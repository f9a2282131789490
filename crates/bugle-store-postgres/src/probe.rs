//! Which lanes have messages for a group.

use bugle_pg::{PgError, Step};
use bugle_store::{LaneCursor, Probe, Probed, Unavailable};
use uuid::Uuid;

use crate::row::{lane_cursor, limit, to_text};
use crate::store::{PostgresStore, Tries, retry, unavailable};

/// One probe's parameters.
struct Asked {
    queue: Uuid,
    group: String,
    after: Option<Uuid>,
    /// One more than asked for tells whether there is more.
    limit: i64,
    since: Option<i64>,
    recheck: Vec<Uuid>,
}

impl Asked {
    fn new(probe: &Probe) -> Self {
        Self {
            queue: probe.queue.0,
            group: to_text(&probe.group).into_owned(),
            after: probe.after.map(|lane| lane.0),
            limit: limit(probe.limit).saturating_add(1),
            since: probe.since.map(|t| t.0),
            recheck: probe.recheck.iter().map(|lane| lane.0).collect(),
        }
    }
}

impl PostgresStore {
    pub(crate) async fn probe_all(&self, batch: Vec<Probe>) -> Result<Vec<Probed>, Unavailable> {
        retry!(Tries::question(), self.probe_once(&batch)).map_err(unavailable)
    }

    async fn probe_once(&self, batch: &[Probe]) -> Result<Vec<Probed>, PgError> {
        let buckets = self.all_buckets();
        let asked: Vec<Asked> = batch.iter().map(Asked::new).collect();
        let mut steps = Vec::with_capacity(asked.len() * buckets.len());
        for ask in &asked {
            steps.extend(buckets.iter().map(|bucket| self.probe_step(bucket, ask)));
        }
        if steps.is_empty() {
            return Ok(Vec::new());
        }
        let answers = self.pool.get().await?.pipeline(&steps).await?;
        let mut out = Vec::with_capacity(batch.len());
        for (probe, answers) in batch.iter().zip(answers.chunks(buckets.len())) {
            let rows = answers.iter().flatten();
            let lanes = rows.map(|row| lane_cursor(row, 0, Some(&probe.group))).collect::<Result<_, _>>()?;
            out.push(merged(lanes, probe.limit));
        }
        Ok(out)
    }

    fn probe_step<'s>(&'s self, bucket: &'s i32, ask: &'s Asked) -> Step<'s> {
        match &ask.since {
            None => Step::new(&self.sql.probe_all, &[bucket, &ask.queue, &ask.group, &ask.after, &ask.limit]),
            Some(since) => Step::new(
                &self.sql.probe_since,
                &[bucket, &ask.queue, &ask.group, &ask.after, &ask.limit, since, &ask.recheck],
            ),
        }
    }
}

/// The buckets' answers as one, in lane id order.
fn merged(mut lanes: Vec<LaneCursor>, limit: usize) -> Probed {
    lanes.sort_unstable_by_key(|l| l.lane.id);
    let more = lanes.len() > limit;
    lanes.truncate(limit);
    Probed { lanes, more }
}
