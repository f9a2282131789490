//! From transaction ids to offsets: inside the leased range first, by fingerprint in the store otherwise.

use std::collections::HashMap;
use std::sync::Arc;

use bugle_store::{Cursor, Find, Message, Offset, Timestamp, TraceContext, fingerprint, uuid_v7};

use crate::api::Refused;
use crate::inner::Inner;
use crate::lanes::LaneState;

/// Ids to be found in one lane.
pub(crate) struct Sought {
    pub(crate) lane: Arc<LaneState>,
    pub(crate) cursor: Option<Cursor>,
    pub(crate) ids: Vec<String>,
}

/// What was found of them.
#[derive(Default)]
pub(crate) struct Located {
    offsets: HashMap<String, Offset, foldhash::fast::RandomState>,
    messages: HashMap<Offset, (Message, Timestamp), foldhash::fast::RandomState>,
    /// Some of them belong to a trace.
    traced: bool,
}

impl Located {
    /// Offset of an id; the newest, if it occurs twice.
    pub(crate) fn offset(&self, id: &str) -> Option<Offset> {
        self.offsets.get(id).copied()
    }

    /// The message at an offset, if it was sought.
    pub(crate) fn message(&self, at: Offset) -> Option<&(Message, Timestamp)> {
        self.messages.get(&at)
    }

    /// The trace that the message at an offset belongs to.
    pub(crate) fn context(&self, at: Option<Offset>) -> Option<Arc<TraceContext>> {
        if !self.traced {
            return None;
        }
        self.message(at?)?.0.context.clone()
    }

    /// A head that includes everything found.
    pub(crate) fn head(&self) -> Offset {
        self.messages.keys().max().map_or(0, |at| at + 1)
    }

    fn add(&mut self, at: Offset, message: Message, created_at: Timestamp) {
        let known = self.offsets.entry(message.transaction().to_owned()).or_insert(at);
        *known = (*known).max(at);
        self.traced |= message.context.is_some();
        self.messages.insert(at, (message, created_at));
    }
}

impl Inner {
    /// Find all ids, batched over lanes.
    pub(crate) async fn locate(&self, sought: Vec<Sought>) -> Result<Vec<Located>, Refused> {
        let mut located: Vec<Located> = sought.iter().map(|_| Located::default()).collect();
        let ranges: Vec<(usize, Offset, Offset)> = sought
            .iter()
            .enumerate()
            .filter_map(|(i, s)| {
                let cursor = s.cursor.as_ref()?;
                let lease = cursor.lease?;
                (lease.end > cursor.committed).then_some((i, cursor.committed, lease.end))
            })
            .collect();
        let wanted = ranges.iter().map(|(i, from, to)| (sought[*i].lane.clone(), *from, *to)).collect();
        let read = self.segments(wanted).await?;
        for ((i, from, to), segments) in ranges.into_iter().zip(read) {
            let ids: std::collections::HashSet<&str> = sought[i].ids.iter().map(String::as_str).collect();
            for segment in &segments {
                let opened = self.opened.open(sought[i].lane.id, segment);
                let messages = opened.and_then(|opened| opened.between(from, to)).unwrap_or_default();
                for (at, message) in (segment.base.max(from)..).zip(messages) {
                    if ids.contains(message.transaction()) {
                        located[i].add(at, message, segment.created_at);
                    }
                }
            }
        }
        self.locate_in_memory(&sought, &mut located).await?;
        self.locate_by_fingerprint(&sought, &mut located).await?;
        Ok(located)
    }

    /// Ids that the fingerprints in memory know; the others may still be in the store.
    async fn locate_in_memory(&self, sought: &[Sought], located: &mut [Located]) -> Result<(), Refused> {
        for (s, located) in sought.iter().zip(located) {
            let missing: Vec<&String> = s.ids.iter().filter(|id| located.offset(id).is_none()).collect();
            if missing.is_empty() {
                continue;
            }
            let candidates = remembered(&s.lane, &missing);
            let wanted: Vec<_> = candidates.iter().map(|(_, at)| (s.lane.id, *at)).collect();
            let messages = self.messages_at(&wanted).await?;
            for (id, at) in candidates {
                if let Some((message, created_at)) = messages.get(&(s.lane.id, at))
                    && message.transaction() == id
                {
                    located.add(at, message.clone(), *created_at);
                }
            }
        }
        Ok(())
    }

    async fn locate_by_fingerprint(&self, sought: &[Sought], located: &mut [Located]) -> Result<(), Refused> {
        let (mut finds, mut which) = (Vec::new(), Vec::new());
        for (i, s) in sought.iter().enumerate() {
            let mut missing: Vec<&String> =
                s.ids.iter().filter(|id| located[i].offset(id).is_none()).collect();
            missing.sort_unstable();
            missing.dedup();
            if missing.is_empty() {
                continue;
            }
            finds.push(Find {
                lane: s.lane.id,
                fingerprints: missing.iter().map(|id| fingerprint(id.as_bytes())).collect(),
                from: 0,
                to: Offset::MAX >> 1,
                since: Timestamp::ZERO,
            });
            which.push((i, missing.into_iter().cloned().collect::<Vec<_>>()));
        }
        if finds.is_empty() {
            return Ok(());
        }
        let found = self.watch(self.engine.find(finds).await)?;
        let mut wanted = Vec::new();
        for ((i, _), found) in which.iter().zip(&found) {
            wanted.extend(found.iter().map(|hit| (sought[*i].lane.id, hit.offset)));
        }
        let messages = self.messages_at(&wanted).await?;
        for ((i, ids), found) in which.into_iter().zip(found) {
            for hit in found {
                if let Some((message, created_at)) = messages.get(&(sought[i].lane.id, hit.offset))
                    && message.transaction() == ids[hit.index]
                {
                    located[i].add(hit.offset, message.clone(), *created_at);
                }
            }
        }
        Ok(())
    }
}

/// Where ids may be, as far as the fingerprints in memory know.
fn remembered(lane: &LaneState, ids: &[&String]) -> Vec<(String, Offset)> {
    let inner = lane.inner.lock();
    let candidates = |id: &&String| {
        let found = inner.recent.candidates(fingerprint(id.as_bytes()), uuid_v7(id.as_bytes()));
        found.into_iter().map(|at| ((*id).clone(), at)).collect::<Vec<_>>()
    };
    ids.iter().flat_map(candidates).collect()
}
