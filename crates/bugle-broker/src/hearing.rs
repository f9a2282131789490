//! Hearing: what other servers tell, and telling them.
//!
//! A hint names lanes. If somebody waits for them here, they are loaded, all hints that came together by one call, and
//! take their places as if they had been found by asking; if nobody does, the channel remembers that the next pop must
//! ask. Hints that were missed are found by the floor ([`crate::floor`]).
//!
//! *Periods.* As long as a carrier is proven healthy and nothing was missed, a channel about which the store was asked
//! once stays known: pops that come again and again park without asking. Each lapse begins a new period, in which
//! everything is asked for again.

use std::collections::HashSet;
use std::sync::Arc;

use tokio::sync::mpsc;

use bugle_store::{DEFAULT_PARTITION, LaneId, Load, QueueId};
use bugle_wake::Heard;

use crate::inner::Inner;
use crate::meters::WakeSource;
use crate::news::News;
use crate::planted::race;
use crate::waiting::Channel;

/// A lane to look at on behalf of those who wait for it.
pub(crate) struct Look {
    pub(crate) channel: Arc<Channel>,
    pub(crate) lane: LaneId,
    pub(crate) source: WakeSource,
}

impl Inner {
    /// Tell other servers.
    pub(crate) fn tell(&self, news: News) {
        if !self.engine.exclusive() {
            self.bell.ring(news);
        }
    }

    /// Whether other servers are heard.
    pub(crate) fn hears(&self) -> bool {
        self.bell.hearing().covered
    }

    /// The present period of hearing everything; `None` = things may be missed right now.
    pub(crate) fn period(&self) -> Option<u64> {
        let hearing = self.bell.hearing();
        hearing.covered.then_some(hearing.lapses)
    }

    /// Background task: follow what is heard.
    pub(crate) async fn run_hearing(self: Arc<Self>, mut heard: mpsc::Receiver<Heard<News>>) {
        loop {
            let event = tokio::select! {
                event = heard.recv() => event,
                () = self.stop.cancelled() => return,
            };
            match event {
                None => return,
                Some(Heard::Tidings { source, tidings }) => self.hear(source.into(), tidings),
                Some(Heard::Recheck { source, reason }) => {
                    tracing::debug!(%source, reason, "hints may have been missed");
                    if !race("hear of a gap and go on") {
                        self.floor.look_now();
                    }
                }
                Some(Heard::Health(hearing)) => {
                    tracing::info!(state = %hearing.state, "carriers");
                    self.floor.changed();
                }
            }
        }
    }

    fn hear(self: &Arc<Self>, source: WakeSource, tidings: Vec<News>) {
        let mut looks = Vec::new();
        let mut catalog = false;
        for news in tidings {
            match news {
                News::Written { queue, lane } => {
                    catalog |= !self.heard_written(queue, lane, source, &mut looks)
                }
                News::Moved { queue, lane, group } => {
                    if let Some(channel) = self.channels.get(queue, &group)
                        && channel.heed(lane)
                    {
                        looks.push(Look { channel, lane, source });
                    }
                }
                News::Catalog => catalog = true,
                News::Inbox => self.mover.look_now(),
            }
        }
        self.looks().offer_urgent(looks);
        if catalog {
            self.stale_catalog();
        }
    }

    /// See [`crate::Broker::notify`]. Without a partition everybody who waits for the queue asks; the others are told of the
    /// default one.
    pub(crate) fn notified(self: &Arc<Self>, queue: &str, partition: Option<&str>) {
        let Some(queue) = self.catalog.queue(queue) else {
            if !self.engine.exclusive() {
                self.stale_catalog();
            }
            return;
        };
        let lane = LaneId::derive(queue.id, partition.unwrap_or(DEFAULT_PARTITION));
        if partition.is_some() {
            let mut looks = Vec::new();
            self.heard_written(queue.id, lane, WakeSource::Local, &mut looks);
            self.looks().offer_urgent(looks);
        } else {
            for channel in self.channels.of_queue(queue.id) {
                let mut state = channel.state.lock();
                state.quiet.doubt();
                let jobs = state.unpark_all();
                drop(state);
                self.ask_again(jobs, WakeSource::Local);
            }
        }
        self.tell(News::Written { queue: queue.id, lane });
    }

    /// A lane was written elsewhere: look at it for every group that waits. `false` = its queue is not known.
    pub(crate) fn heard_written(
        self: &Arc<Self>,
        queue: QueueId,
        lane: LaneId,
        source: WakeSource,
        looks: &mut Vec<Look>,
    ) -> bool {
        for channel in self.channels.of_queue(queue) {
            if channel.heed(lane) {
                looks.push(Look { channel, lane, source });
            }
        }
        let Some(queue) = self.catalog.queue_by_id(queue) else { return false };
        let known = |group: &str| self.channels.get(queue.id, group).is_some();
        self.dispatch(self.channels.wake_filters_new_to(&queue, known), source);
        true
    }

    /// Handler of the looks intake: one call for all lanes to look at.
    pub(crate) async fn look_at(self: Arc<Self>, mut looks: Vec<Look>) {
        let mut seen = HashSet::new();
        looks.retain(|look| seen.insert((look.channel.no, look.lane)));
        let batch = looks.iter().map(|look| Load::Lane(look.lane, look.channel.group.clone())).collect();
        match self.watch(self.engine.load(batch).await) {
            Ok(found) => {
                for (look, found) in looks.iter().zip(found) {
                    for found in found {
                        self.learn_cursor(&look.channel, found, look.source);
                    }
                }
            }
            Err(_) => self.not_looked_at(looks.iter().map(|look| &look.channel)),
        }
    }

    /// What hints have told of these channels could not be looked at. Whoever waits is served when the store is back; whoever comes until
    /// then must ask.
    pub(crate) fn not_looked_at<'a>(self: &Arc<Self>, channels: impl Iterator<Item = &'a Arc<Channel>>) {
        let mut some = false;
        for channel in channels {
            channel.state.lock().quiet.doubt();
            some = true;
        }
        if some {
            self.recover();
        }
    }
}
