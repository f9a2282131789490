//! The worker side: taking an activity, completing it, giving it back, and the sessions that bind activities to a worker.

use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use bugle_pg::{Row, RowError, ToSql};
use duroxide::providers::{ProviderError, SessionFetchConfig, TagFilter, WorkItem};
use uuid::Uuid;

use crate::db::Repeat;
use crate::error::{not_held, unexpected};
use crate::item::{Activity, Message, decoded, name, seconds};
use crate::orchestrations::read_look;
use crate::provider::PostgresProvider;
use crate::text::{original, stored};
use crate::token::{ActivityToken, nonce};
use crate::waking::fetching::{Look, Looker, Taken, fetch, fetch_once};
use crate::waking::work::{Queue, Tag, Want, Work};

const FETCH: &str = "fetch_work_item";
const ACK: &str = "ack_work_item";
const ABANDON: &str = "abandon_work_item";
const RENEW: &str = "renew_work_item_lock";
const ENQUEUE: &str = "enqueue_for_worker";
const SESSIONS: &str = "renew_session_lock";
const CLEANUP: &str = "cleanup_orphaned_sessions";

/// An activity, its lock token and its attempt.
pub(crate) type Task = (WorkItem, String, u32);

/// A tag filter as the database understands it.
struct Filter {
    plain: bool,
    /// `None`: any.
    tags: Option<Vec<String>>,
}

impl Filter {
    /// `None`: nothing at all passes.
    fn new(filter: &TagFilter) -> Option<Self> {
        let list = |tags: &std::collections::HashSet<String>| {
            let mut list: Vec<String> = tags.iter().map(|t| stored(t).into_owned()).collect();
            list.sort_unstable();
            Some(list)
        };
        Some(match filter {
            TagFilter::None => return None,
            TagFilter::DefaultOnly => Self { plain: true, tags: Some(Vec::new()) },
            TagFilter::Tags(tags) => Self { plain: false, tags: list(tags) },
            TagFilter::DefaultAnd(tags) => Self { plain: true, tags: list(tags) },
            TagFilter::Any => Self { plain: true, tags: None },
        })
    }

    fn want(&self, sessions: bool) -> Want {
        let tags = self.tags.as_ref().map(|tags| tags.iter().map(|t| Tag::new(t)).collect());
        Want::Activities { plain: self.plain, tags, sessions }
    }
}

/// Looks for an activity to take.
struct TaskLooker<'a> {
    provider: &'a PostgresProvider,
    lease: Duration,
    session: Option<&'a SessionFetchConfig>,
    filter: Filter,
}

impl Looker for TaskLooker<'_> {
    type Item = Task;

    fn want(&self) -> Want {
        self.filter.want(self.session.is_some())
    }

    fn owner(&self) -> Option<&str> {
        self.session.map(|s| s.owner_id.as_str())
    }

    async fn look(&self) -> Result<Look<Task>, ProviderError> {
        let (db, token, filter) = (&self.provider.inner.db, nonce(), &self.filter);
        let owner = self.session.map(|s| name(FETCH, "owner_id", &s.owner_id)).transpose()?;
        let hold = self.session.map(|s| seconds(s.lock_timeout));
        let lease = seconds(self.lease);
        let params: [&(dyn ToSql + Sync); 6] = [&token, &lease, &filter.plain, &filter.tags, &owner, &hold];
        let row = db.timed(FETCH, Repeat::Always, &db.sql.fetch_activity, &params).await?;
        let bad = |e| unexpected(FETCH, e);
        if row.try_get::<_, Option<&str>>("session").map_err(bad)?.is_some() {
            self.provider.inner.sessions_held.store(true, Ordering::Relaxed);
        }
        let look = read_look(&row, self.lease, |row| read_task(row, token)).map_err(bad)?;
        let owners: Option<Vec<String>> = row.try_get("owners").map_err(bad)?;
        unpack(look, owners.unwrap_or_default())
    }
}

impl PostgresProvider {
    pub(crate) async fn fetch_task(
        &self,
        lease: Duration,
        poll: Duration,
        session: Option<&SessionFetchConfig>,
        tags: &TagFilter,
    ) -> Result<Option<Task>, ProviderError> {
        let filter = Filter::new(tags);
        let Some(filter) = filter else {
            // Nothing will ever come. Whoever has patience is not to ask again at once.
            if self.inner.watch.is_some() {
                tokio::time::sleep(poll).await;
            }
            return Ok(None);
        };
        let looker = TaskLooker { provider: self, lease, session, filter };
        match &self.inner.watch {
            Some(watch) => fetch(watch, &looker, poll).await,
            None => fetch_once(&looker).await,
        }
    }

    pub(crate) async fn ack_task(
        &self,
        token: &str,
        completion: Option<WorkItem>,
    ) -> Result<(), ProviderError> {
        let token = ActivityToken::parse(token).ok_or_else(|| not_held(ACK))?;
        let message = completion.as_ref().map(|item| Message::new(ACK, item)).transpose()?;
        let (to, item, visible): (Option<&str>, Option<&str>, Option<SystemTime>) = match &message {
            Some(m) => (Some(&m.instance), Some(&m.item), m.visible()),
            None => (None, None, None),
        };
        let db = &self.inner.db;
        let params: [&(dyn ToSql + Sync); 5] = [&token.id, &token.nonce, &to, &item, &visible];
        let row = db.one(ACK, Repeat::Unharmed, &db.sql.ack_activity, &params).await?;
        if !row.try_get::<_, bool>("held").map_err(|e| unexpected(ACK, e))? {
            return Err(not_held(ACK));
        }
        self.delivered(ACK, &row)
    }

