//! Reading ranges of lanes.

use bugle_pg::{PgError, Row, Step};
use bugle_store::{Read, Segments, Unavailable};
use uuid::Uuid;

use crate::row::{index, limit, segment};
use crate::sql::{READ_PAGE, Sql};
use crate::store::{PostgresStore, Tries, retry, unavailable};

/// Ranges of one bucket as columns.
struct Ranges {
    bucket: i32,
    lanes: Vec<Uuid>,
    from: Vec<i64>,
    to: Vec<i64>,
    bytes: Vec<i64>,
}

impl Ranges {
    fn new<'a>(bucket: i32, items: impl Iterator<Item = &'a Read> + Clone) -> Self {
        Self {
            bucket,
            lanes: items.clone().map(|r| r.lane.0).collect(),
            from: items.clone().map(|r| limit(r.from)).collect(),
            to: items.clone().map(|r| limit(r.to)).collect(),
            bytes: items.map(|r| limit(r.max_bytes)).collect(),
        }
    }

    fn step<'s>(&'s self, sql: &'s Sql) -> Step<'s> {
        Step::new(&sql.read, &[&self.bucket, &self.lanes, &self.from, &self.to, &self.bytes])
    }
}

/// Add the segments in `rows` to the items they belong to; `place` finds an item by its number in the statement.
pub(crate) fn collect(
    rows: &[Row],
    out: &mut [Segments],
    place: impl Fn(usize) -> usize,
) -> Result<(), PgError> {
    for row in rows {
        out[place(index(row)?)].push(segment(row, 1)?);
    }
    Ok(())
}

/// What is still to be read when a statement stopped at the end of its page; `page` = segments it answered.
fn rest(read: &Read, have: &Segments, page: usize) -> Option<Read> {
    let last = have.last().filter(|_| page >= READ_PAGE)?;
    let bytes: usize = have.iter().map(|s| s.body.len()).sum();
    (bytes < read.max_bytes && last.end() < read.to).then(|| Read {
        from: last.end(),
        max_bytes: read.max_bytes - bytes,
        ..*read
    })
}

impl PostgresStore {
    pub(crate) async fn read_all(&self, batch: Vec<Read>) -> Result<Vec<Segments>, Unavailable> {
        let mut out = vec![Segments::new(); batch.len()];
        let todo = batch.into_iter().enumerate().collect();
        self.read_into(todo, &mut out).await.map_err(unavailable)?;
        Ok(out)
    }

    /// Continue reads of which the first page is in `out` already.
    pub(crate) async fn read_rest(
        &self,
        reads: Vec<(usize, Read)>,
        out: &mut [Segments],
    ) -> Result<(), PgError> {
        let todo: Vec<_> =
            reads.iter().filter_map(|(i, read)| Some((*i, rest(read, &out[*i], out[*i].len())?))).collect();
        self.read_into(todo, out).await
    }

    async fn read_into(&self, mut todo: Vec<(usize, Read)>, out: &mut [Segments]) -> Result<(), PgError> {
        while !todo.is_empty() {
            let page = retry!(Tries::question(), self.read_page(&todo))?;
            let mut next = Vec::new();
            for ((i, read), segments) in todo.into_iter().zip(page) {
                next.extend(rest(&read, &segments, segments.len()).map(|rest| (i, rest)));
                out[i].extend(segments);
            }
            todo = next;
        }
        Ok(())
    }

    async fn read_page(&self, todo: &[(usize, Read)]) -> Result<Vec<Segments>, PgError> {
        let buckets = self.by_bucket(todo, |(_, read)| read.lane);
        let ranges: Vec<Ranges> = buckets
            .iter()
            .map(|(b, items)| Ranges::new(*b, items.iter().map(|(_, (_, read))| read)))
            .collect();
        let steps: Vec<Step<'_>> = ranges.iter().map(|r| r.step(&self.sql)).collect();
        let answers = self.pool.get().await?.pipeline(&steps).await?;
        let mut out = vec![Segments::new(); todo.len()];
        for (rows, items) in answers.iter().zip(buckets.values()) {
            collect(rows, &mut out, |n| items[n].0)?;
        }
        Ok(out)
    }
}
