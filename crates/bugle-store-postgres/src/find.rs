//! Looking for fingerprints in ranges of lanes.
//!
//! A search that meets a long lane starts the making of fingerprint runs for it in the background, see `run.rs`.

use std::collections::HashMap;

use bugle_pg::{PgError, Step};
use bugle_store::{Find, Found, Unavailable};
use uuid::Uuid;

use crate::row::{get, index, limit, unsigned};
use crate::sql::Sql;
use crate::store::{PostgresStore, Tries, retry, unavailable};

/// Lanes with their buckets.
pub(crate) type Due = Vec<(i32, Uuid)>;

/// Questions of one bucket as columns.
struct Questions {
    bucket: i32,
    lanes: Vec<Uuid>,
    from: Vec<i64>,
    to: Vec<i64>,
    since: Vec<i64>,
    first: Vec<i32>,
    last: Vec<i32>,
    prints: Vec<i64>,
}

impl Questions {
    fn new<'a>(bucket: i32, items: impl Iterator<Item = &'a Find> + Clone) -> Self {
        let mut out = Self {
            bucket,
            lanes: items.clone().map(|f| f.lane.0).collect(),
            from: items.clone().map(|f| limit(f.from)).collect(),
            to: items.clone().map(|f| limit(f.to)).collect(),
            since: items.clone().map(|f| f.since.0).collect(),
            first: Vec::new(),
            last: Vec::new(),
            prints: Vec::new(),
        };
        for item in items {
            out.first.push(out.prints.len() as i32 + 1);
            out.prints.extend(item.fingerprints.iter().map(|f| *f as i64));
            out.last.push(out.prints.len() as i32);
        }
        out
    }

    fn step<'s>(&'s self, sql: &'s Sql) -> Step<'s> {
        Step::new(
            &sql.find,
            &[
                &self.bucket,
                &self.lanes,
                &self.from,
                &self.to,
                &self.since,
                &self.first,
                &self.last,
                &self.prints,
            ],
        )
    }
}

/// Hits as places in the question; one fingerprint may have been asked for more than once.
fn found(item: &Find, hits: &HashMap<u64, Vec<u64>>) -> Vec<Found> {
    let mut out: Vec<Found> = Vec::new();
    for (index, print) in item.fingerprints.iter().enumerate() {
        out.extend(hits.get(print).into_iter().flatten().map(|offset| Found { index, offset: *offset }));
    }
    out.sort_unstable();
    out
}

impl PostgresStore {
    pub(crate) async fn find_all(&self, batch: Vec<Find>) -> Result<Vec<Vec<Found>>, Unavailable> {
        let (found, due) = retry!(Tries::question(), self.find_hits(&batch)).map_err(unavailable)?;
        self.index(due);
        Ok(found)
    }

    /// What was found, and lanes that are due to be indexed.
    pub(crate) async fn find_hits(&self, batch: &[Find]) -> Result<(Vec<Vec<Found>>, Due), PgError> {
        let buckets = self.by_bucket(batch, |f| f.lane);
        let questions: Vec<Questions> =
            buckets.iter().map(|(b, items)| Questions::new(*b, items.iter().map(|(_, f)| *f))).collect();
        let mut steps: Vec<Step<'_>> = questions.iter().map(|q| q.step(&self.sql)).collect();
        steps.extend(questions.iter().map(|q| Step::new(&self.sql.run_due, &[&q.bucket, &q.lanes])));
        let answers = self.pool.get().await?.pipeline(&steps).await?;
        let mut hits: Vec<HashMap<u64, Vec<u64>>> = vec![HashMap::new(); batch.len()];
        for (rows, items) in answers.iter().zip(buckets.values()) {
            for row in rows {
                let print = get::<i64>(row, 1)? as u64;
                hits[items[index(row)?].0].entry(print).or_default().push(unsigned(row, 2)?);
            }
        }
        let mut due = Vec::new();
        for (rows, question) in answers[questions.len()..].iter().zip(&questions) {
            for row in rows {
                due.push((question.bucket, get(row, 0)?));
            }
        }
        Ok((batch.iter().zip(&hits).map(|(item, hits)| found(item, hits)).collect(), due))
    }
}
