//! The inbox: rows that applications have committed through the function `push`, until a server takes them into lanes.
//!
//! A taking is one transaction per bucket of lanes. It holds the rows first: of two servers that want the same ones, the
//! second finds them held, or gone. Then the heads of the lanes are moved as by any append, and the rows are deleted of those
//! lanes that were moved. Rows are held in the order of their key, before lanes, and by nobody but movers.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use bugle_pg::{Begin, PgError, Row, Step};
use bugle_store::{
    Answer, Append, Appended, Inbox, InboxAsk, InboxDepth, InboxFront, InboxLane, InboxRow, Lane, Take,
    TakeError, Timestamp, Unavailable,
};
use bytes::Bytes;
use futures_util::future::try_join_all;
use uuid::Uuid;

use crate::append::{Appends, appended, lanes_by_id, refusal};
use crate::row::{get, index, limit, time, unsigned};
use crate::sql::Sql;
use crate::store::{PARALLEL, PostgresStore, Tries, retry, unavailable};

/// Outcome of a taking.
type Outcome = Result<Option<Appended>, TakeError>;

/// Rows of several lanes as columns.
#[derive(Default)]
struct Rows<'a> {
    queues: Vec<&'a str>,
    partitions: Vec<&'a str>,
    /// Of each row, the place of its lane, counted from 1.
    places: Vec<i32>,
    ids: Vec<i64>,
}

impl<'a> Rows<'a> {
    fn new(items: impl Iterator<Item = &'a Take>) -> Self {
        let mut out = Self::default();
        for item in items {
            out.queues.push(&item.name.0);
            out.partitions.push(&item.name.1);
            out.ids.extend(item.rows.iter().map(|id| *id as i64));
            out.places.resize(out.ids.len(), out.queues.len() as i32);
        }
        out
    }

    fn params(&self) -> [&(dyn bugle_pg::ToSql + Sync); 4] {
        [&self.queues, &self.partitions, &self.places, &self.ids]
    }

    fn lock<'s>(&'s self, sql: &'s Sql) -> Step<'s> {
        Step::new(&sql.inbox_lock, &self.params())
    }

    fn delete<'s>(&'s self, sql: &'s Sql) -> Step<'s> {
        Step::new(&sql.inbox_delete, &self.params())
    }
}

/// What a transaction did to the items of one bucket.
#[derive(Default)]
struct Taken {
    /// By place: all rows were there, and nothing refused the append.
    taken: HashMap<usize, Option<Appended>>,
    /// Lanes that refused an append, as they are; none if they are not there.
    refused: HashMap<usize, Option<Lane>>,
}

impl PostgresStore {
    async fn front_now(&self, ask: InboxAsk) -> Result<InboxFront, Unavailable> {
        retry!(Tries::question(), self.front_once(&ask)).map_err(unavailable)
    }

    async fn front_once(&self, ask: &InboxAsk) -> Result<InboxFront, PgError> {
        let (queue, partition) = ask.after.as_ref().map_or(("", ""), |(queue, lane)| (queue, lane));
        let without: Vec<&str> = ask.without.iter().map(|queue| &**queue).collect();
        // What is passed by takes a step too.
        let steps = limit(ask.lanes.saturating_add(without.len()));
        let (rows, bytes) = (limit(ask.rows), limit(ask.bytes));
        let params: [&(dyn bugle_pg::ToSql + Sync); 6] =
            [&queue, &partition, &without, &steps, &rows, &bytes];
        let rows = self.pool.get().await?.query(&self.sql.inbox_front, &params).await?;
        front(&rows, steps as u64, ask.bytes as u64)
    }

    async fn depth_now(&self, most: usize) -> Result<InboxDepth, Unavailable> {
        retry!(Tries::question(), self.depth_once(limit(most))).map_err(unavailable)
    }

    async fn depth_once(&self, most: i64) -> Result<InboxDepth, PgError> {
        let rows = self.pool.get().await?.query(&self.sql.inbox_depth, &[&most]).await?;
        let Some(row) = rows.first() else { return Ok(InboxDepth::default()) };
        Ok(InboxDepth { rows: unsigned(row, 0)?, oldest: get::<Option<i64>>(row, 1)?.map(Timestamp) })
    }

    /// On the timeline on which it was called, see [`bugle_store::Store::timeline`].
    async fn take_all(&self, timeline: u64, batch: Vec<Take>) -> Result<Vec<Outcome>, Unavailable> {
        let mut buckets: BTreeMap<i32, Vec<usize>> = BTreeMap::new();
        for (i, item) in batch.iter().enumerate() {
            let bucket = item.append.as_ref().map_or(0, |append| self.bucket(append.lane));
            buckets.entry(bucket).or_default().push(i);
        }
        let buckets: Vec<(i32, Vec<usize>)> = buckets.into_iter().collect();
        let mut out: Vec<Outcome> = batch.iter().map(|_| Err(TakeError::Taken)).collect();
        for some in buckets.chunks(PARALLEL) {
            let running =
                some.iter().map(|(bucket, places)| self.take_some(timeline, *bucket, places, &batch));
            let done = try_join_all(running).await.map_err(unavailable)?;
            for ((_, places), taken) in some.iter().zip(done) {
                for (place, appended) in taken.taken {
                    out[places[place]] = Ok(appended);
                }
                for (place, lane) in taken.refused {
                    out[places[place]] = Err(TakeError::Append(refusal(lane.as_ref())));
                }
            }
        }
        Ok(out)
    }