    pub(crate) async fn abandon_task(
        &self,
        token: &str,
        delay: Option<Duration>,
        ignore_attempt: bool,
    ) -> Result<(), ProviderError> {
        let token = ActivityToken::parse(token).ok_or_else(|| not_held(ABANDON))?;
        let (db, delay) = (&self.inner.db, delay.map(seconds));
        let params: [&(dyn ToSql + Sync); 4] = [&token.id, &token.nonce, &delay, &ignore_attempt];
        let row = db.one(ABANDON, Repeat::Unharmed, &db.sql.abandon_activity, &params).await?;
        let bad = |e| unexpected(ABANDON, e);
        if !row.try_get::<_, bool>("held").map_err(bad)? {
            return Err(not_held(ABANDON));
        }
        let own: Option<i64> = row.try_get("own").map_err(bad)?;
        let (session, tag): (Option<String>, Option<String>) =
            (row.try_get("session").map_err(bad)?, row.try_get("tag").map_err(bad)?);
        match (&self.inner.watch, own) {
            (Some(watch), Some(0)) => {
                watch.ready(work(tag.as_deref(), session.as_deref()), 1);
            }
            (Some(watch), Some(at)) => watch.ready_at(Queue::Activities, at),
            _ => {}
        }
        Ok(())
    }

    pub(crate) async fn renew_task(&self, token: &str, lease: Duration) -> Result<(), ProviderError> {
        let token = ActivityToken::parse(token).ok_or_else(|| not_held(RENEW))?;
        let db = &self.inner.db;
        let params: [&(dyn ToSql + Sync); 3] = [&token.id, &token.nonce, &seconds(lease)];
        let row = db.one(RENEW, Repeat::For(lease / 2), &db.sql.renew_activity, &params).await?;
        match row.try_get(0).map_err(|e| unexpected(RENEW, e))? {
            true => Ok(()),
            false => Err(not_held(RENEW)),
        }
    }

    pub(crate) async fn enqueue_task(&self, item: &WorkItem) -> Result<(), ProviderError> {
        let activity = Activity::new(ENQUEUE, item)?;
        let db = &self.inner.db;
        let params: [&(dyn ToSql + Sync); 6] = [
            &activity.instance,
            &activity.execution,
            &activity.id,
            &activity.item,
            &activity.session,
            &activity.tag,
        ];
        let work = work(activity.tag.as_deref(), activity.session.as_deref());
        let hint = self.inner.unsigned(work, None);
        db.call_and_publish(ENQUEUE, &db.sql.enqueue_activity, &params, hint).await?;
        if let Some(watch) = &self.inner.watch {
            watch.ready(work, 1);
        }
        Ok(())
    }

    /// While this process holds no session there is nothing to renew and nothing to ask.
    pub(crate) async fn renew_sessions(
        &self,
        owners: &[&str],
        lease: Duration,
        idle: Duration,
    ) -> Result<usize, ProviderError> {
        let held = &self.inner.sessions_held;
        if !held.swap(false, Ordering::Relaxed) {
            return Ok(0);
        }
        let renewed = self.renew_held_sessions(owners, lease, idle).await;
        if !matches!(renewed, Ok(0)) {
            held.store(true, Ordering::Relaxed);
        }
        renewed
    }

    async fn renew_held_sessions(
        &self,
        owners: &[&str],
        lease: Duration,
        idle: Duration,
    ) -> Result<usize, ProviderError> {
        let owners: Vec<String> = owners.iter().map(|o| stored(o).into_owned()).collect();
        let db = &self.inner.db;
        let params: [&(dyn ToSql + Sync); 3] = [&owners, &seconds(lease), &seconds(idle)];
        let row = db.one(SESSIONS, Repeat::Always, &db.sql.renew_sessions, &params).await?;
        let renewed: i64 = row.try_get(0).map_err(|e| unexpected(SESSIONS, e))?;
        Ok(usize::try_from(renewed).unwrap_or(0))
    }

    pub(crate) async fn drop_sessions(&self) -> Result<usize, ProviderError> {
        let db = &self.inner.db;
        let row = db.one(CLEANUP, Repeat::Always, &db.sql.drop_sessions, &[]).await?;
        let dropped: i64 = row.try_get(0).map_err(|e| unexpected(CLEANUP, e))?;
        Ok(usize::try_from(dropped).unwrap_or(0))
    }
}

fn work(tag: Option<&str>, session: Option<&str>) -> Work {
    Work::Activity { tag: tag.map(Tag::new), session: session.is_some() }
}

/// The item's text, its token and its attempt.
type RawTask = (String, String, u32);

fn read_task(row: &Row, token: Uuid) -> Result<Option<RawTask>, RowError> {
    let Some(id) = row.try_get::<_, Option<i64>>("id")? else { return Ok(None) };
    let attempts: i32 = row.try_get("attempts")?;
    Ok(Some((row.try_get("item")?, ActivityToken::text(token, id), attempts.cast_unsigned())))
}

/// An item that cannot be decoded is an error; its lock is left to expire.
fn unpack(look: Look<RawTask>, owners: Vec<String>) -> Result<Look<Task>, ProviderError> {
    let decode = |taken: Taken<RawTask>| {
        let (text, token, attempt) = taken.item;
        let item = decoded(&text).map_err(|e| unexpected(FETCH, format!("a work item {e}")))?;
        Ok::<_, ProviderError>(Taken { item: (item, token, attempt), until: taken.until })
    };
    let item = look.item.map(decode).transpose()?;
    Ok(Look { item, more: look.more, next: look.next, owners: owners.into_iter().map(original).collect() })
}
