//! Storing what lies in the inbox: screened and prepared as any push, and taken out of the inbox by the very change that
//! appends it. So it is stored once whatever becomes of answers: what is still in the inbox was not stored.

use std::sync::Arc;

use bugle_store::{
    Append, AppendError, Appended, Guard, Inbox, LaneName, Message, NewSegment, Take, TakeError,
};

use crate::api::Refused;
use crate::dedupe::Ids;
use crate::inner::Inner;
use crate::lanes::LaneState;
use crate::meters::WakeSource;

use super::append::Work;

/// Appends of one lane that may be refused in a row.
const MAX_TRIES: u32 = 12;

/// Rows of one lane and their messages, ready to be stored.
pub(crate) struct Moving {
    pub(crate) name: LaneName,
    pub(crate) rows: Vec<u64>,
    pub(crate) lane: Arc<LaneState>,
    pub(crate) messages: Vec<Message>,
}

/// What became of rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Moved {
    /// Whose messages were stored.
    pub(crate) stored: u64,
    /// Whose messages were there already.
    pub(crate) duplicates: u64,
    /// Lanes that another server was faster with.
    pub(crate) lost: u64,
    /// Lanes that are to be looked at again: they were deleted meanwhile, or had no room for all.
    pub(crate) again: u64,
}

/// A lane under way.
struct Open {
    name: LaneName,
    rows: Vec<u64>,
    /// Its segment and ids, while it is being appended.
    sent: Option<(NewSegment, Ids)>,
}

impl Inner {
    /// Store messages of the inbox. After an error some of them may be stored, and are not in the inbox any more.
    pub(crate) async fn store_taken(
        self: &Arc<Self>,
        inbox: &dyn Inbox,
        moving: Vec<Moving>,
    ) -> Result<Moved, Refused> {
        let mut moved = Moved::default();
        let (mut works, mut open) = (Vec::with_capacity(moving.len()), Vec::with_capacity(moving.len()));
        for Moving { name, rows, lane, messages } in moving {
            works.push(Work::alone(lane, messages, self, 0));
            open.push(Open { name, rows, sent: None });
        }
        for _ in 0..MAX_TRIES {
            (works, open) = self.take_round(inbox, works, open, &mut moved).await?;
            if works.is_empty() {
                return Ok(moved);
            }
        }
        Err(self.busy("the partition is written to by too many servers"))
    }

    /// One try for every lane; answers those that were overtaken.
    async fn take_round(
        self: &Arc<Self>,
        inbox: &dyn Inbox,
        mut works: Vec<Work>,
        mut open: Vec<Open>,
        moved: &mut Moved,
    ) -> Result<(Vec<Work>, Vec<Open>), Refused> {
        let timeline = self.timeline();
        self.catch_up(&mut works).await?;
        self.screen(&mut works).await?;
        let mut batch = Vec::with_capacity(works.len());
        let mut known = Vec::new();
        for (work, open) in works.iter_mut().zip(&mut open) {
            let append = self.prepare(work).map(at_any_head);
            open.sent = append.as_ref().map(|append| (append.segment.clone(), work.ids));
            if append.is_none() {
                known.push(&*work);
            }
            batch.push(Take { name: open.name.clone(), rows: open.rows.clone(), append });
        }
        self.are_there(known, timeline).await?;
        let outcomes = match self.watch(self.change(timeline, inbox.take(batch)).await) {
            Ok(outcomes) => outcomes,
            Err(refused) => {
                works.iter().for_each(|work| work.lane.inner.lock().stale = true);
                return Err(refused);
            }
        };
        let (mut works_again, mut open_again) = (Vec::new(), Vec::new());
        for ((mut work, open), outcome) in works.into_iter().zip(open).zip(outcomes) {
            match outcome {
                Ok(appended) => self.was_taken(&work, &open, appended, timeline, moved),
                Err(TakeError::Taken) => moved.lost += 1,
                Err(TakeError::Append(AppendError::Moved(lane))) => {
                    work.lane.correct(&lane, work.tries > 1);
                    self.lane_written(&work.lane, WakeSource::Local);
                    work.tries += 1;
                    works_again.push(work);
                    open_again.push(open);
                }
                Err(TakeError::Append(AppendError::NoLane)) => {
                    self.lanes.forget(work.lane.id);
                    self.stale_catalog();
                    moved.again += 1;
                }
            }
        }
        Ok((works_again, open_again))
    }

    fn was_taken(
        self: &Arc<Self>,
        work: &Work,
        open: &Open,
        appended: Option<Appended>,
        timeline: u64,
        moved: &mut Moved,
    ) {
        let mut stored = 0;
        if let (Some(appended), Some((segment, ids))) = (appended, &open.sent) {
            stored = u64::from(segment.count());
            self.appended(work, appended, segment, *ids, timeline);
        }
        moved.stored += stored;
        moved.duplicates += open.rows.len() as u64 - stored;
    }
}

/// Others may write to the lane meanwhile, as long as they do not write the same ids.
fn at_any_head(append: Append) -> Append {
    let guard = if append.guard == Guard::Head { Guard::Fingerprints } else { append.guard };
    Append { guard, ..append }
}
