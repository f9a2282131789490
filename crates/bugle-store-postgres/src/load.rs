//! Lanes and cursors as they are now, and offsets by time.

use std::borrow::Cow;

use bugle_pg::{PgError, Row, Step};
use bugle_store::{
    Group, LaneCursor, LeaseId, Load, Offset, Position, Timestamp, Unavailable, Whereabouts, whereabouts,
};
use uuid::Uuid;

use crate::row::{index, lane_cursor, to_text, unsigned};
use crate::sql::Sql;
use crate::store::{PostgresStore, Tries, retry, unavailable};

/// What to load of one bucket, by kind, each with its place in the batch.
#[derive(Default)]
struct Wanted<'a> {
    bucket: i32,
    lane_places: Vec<(usize, &'a Group)>,
    lanes: Vec<Uuid>,
    groups: Vec<Cow<'a, str>>,
    leases: Leases,
    near: NearLeases,
    cursor_places: Vec<usize>,
    cursors: Vec<Uuid>,
}

/// Leases whose cursors are among those changed since a second.
#[derive(Default)]
struct Leases {
    places: Vec<usize>,
    ids: Vec<Uuid>,
    since: Vec<i64>,
}

/// Leases whose cursors are on a lane of a range.
#[derive(Default)]
struct NearLeases {
    places: Vec<usize>,
    ids: Vec<Uuid>,
    first: Vec<Uuid>,
    last: Vec<Uuid>,
}

/// How many kinds of questions there are.
const KINDS: usize = 4;

impl Wanted<'_> {
    fn steps<'s>(&'s self, sql: &'s Sql) -> [Step<'s>; KINDS] {
        let Self { bucket, leases, near, .. } = self;
        [
            Step::new(&sql.load_lane, &[bucket, &self.lanes, &self.groups]),
            Step::new(&sql.load_lease, &[bucket, &leases.ids, &leases.since]),
            Step::new(&sql.load_lease_near, &[bucket, &near.ids, &near.first, &near.last]),
            Step::new(&sql.load_cursors, &[bucket, &self.cursors]),
        ]
    }

    /// Which of the steps have anything to ask.
    fn asked(&self) -> [bool; KINDS] {
        [&self.lanes, &self.leases.ids, &self.near.ids, &self.cursors].map(|keys| !keys.is_empty())
    }

    fn lease(&mut self, place: usize, id: LeaseId) {
        let since = match whereabouts(id) {
            Whereabouts::Between(first, last) => {
                self.near.places.push(place);
                self.near.ids.push(id);
                self.near.first.push(first.0);
                self.near.last.push(last.0);
                return;
            }
            Whereabouts::ChangedSince(time) => time,
            Whereabouts::Anywhere => Timestamp::ZERO,
        };
        self.leases.places.push(place);
        self.leases.ids.push(id);
        self.leases.since.push(since.0.div_euclid(1_000_000));
    }

    fn take(&self, kind: usize, rows: &[Row], out: &mut [Vec<LaneCursor>]) -> Result<(), PgError> {
        for row in rows {
            let n = index(row)?;
            let (place, group) = match kind {
                0 => (self.lane_places[n].0, Some(self.lane_places[n].1)),
                1 => (self.leases.places[n], None),
                2 => (self.near.places[n], None),
                _ => (self.cursor_places[n], None),
            };
            out[place].push(lane_cursor(row, 1, group)?);
        }
        Ok(())
    }
}

impl PostgresStore {
    pub(crate) async fn load_all(&self, batch: Vec<Load>) -> Result<Vec<Vec<LaneCursor>>, Unavailable> {
        retry!(Tries::question(), self.load_once(&batch)).map_err(unavailable)
    }

    fn wanted<'a>(&self, batch: &'a [Load]) -> Vec<Wanted<'a>> {
        let mut out: Vec<Wanted<'a>> =
            self.all_buckets().into_iter().map(|bucket| Wanted { bucket, ..Wanted::default() }).collect();
        for (i, load) in batch.iter().enumerate() {
            match load {
                Load::Lane(lane, group) => {
                    let of = &mut out[self.bucket(*lane) as usize];
                    of.lane_places.push((i, group));
                    of.lanes.push(lane.0);
                    of.groups.push(to_text(group));
                }
                Load::Cursors(lane) => {
                    let of = &mut out[self.bucket(*lane) as usize];
                    of.cursor_places.push(i);
                    of.cursors.push(lane.0);
                }
                Load::Lease(lease) => out.iter_mut().for_each(|of| of.lease(i, *lease)),
            }
        }
        out
    }

    async fn load_once(&self, batch: &[Load]) -> Result<Vec<Vec<LaneCursor>>, PgError> {
        let wanted = self.wanted(batch);
        let mut steps = Vec::new();
        let mut meaning = Vec::new();
        for want in &wanted {
            for (kind, (step, asked)) in want.steps(&self.sql).into_iter().zip(want.asked()).enumerate() {
                if asked {
                    steps.push(step);
                    meaning.push((want, kind));
                }
            }
        }
        let mut out = vec![Vec::new(); batch.len()];
        if steps.is_empty() {
            return Ok(out);
        }
        let answers = self.pool.get().await?.pipeline(&steps).await?;
        for ((want, kind), rows) in meaning.into_iter().zip(&answers) {
            want.take(kind, rows, &mut out)?;
        }
        Ok(out)
    }

    pub(crate) async fn position_all(&self, batch: Vec<Position>) -> Result<Vec<Offset>, Unavailable> {
        retry!(Tries::question(), self.position_once(&batch)).map_err(unavailable)
    }

    pub(crate) async fn position_once(&self, batch: &[Position]) -> Result<Vec<Offset>, PgError> {
        let buckets = self.by_bucket(batch, |p| p.lane);
        let columns: Vec<(i32, Vec<Uuid>, Vec<i64>)> = buckets
            .iter()
            .map(|(bucket, items)| {
                let (lanes, times) = items.iter().map(|(_, p)| (p.lane.0, p.at.0)).unzip();
                (*bucket, lanes, times)
            })
            .collect();
        let steps: Vec<Step<'_>> = columns
            .iter()
            .map(|(b, lanes, times)| Step::new(&self.sql.position, &[b, lanes, times]))
            .collect();
        let answers = self.pool.get().await?.pipeline(&steps).await?;
        let mut out = vec![0; batch.len()];
        for (rows, items) in answers.iter().zip(buckets.values()) {
            for row in rows {
                out[items[index(row)?].0] = unsigned(row, 1)?;
            }
        }
        Ok(out)
    }
}
