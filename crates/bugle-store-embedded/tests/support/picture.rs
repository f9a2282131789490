//! A picture of everything in a store, comparable.

use std::collections::{BTreeMap, BTreeSet};

use bugle_store::{
    Cursor, DeadLetterFilter, Engine, GroupRecord, LaneId, Load, Page, Queue, QueueId, Read, Switches,
    TraceFilter, Unavailable,
};
use bytes::Bytes;
use uuid::Uuid;

const ALL: Page = Page { offset: 0, limit: 100_000 };

/// (base, id, fingerprints, body)
pub(crate) type Row = (u64, u64, Vec<u64>, Bytes);

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct LanePicture {
    pub(crate) head: u64,
    pub(crate) tail: u64,
    pub(crate) segments: Vec<Row>,
    pub(crate) cursors: BTreeMap<String, Cursor>,
}

impl LanePicture {
    pub(crate) fn trim(&mut self, to: u64) {
        self.tail = to.clamp(self.tail, self.head);
        let tail = self.tail;
        self.segments.retain(|(base, _, prints, _)| base + prints.len() as u64 > tail);
    }
}

/// See the module.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Picture {
    pub(crate) queues: BTreeMap<QueueId, Queue>,
    pub(crate) groups: BTreeMap<(QueueId, String), GroupRecord>,
    pub(crate) switches: Switches,
    pub(crate) lanes: BTreeMap<LaneId, LanePicture>,
    pub(crate) dead: BTreeSet<(Uuid, Bytes)>,
    pub(crate) traces: BTreeSet<(Uuid, String)>,
}

impl Picture {
    /// Without the fingerprints, which a read does not show.
    pub(crate) fn blank(&self) -> Picture {
        let mut blank = self.clone();
        for (_, _, prints, _) in blank.lanes.values_mut().flat_map(|l| l.segments.iter_mut()) {
            prints.fill(0);
        }
        blank
    }

    /// In what they differ, in short.
    pub(crate) fn difference(&self, wanted: &Picture) -> String {
        let mut out = String::new();
        for id in self.lanes.keys().chain(wanted.lanes.keys()).collect::<BTreeSet<_>>() {
            let (s, w) = (self.lanes.get(id), wanted.lanes.get(id));
            if s != w {
                let bases = |l: &LanePicture| l.segments.iter().map(|s| s.0).collect::<Vec<_>>();
                let brief =
                    |l: Option<&LanePicture>| l.map(|l| (l.tail, l.head, bases(l), l.cursors.clone()));
                out += &format!("lane {id}:\n  seen   {:?}\n  wanted {:?}\n", brief(s), brief(w));
            }
        }
        out += &format!("queues {:?} / {:?}\n", self.queues.keys(), wanted.queues.keys());
        out += &format!("groups {:?} / {:?}\n", self.groups.keys(), wanted.groups.keys());
        out += &format!("switches {:?} / {:?}\n", self.switches, wanted.switches);
        let (dead, traces) = (self.dead.len(), self.traces.len());
        out + &format!("dead {dead} / {}, traces {traces} / {}", wanted.dead.len(), wanted.traces.len())
    }
}

/// A picture of a store; `possible` are the lanes that may be there.
pub(crate) async fn try_look(
    store: &dyn Engine,
    possible: &BTreeSet<LaneId>,
) -> Result<Picture, Unavailable> {
    let mut picture = Picture::default();
    let snapshot = store.snapshot(None).await?.expect("a snapshot is asked for without a known version");
    picture.switches = snapshot.switches;
    let groups = snapshot.groups.into_iter();
    picture.groups = groups.map(|g| ((g.queue, g.group.to_string()), g)).collect();
    for queue in snapshot.queues {
        for lane in store.lanes(queue.id, None, usize::MAX).await? {
            assert!(possible.contains(&lane.id), "a lane nobody made");
            let read = Read { lane: lane.id, from: 0, to: u64::MAX, max_bytes: usize::MAX };
            let segments = store.read(vec![read]).await?.remove(0);
            let mut next = segments.first().map_or(lane.head, |s| s.base);
            let mut rows = Vec::new();
            for segment in segments {
                assert_eq!(segment.base, next, "offsets have no gap");
                next = segment.end();
                rows.push((segment.base, segment.id, vec![0; segment.count as usize], segment.body));
            }
            assert_eq!(next, lane.head);
            let cursors = store.load(vec![Load::Cursors(lane.id)]).await?.remove(0);
            let cursors = cursors.into_iter().map(|c| (c.group.to_string(), c.cursor.unwrap())).collect();
            let (head, tail) = (lane.head, lane.tail);
            picture.lanes.insert(lane.id, LanePicture { head, tail, segments: rows, cursors });
        }
        picture.queues.insert(queue.id, queue);
    }
    let (dead, _) = store.dead_letters(DeadLetterFilter::default(), ALL).await?;
    picture.dead = dead.into_iter().map(|d| (d.id, d.message)).collect();
    let (traces, _) = store.traces(TraceFilter::Name("all".to_owned()), ALL).await?;
    picture.traces = traces.into_iter().map(|t| (t.id, t.data)).collect();
    Ok(picture)
}
