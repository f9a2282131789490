//! Writing the history: once a minute, if something was counted.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::{Instant, sleep_until, timeout};
use uuid::Uuid;

use bugle_store::{
    Append, AppendError, Guard, LaneId, Message, NewLane, NewSegment, Offset, PutQueue, Queue, QueueId,
    QueueOptions, Read,
};

use crate::api::{Gauges, QueueCounts, Refused, ServerCounts, Vitals};
use crate::inner::Inner;
use crate::meters::QueueMeter;
use crate::news::News;
use crate::semantics::history::{Movement, Record, bucket_of, busiest};

use super::{OpenRecord, Page, QUEUE, with_vitals};

/// Queues that a record tells of one by one.
const MAX_QUEUES: usize = 1000;
/// Of consumers that ask in vain a record is made only every so many times.
const QUIET: u32 = 15;
/// Tries to store one record before the next minute.
const MAX_TRIES: usize = 4;
/// Bytes looked through for a record that may be stored.
const MAX_CHECK: usize = 16 << 20;
/// Longest time that the last record may hold up the end of the server.
const LAST: Duration = Duration::from_secs(5);

/// What the meters remember of a record.
struct Told {
    counts: ServerCounts,
    meters: Vec<(Arc<QueueMeter>, QueueCounts)>,
    rest: QueueCounts,
}

impl Inner {
    /// Background task: keep the history.
    pub(crate) async fn run_history(self: Arc<Self>) {
        self.meters.rest();
        loop {
            tokio::select! {
                () = self.meters.stirred() => (),
                () = self.stop.cancelled() => return,
            }
            self.begin(&mut *self.book.page.lock().await);
            while self.sample_later().await {}
            if self.stop.is_cancelled() {
                return;
            }
        }
    }

    /// Wait for the end of the minute and tell of it. `false` = there was nothing to tell.
    async fn sample_later(self: &Arc<Self>) -> bool {
        let (now, every) = (self.engine.now().latest, self.config.metrics_interval);
        let due = Instant::now() + bucket_of(now, every).plus(every).since(now);
        tokio::select! {
            () = sleep_until(due) => (),
            () = self.stop.cancelled() => return false,
        }
        let mut page = self.book.page.lock().await;
        page.delay_us = u64::try_from(due.elapsed().as_micros()).unwrap_or(u64::MAX);
        if let Err(error) = self.sample(&mut page, false).await {
            tracing::debug!(%error, "the history could not be written; it is tried again");
        }
        if page.open.is_some() || page.since.is_some() {
            return true;
        }
        // Whatever is counted from here on ends the rest; what came just before is seen now.
        self.meters.rest();
        let missed = self.untold(&page).movement() != Movement::None;
        if missed {
            self.begin(&mut page);
        }
        missed
    }

    /// Something is counted after a rest. What the server did and used while nothing happened is nobody's.
    fn begin(&self, page: &mut Page) {
        if page.since.is_none() {
            page.since = Some(self.engine.now().latest);
            page.told.store_calls = self.meters.store_calls.get();
            page.told = with_vitals(page.told, (self.config.vitals)());
        }
    }

    /// Tell what is left, at the end.
    pub(crate) async fn flush_history(self: &Arc<Self>) {
        let last = async {
            let mut page = self.book.page.lock().await;
            self.sample(&mut page, true).await
        };
        match timeout(LAST, last).await {
            Ok(Ok(())) => (),
            Ok(Err(error)) => tracing::warn!(%error, "the last minute of the history could not be written"),
            Err(_) => tracing::warn!("the last minute of the history could not be written in time"),
        }
    }

    /// Store the record that is open, and one of what was counted since, if it is worth it or the `last`.
    async fn sample(self: &Arc<Self>, page: &mut Page, last: bool) -> Result<(), Refused> {
        self.store_open(page).await?;
        let (record, told) = self.take_stock(page);
        let waited = record.end.since(record.start) >= self.config.metrics_interval * QUIET;
        match record.movement() {
            Movement::None => page.since = None,
            Movement::Quiet if !waited && !last => (),
            Movement::Quiet | Movement::Loud => {
                self.open_record(page, record, told)?;
                self.store_open(page).await?;
            }
        }
        Ok(())
    }

