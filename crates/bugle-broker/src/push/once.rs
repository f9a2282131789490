//! Storing messages that were taken before, each once, whatever became of earlier tries.
//!
//! A try whose answer was lost, with this process or with one before it, may have stored its messages, or be about to. So each
//! is looked for by its own message id, however long ago that was, and the append is conditional on what was seen: of two
//! tries the store takes the first that reaches it. What the queue's own dedupe window says of transaction ids holds as for
//! any push.

use std::sync::Arc;

use bugle_store::{AppendError, NewSegment};

use crate::api::Refused;
use crate::dedupe::Ids;
use crate::inner::Inner;
use crate::meters::WakeSource;

use super::{Bundle, append::Work};

/// Appends of one lane that may be refused in a row.
const MAX_TRIES: u32 = 12;

impl Inner {
    /// Store these messages. After an error some of them may be stored; it can be repeated.
    pub(crate) async fn store_once(self: &Arc<Self>, mut bundles: Vec<Bundle>) -> Result<(), Refused> {
        let routes = self.route(&bundles).await?;
        for (bundle, (queue, lane)) in bundles.iter_mut().zip(&routes) {
            self.seal(queue, lane, &mut bundle.messages)?;
        }
        let work = |(bundle, (_, lane)): (Bundle, (_, _))| Work::once(lane, bundle.messages, self);
        let mut open: Vec<Work> = bundles.into_iter().zip(routes).map(work).collect();
        for _ in 0..MAX_TRIES {
            open = self.append_once(open).await?;
            if open.is_empty() {
                return Ok(());
            }
        }
        Err(self.busy("the partition is written to by too many servers"))
    }

    /// One append per lane; answers the lanes that were overtaken.
    async fn append_once(self: &Arc<Self>, mut open: Vec<Work>) -> Result<Vec<Work>, Refused> {
        let timeline = self.timeline();
        self.catch_up(&mut open).await?;
        self.screen(&mut open).await?;
        let (mut sending, mut batch, mut known) = (Vec::new(), Vec::new(), Vec::new());
        for mut work in open {
            match self.prepare(&mut work) {
                Some(append) => {
                    batch.push(append);
                    sending.push(work);
                }
                None => known.push(work),
            }
        }
        self.are_there(known.iter().collect(), timeline).await?;
        if batch.is_empty() {
            return Ok(Vec::new());
        }
        let sent: Vec<(NewSegment, Ids)> =
            batch.iter().zip(&sending).map(|(append, work)| (append.segment.clone(), work.ids)).collect();
        let outcomes = match self.watch(self.change(timeline, self.engine.append(batch)).await) {
            Ok(outcomes) => outcomes,
            Err(refused) => {
                sending.iter().for_each(|work| work.lane.inner.lock().stale = true);
                return Err(refused);
            }
        };
        let (mut again, mut gone) = (Vec::new(), Vec::new());
        for ((mut work, outcome), (segment, ids)) in sending.into_iter().zip(outcomes).zip(sent) {
            match outcome {
                Ok(appended) => self.appended(&work, appended, &segment, ids, timeline),
                Err(AppendError::Moved(lane)) => {
                    work.lane.correct(&lane, work.tries > 1);
                    self.lane_written(&work.lane, WakeSource::Local);
                    work.tries += 1;
                    again.push(work);
                }
                Err(AppendError::NoLane) => gone.push(work),
            }
        }
        self.all_gone(&gone)?;
        Ok(again)
    }

    /// Lanes that every message is already in. Where others write to the store too, memory cannot know that a lane was
    /// deleted meanwhile, nor that its messages are durable.
    pub(super) async fn are_there(self: &Arc<Self>, known: Vec<&Work>, timeline: u64) -> Result<(), Refused> {
        if known.is_empty() || self.engine.exclusive() {
            return Ok(());
        }
        let found = self.lanes_of(&known).await?;
        if self.engine.timeline() != timeline {
            return Err(Refused::Unavailable("the store went on on another timeline".into()));
        }
        let gone: Vec<&Work> =
            known.into_iter().zip(found).filter(|(_, found)| found.is_empty()).map(|(w, _)| w).collect();
        self.all_gone(gone)
    }

    /// Forget lanes that are gone; whoever tries again makes new ones.
    fn all_gone<'a>(self: &Arc<Self>, gone: impl IntoIterator<Item = &'a Work>) -> Result<(), Refused> {
        let mut any = false;
        for work in gone {
            self.lanes.forget(work.lane.id);
            any = true;
        }
        if any {
            self.stale_catalog();
            return Err(Refused::Conflict("the queue is being deleted".into()));
        }
        Ok(())
    }
}
