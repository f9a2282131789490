//! Lanes of queues: creation and listing.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use bugle_pg::{PgError, Step};
use bugle_store::{Lane, LaneError, LaneId, NewLane, QueueId, Unavailable};
use uuid::Uuid;

use crate::append::lanes_by_id;
use crate::row::{lane, limit, to_text};
use crate::store::{PostgresStore, Tries, retry, unavailable};

/// Times a lane is made that is not found afterwards.
const ENSURE_TRIES: usize = 3;

impl PostgresStore {
    pub(crate) async fn ensure_all(
        &self,
        batch: Vec<NewLane>,
    ) -> Result<Vec<Result<Lane, LaneError>>, Unavailable> {
        let wanted: Vec<(LaneId, NewLane)> =
            batch.into_iter().map(|new| (LaneId::derive(new.queue, &new.name), new)).collect();
        let mut lanes: HashMap<Uuid, Lane> = HashMap::new();
        for (bucket, mut items) in self.by_bucket(&wanted, |(id, _)| *id) {
            // A lane that was there, and was collected before it could be read, is made by the next try. Not found by
            // any of them: its queue is gone.
            for _ in 0..ENSURE_TRIES {
                let found =
                    retry!(Tries::question(), self.ensure_once(bucket, &items)).map_err(unavailable)?;
                lanes.extend(found);
                items.retain(|(_, (id, _))| !lanes.contains_key(&id.0));
                if items.is_empty() {
                    break;
                }
            }
        }
        let answer = |(id, new): &(LaneId, NewLane)| match lanes.get(&id.0) {
            None => Err(LaneError::NoQueue),
            Some(lane) if lane.name != new.name || lane.queue != new.queue => {
                Err(LaneError::Collision(lane.name.clone()))
            }
            Some(lane) => Ok(lane.clone()),
        };
        Ok(wanted.iter().map(answer).collect())
    }

    async fn ensure_once(
        &self,
        bucket: i32,
        items: &[(usize, &(LaneId, NewLane))],
    ) -> Result<HashMap<Uuid, Lane>, PgError> {
        let ids: Vec<Uuid> = items.iter().map(|(_, (id, _))| id.0).collect();
        let queues: Vec<Uuid> = items.iter().map(|(_, (_, new))| new.queue.0).collect();
        let names: Vec<Cow<'_, str>> = items.iter().map(|(_, (_, new))| to_text(&new.name)).collect();
        let times: Vec<i64> = items.iter().map(|(_, (_, new))| new.now.0).collect();
        let second = self.second();
        let steps = [
            Step::new(&self.sql.lanes_insert, &[&bucket, &ids, &queues, &names, &times, &second]),
            Step::new(&self.sql.lanes_by_id, &[&bucket, &ids]),
        ];
        let rows = self.pool.get().await?.transaction(&steps).await?;
        lanes_by_id(&rows[1])
    }

    pub(crate) async fn list_lanes(
        &self,
        queue: QueueId,
        after: Option<Arc<str>>,
        most: usize,
    ) -> Result<Vec<Lane>, Unavailable> {
        retry!(Tries::question(), self.list_lanes_once(queue, after.as_deref(), most)).map_err(unavailable)
    }

    async fn list_lanes_once(
        &self,
        queue: QueueId,
        after: Option<&str>,
        most: usize,
    ) -> Result<Vec<Lane>, PgError> {
        let (after, most) = (after.map(to_text), limit(most));
        let mut conn = self.pool.get().await?;
        let rows = match &after {
            None => conn.query(&self.sql.lanes_first, &[&queue.0, &most]).await?,
            Some(after) => conn.query(&self.sql.lanes_after, &[&queue.0, after, &most]).await?,
        };
        rows.iter().map(|row| lane(row, 0)).collect()
    }
}