    /// What was counted and not told yet, as a record, and what to remember once it is told.
    fn take_stock(&self, page: &Page) -> (Record, Told) {
        let now = self.engine.now().latest;
        let vitals = (self.config.vitals)();
        let mut parked = self.parked();
        let (mut queues, mut meters) = (Vec::new(), Vec::new());
        for (id, meter) in self.meters.queues.all() {
            let counts = QueueCounts { parked: parked.remove(&id).unwrap_or(0), ..meter.untold() };
            if counts != QueueCounts::default()
                && let Some(queue) = self.catalog.queue_by_id(id)
            {
                queues.push((queue.name.clone(), counts));
                meters.push((meter, counts));
            }
        }
        // Where somebody waits and nothing was counted yet.
        for (id, parked) in parked {
            if let Some(queue) = self.catalog.queue_by_id(id) {
                queues.push((queue.name.clone(), QueueCounts { parked, ..QueueCounts::default() }));
            }
        }
        let (queues, mut others) = busiest(queues, MAX_QUEUES);
        let rest = self.meters.queues.untold_rest();
        others.add(&rest);
        let counts = with_vitals(self.counted(), vitals);
        let record = Record {
            id: Uuid::now_v7(),
            host: self.book.host.clone(),
            server: self.book.server.clone(),
            start: page.since.unwrap_or(now).min(now),
            end: now,
            counts: counts.since(&page.told),
            gauges: self.gauges(vitals, page.delay_us),
            queues,
            rest: others,
        };
        (record, Told { counts, meters, rest })
    }

    /// What was counted and not told yet.
    pub(super) fn untold(&self, page: &Page) -> Record {
        self.take_stock(page).0
    }

    /// Pops that are parked, by queue.
    fn parked(&self) -> HashMap<QueueId, u64> {
        let mut parked = HashMap::new();
        for channel in &self.channels.wanted() {
            *parked.entry(channel.queue).or_default() += channel.state.lock().parked() as u64;
        }
        parked
    }

    /// What this server has counted in all.
    fn counted(&self) -> ServerCounts {
        let meters = &self.meters;
        ServerCounts {
            push_requests: meters.push.requests.get(),
            push_messages: meters.push.messages.get(),
            push_refused: meters.push.refused.get(),
            pop_requests: meters.pop.requests.get(),
            pop_messages: meters.pop.messages.get(),
            pop_refused: meters.pop.refused.get(),
            pop_empty: meters.pop_empty.get(),
            ack_requests: meters.ack.requests.get(),
            ack_messages: meters.ack.messages.get(),
            ack_failed: meters.ack_failed.get(),
            ack_refused: meters.ack.refused.get(),
            transactions: meters.transact.requests.get(),
            transaction_messages: meters.transact.messages.get(),
            transactions_refused: meters.transact.refused.get(),
            dead_lettered: meters.dead_lettered.get(),
            redriven: meters.redriven.get(),
            store_calls: meters.store_calls.get(),
            store_errors: meters.store_errors.get(),
            user_us: 0,
            system_us: 0,
        }
    }

    fn gauges(&self, vitals: Vitals, delay_us: u64) -> Gauges {
        let reading = self.read();
        let queued = [&reading.push, &reading.pop, &reading.ack].map(|verb| verb.queued as u64);
        Gauges {
            delay_us,
            parked: reading.waiting.parked as u64,
            queued: queued.iter().sum(),
            pool_in_use: reading.store.in_use as u64,
            pool_idle: reading.store.idle as u64,
            pool_max: reading.store.max as u64,
            backed_off: reading.waiting.keys_backed_off as u64,
            resident_bytes: vitals.resident_bytes,
            virtual_bytes: vitals.virtual_bytes,
        }
    }

    /// Make a record the open one.
    fn open_record(&self, page: &mut Page, record: Record, told: Told) -> Result<(), Refused> {
        let payload = serde_json::to_vec(&record).map_err(|e| Refused::Unavailable(e.to_string()))?;
        let message = Message {
            id: record.id,
            transaction_id: Bytes::from(record.id.to_string()),
            trace_id: None,
            producer_sub: None,
            context: None,
            encrypted: false,
            payload: payload.into(),
        };
        let segment = NewSegment::build(fastrand::u64(..), &[message]);
        for (meter, counts) in &told.meters {
            meter.tell(counts);
        }
        self.meters.queues.tell_rest(&told.rest);
        page.told = told.counts;
        page.since = Some(record.end);
        page.open = Some(OpenRecord { record, segment, unsure: None });
        Ok(())
    }

