//! One (queue, group): its lanes as last seen, the ring of those believed ready, the pops that wait.
//!
//! Places of a lane, and what moves it:
//!
//! * *Idle*: nothing to deliver as far as is known. A write or a probe moves it to *Ring*.
//! * *Ring*: believed ready. A pop takes it to *Claiming*. Wrong only in excess: a claim that finds nothing sends it to
//!   *Idle*.
//! * *Claiming*: a compare-and-set is in flight. Its outcome decides the next place.
//! * *Leased* / *Later*: held by a lease, or hidden until some time. The timer set for it moves it to *Ring*.
//!
//! Whoever puts a lane into the ring takes the oldest waiting pop along and hands it to the dispatcher: as many pops are
//! woken as there are lanes ready.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::Mutex;

use bugle_store::{Cursor, Group, GroupRecord, LaneId, LeaseId, QueueId, Timestamp};

use bugle_wake::Bell;

use crate::ack::AckCall;
use crate::atomic::AtomicUsize;
use crate::lanes::LaneState;
use crate::news::{News, topic};
use crate::planted::race;
use crate::pop::PopJob;

use super::quiet::Quiet;

/// See the module.
pub(crate) struct Channel {
    /// Number of this channel, for timers.
    pub(crate) no: u64,
    pub(crate) queue: QueueId,
    pub(crate) group: Group,
    pub(crate) record: Arc<GroupRecord>,
    pub(crate) state: Mutex<ChannelState>,
    /// Held by whoever walks over all lanes.
    pub(crate) walk: Arc<tokio::sync::Mutex<()>>,
    /// Pops that wait or are about to: while there are any, hints are followed up at once.
    interest: AtomicUsize,
    bell: Bell<News>,
}

/// A pop's interest in a channel, until it is answered or gone.
pub(crate) struct Interest(Arc<Channel>);

/// The changing part of a channel.
#[derive(Default)]
pub(crate) struct ChannelState {
    pub(crate) entries: HashMap<LaneId, Entry, foldhash::fast::RandomState>,
    ring: VecDeque<LaneId>,
    parked: BTreeMap<u64, PopJob>,
    parked_on_lane: HashMap<LaneId, BTreeMap<u64, PopJob>>,
    /// Pops that let a batch grow, and the lane they name, if they name one.
    held: BTreeMap<u64, (Option<LaneId>, PopJob)>,
    /// All lanes of the queue were walked once; from then on only changes are asked for.
    pub(crate) seeded: bool,
    /// The walk was cut short, because there are too many lanes with messages; it goes on when the ring is empty.
    pub(crate) overflow: Option<Walk>,
    /// Lanes written before this time are known.
    pub(crate) watermark: Timestamp,
    /// How often everything was forgotten: a walk that began before knows nothing of its first pages any more.
    pub(crate) forgotten: u64,
    /// The queue is gone, or the group's record is another one: nobody may park here any more.
    pub(crate) closed: bool,
    /// What need not be asked.
    pub(crate) quiet: Quiet,
    /// Looks of the floor in a row that found nothing for those who wait here.
    pub(crate) empty_checks: u32,
    /// Entries that were left when they were last looked over, see [`ChannelState::shrink`].
    kept: usize,
}

/// A walk over all lanes of a queue that was cut short.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Walk {
    /// When it began: what was written since in lanes behind it is asked for when it has ended.
    pub(crate) began: Timestamp,
    /// The last lane seen.
    pub(crate) at: LaneId,
}

/// One lane as this group sees it.
pub(crate) struct Entry {
    pub(crate) lane: Arc<LaneState>,
    /// As last seen; `None` = not known.
    pub(crate) cursor: Option<Cursor>,
    pub(crate) place: Place,
    /// Acknowledgements that wait for the settlement in flight.
    pub(crate) acks: Vec<AckCall>,
    pub(crate) settling: bool,
    /// Its id is in the ring, be it ready or not.
    queued: bool,
    /// Leases of claims whose outcome is not known; nobody holds them.
    pub(crate) orphans: Vec<LeaseId>,
}

/// Where a lane is, see the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Idle,
    Ring,
    Claiming,
    Leased,
    Later,
}

impl Entry {
    /// Whether the cursor was exchanged since it had this epoch.
    pub(crate) fn knows_better(&self, epoch: u64) -> bool {
        self.cursor.as_ref().is_some_and(|known| known.epoch > epoch)
    }

    /// Messages that the group has yet to read, as far as is known.
    fn unread(&self) -> u64 {
        let (head, tail) = self.lane.bounds();
        head.saturating_sub(self.cursor.as_ref().map_or(tail, |cursor| cursor.committed.max(tail)))
    }
}

impl Channel {
    pub(crate) fn new(no: u64, record: Arc<GroupRecord>, bell: Bell<News>) -> Arc<Self> {
        let (queue, group) = (record.queue, record.group.clone());
        let interest = AtomicUsize::new(0);
        let (state, walk) = Default::default();
        Arc::new(Self { no, queue, group, record, state, walk, interest, bell })
    }

