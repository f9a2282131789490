//! What moved anywhere: one statement per bucket, in one round trip, for everybody who waits on this server.
//!
//! The same statement carries an announcement for those who listen. It writes nothing else, so that the lock a
//! notification takes at its commit holds up no data, and it waits for no disk.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Instant;

use bugle_pg::{PgError, Row, Step, channel_name};
use bugle_store::{Group, LaneCursor, LaneId, QueueId, Survey, Surveyed, Unavailable, WrittenLane};
use uuid::Uuid;

use crate::row::{get, lane_cursor, limit, time, to_text, unexpected, unsigned};
use crate::store::{PostgresStore, Tries, retry, unavailable};

/// The channel that servers of one installation listen to.
pub(crate) fn notify_channel(schema: &str) -> String {
    channel_name(&format!("bugle_{schema}"))
}

/// What to recheck in one bucket, each with its place in the question.
#[derive(Default)]
struct Again<'a> {
    places: Vec<(usize, &'a Group)>,
    lanes: Vec<Uuid>,
    groups: Vec<Cow<'a, str>>,
}

/// Row by row, what the buckets answer.
#[derive(Default)]
struct Gathered {
    written: Vec<WrittenLane>,
    rechecked: BTreeMap<usize, LaneCursor>,
    catalog: Option<u64>,
    clock: Option<i64>,
    inbox: bool,
}

impl Gathered {
    fn take(&mut self, row: &Row, again: &Again<'_>) -> Result<(), PgError> {
        match get::<i32>(row, 0)? {
            -1 => self.written.push(WrittenLane {
                id: LaneId(get(row, 1)?),
                queue: QueueId(get(row, 2)?),
                head: unsigned(row, 4)?,
                written_at: time(row, 7)?,
            }),
            0 => {
                self.catalog = Some(unsigned(row, 4)?);
                self.inbox |= unsigned(row, 5)? > 0;
                self.clock = Some(get(row, 7)?);
            }
            n => {
                let at = usize::try_from(n - 1).ok().and_then(|n| again.places.get(n));
                let (place, group) = *at.ok_or_else(|| unexpected("an item that was not asked for"))?;
                self.rechecked.insert(place, lane_cursor(row, 1, Some(group))?);
            }
        }
        Ok(())
    }
}

impl PostgresStore {
    pub(crate) async fn survey_now(&self, survey: Survey) -> Result<Surveyed, Unavailable> {
        retry!(Tries::question(), self.survey_once(&survey)).map_err(unavailable)
    }

    fn again<'a>(&self, survey: &'a Survey) -> Vec<Again<'a>> {
        let mut out: Vec<Again<'a>> = Vec::new();
        out.resize_with(self.buckets() as usize, Again::default);
        for (place, (lane, group)) in survey.recheck.iter().enumerate() {
            let of = &mut out[self.bucket(*lane) as usize];
            of.places.push((place, group));
            of.lanes.push(lane.0);
            of.groups.push(to_text(group));
        }
        out
    }

    async fn survey_once(&self, survey: &Survey) -> Result<Surveyed, PgError> {
        let (buckets, again) = (self.all_buckets(), self.again(survey));
        // One more than asked for tells whether there is more.
        let most = limit(survey.limit).saturating_add(1);
        let (text, silent) = (announcement(survey), None::<&str>);
        let steps: Vec<Step<'_>> = buckets
            .iter()
            .zip(&again)
            .map(|(bucket, of)| {
                let text = if *bucket == 0 { &text } else { &silent };
                let params: [&(dyn bugle_pg::ToSql + Sync); 7] =
                    [bucket, &survey.since.0, &of.lanes, &of.groups, &most, &self.channel, text];
                Step::new(&self.sql.survey, &params)
            })
            .collect();
        let mut conn = self.pool.get().await?;
        let sent = Instant::now();
        let answers = conn.pipeline(&steps).await?;
        let received = Instant::now();
        let mut gathered = Gathered::default();
        for (rows, of) in answers.iter().zip(&again) {
            rows.iter().try_for_each(|row| gathered.take(row, of))?;
        }
        // A server that asks regularly need not ask for the time as well.
        if let Some(clock) = gathered.clock {
            self.pool.clock().learn(sent, clock, received);
        }
        let catalog = gathered.catalog.ok_or_else(|| unexpected("the meta table is empty"))?;
        let (written, more) = WrittenLane::first(gathered.written, survey.limit);
        let (rechecked, inbox) = (gathered.rechecked.into_values().collect(), gathered.inbox);
        Ok(Surveyed { written, more, rechecked, catalog, inbox })
    }
}

/// The text to announce, if the database can carry it: one that it refused would fail the question.
fn announcement(survey: &Survey) -> Option<&str> {
    let text = survey.announce.as_deref()?;
    if text.len() <= Survey::ANNOUNCE_MAX && !text.contains('\0') {
        return Some(text);
    }
    tracing::warn!(bytes = text.len(), "an announcement cannot be carried and was dropped");
    None
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bugle_pg::Begin;
    use bugle_store::{Catalog, NewLane, Store, Timestamp};

    use super::*;
    use crate::append::Appends;
    use crate::fixture::{Fixture, append, fixture};

    /// PostgreSQL's longest name.
    const CHANNEL_MAX: usize = 63;

    #[test]
    fn channel_names_fit_and_stay_apart() {
        assert_eq!(notify_channel("bugle"), "bugle_bugle");
        let long = |last: &str| notify_channel(&format!("{}{last}", "x".repeat(62)));
        assert!(long("a").len() <= CHANNEL_MAX);
        assert_ne!(long("a"), long("b"));
        assert_eq!(notify_channel(&"x".repeat(57)).len(), CHANNEL_MAX);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_commit_that_takes_its_time_is_found_by_looking_back() {
        let Fixture { store, queue, lane, .. } = fixture().await;
        let new = NewLane { queue, name: "other".into(), now: Timestamp(1) };
        let other = store.ensure_lanes(vec![new]).await.unwrap().remove(0).unwrap().id;
        let written = async |since| {
            let survey = Survey { since: Timestamp(since), recheck: Vec::new(), limit: 9, announce: None };
            let found = store.survey(survey).await.unwrap().written;
            found.into_iter().map(|lane| lane.id).collect::<Vec<_>>()
        };
        let slow = append(lane, 1, Arc::new([1]), 12_000_000);
        let columns = Appends::new(0, 1, std::iter::once(&slow));
        let mut conn = store.pool.get().await.unwrap();
        conn.begin(Begin::Write, &columns.steps(&store.sql)).await.unwrap();
        store.append(vec![append(other, 2, Arc::new([2]), 20_000_000)]).await.unwrap();
        assert_eq!(
            written(10_000_000).await,
            [other],
            "what is not committed is not told, and not waited for"
        );
        conn.commit(&[]).await.unwrap();
        let mut both = vec![lane, other];
        both.sort_unstable();
        assert_eq!(written(10_000_000).await, both);
    }
}