    /// Store the open record, if there is one. What became of a call without an answer is found out by the next: both
    /// are conditional on the same head, so one of them at most is stored.
    async fn store_open(self: &Arc<Self>, page: &mut Page) -> Result<(), Refused> {
        for _ in 0..MAX_TRIES {
            let Some(open) = &page.open else { return Ok(()) };
            let segment = open.segment.clone();
            let (lane, head) = match page.home {
                Some(home) => home,
                None => *page.home.insert(self.history_home().await?),
            };
            let known_head = open.unsure.unwrap_or(head);
            let now = self.engine.now().latest;
            let append = Append { lane, known_head, guard: Guard::Head, segment, now };
            let answered = self.watch(self.engine.append(vec![append]).await).map(|mut all| all.pop());
            match answered {
                Ok(Some(Ok(appended))) => {
                    page.home = Some((lane, appended.base + 1));
                    page.open = None;
                }
                Ok(Some(Err(AppendError::Moved(found)))) => {
                    page.home = Some((lane, found.head));
                    if let Some(open) = &mut page.open {
                        let stored = match open.unsure {
                            Some(from) => self.is_stored(lane, from, found.head, open.segment.id).await?,
                            None => false,
                        };
                        open.unsure = None;
                        if stored {
                            page.open = None;
                        }
                    }
                }
                Ok(Some(Err(AppendError::NoLane)) | None) => {
                    page.home = None;
                    if let Some(open) = &mut page.open {
                        open.unsure = None;
                    }
                    // Whoever deleted the queue may have done it elsewhere.
                    self.refresh_catalog().await;
                }
                Err(refused) => {
                    if let Some(open) = &mut page.open {
                        open.unsure = Some(known_head);
                    }
                    return Err(refused);
                }
            }
        }
        if page.open.is_some() { Err(self.busy("the history is written to by too many")) } else { Ok(()) }
    }

    async fn is_stored(&self, lane: LaneId, from: Offset, to: Offset, id: u64) -> Result<bool, Refused> {
        let read = Read { lane, from, to, max_bytes: MAX_CHECK };
        let found = self.watch(self.engine.read(vec![read]).await)?;
        Ok(found.into_iter().flatten().any(|segment| segment.id == id))
    }

    /// This server's lane and its head, made where there is none.
    async fn history_home(self: &Arc<Self>) -> Result<(LaneId, Offset), Refused> {
        let queue = self.history_queue().await?;
        let new = NewLane { queue: queue.id, name: self.book.server.clone(), now: self.engine.now().latest };
        let made = self.watch(self.engine.ensure_lanes(vec![new]).await)?.pop();
        match made {
            Some(Ok(lane)) => Ok((lane.id, lane.head)),
            _ => {
                self.forget_queue(queue.id);
                Err(self.busy("the history's queue is being deleted"))
            }
        }
    }

    /// The queue of the records, with the retention that is set now.
    async fn history_queue(self: &Arc<Self>) -> Result<Arc<Queue>, Refused> {
        let keep = self.config.metrics_retention.as_secs();
        let options = QueueOptions {
            retention_enabled: keep > 0,
            retention_seconds: keep,
            dedup_window_seconds: 0,
            ..QueueOptions::implicit()
        };
        for _ in 0..MAX_TRIES {
            let known = self.known_queue(QUEUE).await;
            let wanted = match &known {
                Some(queue) if queue.options == options => return Ok(queue.clone()),
                Some(queue) => {
                    Queue { options: options.clone(), version: queue.version + 1, ..(**queue).clone() }
                }
                None => Queue {
                    id: QueueId::random(),
                    name: QUEUE.into(),
                    namespace: "".into(),
                    task: "".into(),
                    created_at: self.engine.now().latest,
                    version: 1,
                    options: options.clone(),
                },
            };
            match self.watch(self.engine.put_queue(wanted).await)? {
                PutQueue::Stored(queue) => {
                    let queue = self.catalog.learn(queue);
                    self.tell(News::Catalog);
                    return Ok(queue);
                }
                PutQueue::Exists(Some(other)) => drop(self.catalog.learn(other)),
                PutQueue::Exists(None) => {
                    if let Some(known) = known {
                        self.forget_queue(known.id);
                    }
                }
            }
        }
        Err(self.busy("the history's queue is changed by too many"))
    }
}