    /// Somebody waits or is about to. To be taken before the channel is looked at.
    pub(crate) fn interest(self: &Arc<Self>) -> Interest {
        if self.interest.fetch_add(1, Ordering::SeqCst) == 0 {
            self.bell.want(topic(self.queue));
        }
        Interest(self.clone())
    }

    /// Whether somebody waits or is about to.
    pub(crate) fn is_wanted(&self) -> bool {
        self.interest.load(Ordering::SeqCst) > 0
    }

    /// A lane should be looked at. `true` = now, for somebody who waits; `false` = by whoever comes next.
    pub(crate) fn heed(&self, lane: LaneId) -> bool {
        let mut state = self.state.lock();
        if self.is_wanted() {
            return true;
        }
        state.quiet.tell(lane);
        false
    }
}

impl Drop for Interest {
    fn drop(&mut self) {
        if self.0.interest.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.0.bell.unwant(topic(self.0.queue));
        }
    }
}

impl ChannelState {
    /// The entry of a lane, made if it is new here.
    pub(crate) fn entry(&mut self, lane: &Arc<LaneState>) -> &mut Entry {
        let entry = self.entries.entry(lane.id).or_insert_with(|| Entry {
            lane: lane.clone(),
            cursor: None,
            place: Place::Idle,
            acks: Vec::new(),
            settling: false,
            queued: false,
            orphans: Vec::new(),
        });
        if !Arc::ptr_eq(&entry.lane, lane) {
            entry.lane = lane.clone();
        }
        entry
    }

    /// Put a lane into the ring. Answers a waiting pop that should be dispatched for it.
    pub(crate) fn make_ready(&mut self, id: LaneId) -> Option<PopJob> {
        if !self.put_in_ring(id) {
            return None;
        }
        if let Some(waiting) = self.parked_on_lane.get_mut(&id) {
            let job = waiting.pop_first().map(|(_, job)| job);
            if waiting.is_empty() {
                self.parked_on_lane.remove(&id);
            }
            if job.is_some() {
                return job;
            }
        }
        if let Some(job) = self.release_for(id) {
            return Some(job);
        }
        self.parked.pop_first().map(|(_, job)| job)
    }

    /// Put a lane into the ring and wake nobody. `false` = it is not known here.
    pub(crate) fn put_in_ring(&mut self, id: LaneId) -> bool {
        let Some(entry) = self.entries.get_mut(&id) else { return false };
        entry.place = Place::Ring;
        if !std::mem::replace(&mut entry.queued, true) {
            self.ring.push_back(id);
        }
        true
    }

    /// Whether somebody is claiming this lane.
    pub(crate) fn is_claimed(&self, id: LaneId) -> bool {
        self.entries.get(&id).is_some_and(|entry| entry.place == Place::Claiming)
    }

    /// Take the next lane believed ready; the caller claims it.
    pub(crate) fn next_ready(&mut self) -> Option<LaneId> {
        while let Some(id) = self.ring.pop_front() {
            let Some(entry) = self.entries.get_mut(&id) else { continue };
            entry.queued = false;
            if entry.place == Place::Ring {
                if race("take a lane and leave it") {
                    entry.queued = true;
                    self.ring.push_back(id);
                    return Some(id);
                }
                entry.place = Place::Claiming;
                return Some(id);
            }
        }
        None
    }

    /// The lane at the front of the ring.
    pub(crate) fn front(&self) -> Option<&Entry> {
        self.ring.iter().find_map(|id| self.entries.get(id).filter(|e| e.place == Place::Ring))
    }

    /// Park a pop, for one lane or for any.
    pub(crate) fn park(&mut self, lane: Option<LaneId>, job: PopJob) {
        match lane {
            Some(lane) => drop(self.parked_on_lane.entry(lane).or_default().insert(job.seq, job)),
            None => drop(self.parked.insert(job.seq, job)),
        }
    }

    /// Let a pop wait for more, on one lane or on any.
    pub(crate) fn hold(&mut self, lane: Option<LaneId>, job: PopJob) {
        self.held.insert(job.seq, (lane, job));
    }

    /// Take a held pop out, if it is here.
    pub(crate) fn release(&mut self, seq: u64) -> Option<PopJob> {
        self.held.remove(&seq).map(|(_, job)| job)
    }

    /// The oldest held pop that this lane is for.
    fn release_for(&mut self, id: LaneId) -> Option<PopJob> {
        let wants = |lane: &Option<LaneId>| lane.is_none_or(|lane| lane == id);
        let seq = self.held.iter().find(|(_, (lane, _))| wants(lane)).map(|(seq, _)| *seq)?;
        self.release(seq)
    }