    async fn take_some(
        &self,
        timeline: u64,
        bucket: i32,
        places: &[usize],
        batch: &[Take],
    ) -> Result<Taken, PgError> {
        let items: Vec<&Take> = places.iter().map(|i| &batch[*i]).collect();
        retry!(Tries::change(), self.take_bucket(timeline, bucket, &items))
    }

    async fn take_bucket(&self, timeline: u64, bucket: i32, items: &[&Take]) -> Result<Taken, PgError> {
        let all = Rows::new(items.iter().copied());
        let mut conn = self.pool.get_at(timeline).await?;
        let held = conn.begin(Begin::Write, &[all.lock(&self.sql)]).await?;
        let whole = whole(&held[0], items)?;
        let appending: Vec<(usize, &Append)> =
            whole.iter().filter_map(|i| Some((*i, items[*i].append.as_ref()?))).collect();
        let stored = if appending.is_empty() {
            HashMap::new()
        } else {
            let columns = Appends::new(bucket, self.second(), appending.iter().map(|(_, append)| *append));
            let mut steps = Vec::with_capacity(3);
            if columns.needs_lock() {
                steps.push(columns.lock(&self.sql));
            }
            let heads = steps.len();
            steps.extend(columns.steps(&self.sql));
            appended(&conn.pipeline(&steps).await?[heads])?
        };
        let mut out = Taken::default();
        let mut refused: Vec<(usize, Uuid)> = Vec::new();
        for i in whole {
            match &items[i].append {
                None => drop(out.taken.insert(i, None)),
                Some(append) => match stored.get(&append.lane.0) {
                    Some(appended) => drop(out.taken.insert(i, Some(*appended))),
                    None => refused.push((i, append.lane.0)),
                },
            }
        }
        if !refused.is_empty() {
            let ids: Vec<Uuid> = refused.iter().map(|(_, lane)| *lane).collect();
            let lanes = lanes_by_id(&conn.query(&self.sql.lanes_by_id, &[&bucket, &ids]).await?)?;
            out.refused.extend(refused.into_iter().map(|(i, lane)| (i, lanes.get(&lane).cloned())));
        }
        if out.taken.is_empty() {
            conn.rollback().await?;
            return Ok(out);
        }
        let gone =
            Rows::new(items.iter().enumerate().filter(|(i, _)| out.taken.contains_key(i)).map(|(_, t)| *t));
        conn.commit(&[gone.delete(&self.sql)]).await?;
        Ok(out)
    }
}

/// Places of the items all of whose rows are held, ascending.
fn whole(held: &[Row], items: &[&Take]) -> Result<Vec<usize>, PgError> {
    let mut out = Vec::with_capacity(held.len());
    for row in held {
        let (place, count) = (index(row)?, unsigned(row, 1)?);
        if items.get(place).is_some_and(|item| item.rows.len() as u64 == count) {
            out.push(place);
        }
    }
    out.sort_unstable();
    Ok(out)
}

/// Rows by lane. There may be more if the steps, a lane's share or the bytes were used up.
fn front(rows: &[Row], most_steps: u64, most_bytes: u64) -> Result<InboxFront, PgError> {
    let (mut lanes, mut more, mut bytes) = (Vec::<InboxLane>::new(), false, 0);
    for row in rows {
        let (queue, partition): (&str, &str) = (get(row, 0)?, get(row, 1)?);
        let payload: &str = get(row, 4)?;
        bytes += payload.len() as u64;
        let found = InboxRow {
            id: unsigned(row, 2)?,
            transaction_id: Bytes::copy_from_slice(get::<&str>(row, 3)?.as_bytes()),
            payload: Bytes::copy_from_slice(payload.as_bytes()),
            written_at: time(row, 5)?,
        };
        match lanes.last_mut().filter(|lane| *lane.name.0 == *queue && *lane.name.1 == *partition) {
            Some(lane) => lane.rows.push(found),
            None => {
                let queue = match lanes.last() {
                    Some(last) if *last.name.0 == *queue => Arc::clone(&last.name.0),
                    _ => queue.into(),
                };
                lanes.push(InboxLane { name: (queue, partition.into()), rows: vec![found] });
            }
        }
        let (steps, share) = (unsigned(row, 6)?, unsigned(row, 7)?);
        let full = lanes.last().is_some_and(|lane| lane.rows.len() as u64 >= share);
        more |= steps >= most_steps || full || bytes >= most_bytes;
    }
    Ok(InboxFront { lanes, more })
}

impl Inbox for PostgresStore {
    fn front(&self, ask: InboxAsk) -> Answer<'_, InboxFront> {
        Box::pin(self.front_now(ask))
    }

    fn take(&self, batch: Vec<Take>) -> Answer<'_, Vec<Outcome>> {
        Box::pin(self.take_all(self.pool.timeline(), batch))
    }

    fn depth(&self, most: usize) -> Answer<'_, InboxDepth> {
        Box::pin(self.depth_now(most))
    }
}