    /// Messages believed ready, in one lane or in the first `partitions` of the ring; counted no further than `enough`.
    pub(crate) fn available(&self, lane: Option<LaneId>, enough: u64, partitions: usize) -> u64 {
        let ready = |id: &LaneId| self.entries.get(id).filter(|entry| entry.place == Place::Ring);
        if let Some(lane) = lane {
            let free = |entry: &&Entry| matches!(entry.place, Place::Ring | Place::Idle);
            return self.entries.get(&lane).filter(free).map_or(0, Entry::unread);
        }
        let mut total = 0;
        for entry in self.ring.iter().filter_map(ready).take(partitions) {
            total += entry.unread();
            if total >= enough {
                break;
            }
        }
        total
    }

    /// Take a parked pop out, if it is here.
    pub(crate) fn unpark(&mut self, lane: Option<LaneId>, seq: u64) -> Option<PopJob> {
        if let Some(job) = self.release(seq) {
            return Some(job);
        }
        let Some(lane) = lane else { return self.parked.remove(&seq) };
        let waiting = self.parked_on_lane.get_mut(&lane)?;
        let job = waiting.remove(&seq);
        if waiting.is_empty() {
            self.parked_on_lane.remove(&lane);
        }
        job
    }

    /// Take all parked pops out.
    pub(crate) fn unpark_all(&mut self) -> Vec<PopJob> {
        let mut jobs: Vec<PopJob> = std::mem::take(&mut self.parked).into_values().collect();
        jobs.extend(std::mem::take(&mut self.parked_on_lane).into_values().flat_map(BTreeMap::into_values));
        jobs.extend(std::mem::take(&mut self.held).into_values().map(|(_, job)| job));
        jobs
    }

    /// Lanes with messages that cannot be had now; another server may have freed them since.
    pub(crate) fn blocked(&self, most: usize) -> Vec<LaneId> {
        let blocked = self.entries.iter().filter(|(_, e)| matches!(e.place, Place::Leased | Place::Later));
        blocked.map(|(id, _)| *id).take(most).collect()
    }

    /// Forget what is known of lanes and cursors; claims that are under way find their places by themselves.
    pub(crate) fn forget(&mut self) {
        for entry in self.entries.values_mut() {
            (entry.cursor, entry.queued) = (None, false);
            if entry.place != Place::Claiming {
                entry.place = Place::Idle;
            }
        }
        self.ring.clear();
        (self.seeded, self.overflow, self.watermark) = (false, None, Timestamp::ZERO);
        self.forgotten += 1;
        self.quiet.doubt();
    }

    /// Whether asking the store would tell nothing new, in this period of hearing everything.
    pub(crate) fn is_quiet(&self, lane: Option<LaneId>, period: u64) -> bool {
        let all = self.knows_all() && self.quiet.about_all(period);
        all || lane.is_some_and(|lane| self.quiet.about(lane, period))
    }

    /// The lanes that may have changed since the store was last asked about all of them, where hints have told all of that.
    pub(crate) fn take_told(&mut self, period: u64) -> Option<Vec<LaneId>> {
        if self.knows_all() { self.quiet.take_told(period) } else { None }
    }

    /// Whether all lanes with messages are known here, but for what came since the watermark.
    pub(crate) fn knows_all(&self) -> bool {
        self.seeded && self.overflow.is_none()
    }

    /// Whether a lane is known here, so that its growth would have been noticed.
    pub(crate) fn knows(&self, lane: LaneId) -> bool {
        self.entries.contains_key(&lane)
    }

    /// Keys with somebody parked: any lane, and each named one.
    pub(crate) fn keys(&self) -> usize {
        usize::from(!self.parked.is_empty()) + self.parked_on_lane.len()
    }

    /// Pops parked here.
    pub(crate) fn parked(&self) -> usize {
        self.parked.len() + self.held.len() + self.parked_on_lane.values().map(BTreeMap::len).sum::<usize>()
    }

    /// Lanes believed ready; some may have gone since.
    pub(crate) fn ready(&self) -> usize {
        self.ring.len()
    }

    /// Show everybody who waits here, and whether they only let their batch grow.
    pub(crate) fn each_waiting(&self, mut show: impl FnMut(&PopJob, bool)) {
        let named = self.parked_on_lane.values().flat_map(BTreeMap::values);
        self.parked.values().chain(named).for_each(|job| show(job, false));
        self.held.values().for_each(|(_, job)| show(job, true));
    }

    /// Lanes that are hidden by time or while their queue is paused, for a queue whose options changed.
    pub(crate) fn hidden(&self) -> Vec<LaneId> {
        self.entries.iter().filter(|(_, e)| e.place == Place::Later).map(|(id, _)| *id).collect()
    }

    /// Drop entries of lanes with nothing to remember, when there are too many. Lanes with something to read stay, however many:
    /// who would be looked over in vain each time is looked over again when there are an eighth more of them.
    pub(crate) fn shrink(&mut self, most: usize) {
        if self.entries.len() > most.max(self.kept + self.kept / 8) {
            self.entries
                .retain(|_, e| e.place != Place::Idle || e.settling || e.queued || !e.acks.is_empty());
            self.kept = self.entries.len();
        }
    }
}
