//! Pop: which lanes may be claimed, and what a claim of one delivers.
//!
//! A pop comes back with messages if there are any for it. It need not serve as many lanes as it could: what a server does
//! not know yet it need not look for once it has something to give.

use bugle_broker::{PopAnswer, PopRequest, PopTarget, PoppedLane};
use bugle_store::QUEUE_MODE;

use super::{Begin, Check, Cursor, Held, Lane, Naive, Queue, Reading, ensure, seconds};

/// Messages in a lane that end its window.
const WINDOW_FULL: usize = 100;

impl Naive {
    /// Whether a pop must come back with messages.
    pub(crate) fn has_messages(&mut self, request: &PopRequest) -> bool {
        self.meet(request);
        !self.claimable(request).is_empty()
    }

    pub(crate) fn pop(&mut self, request: &PopRequest, answer: &PopAnswer) -> Check {
        ensure!(!answer.store_unavailable, "the store is said to be away");
        self.meet(request);
        let mut open = self.claimable(request);
        ensure!(
            open.is_empty() == answer.lanes.is_empty(),
            "lanes {open:?} have messages, answered: {answer:?}"
        );
        let partitions = request.partitions.unwrap_or(1) as usize;
        ensure!(answer.lanes.len() <= partitions, "{} lanes, {partitions} asked for", answer.lanes.len());
        let mut rest = request.batch.unwrap_or(1).max(1) as usize;
        let leased = !answer.lanes.is_empty() && !request.auto_ack;
        ensure!(answer.lease_id.is_some() == leased, "lease id: {:?}", answer.lease_id);
        if let Some(lease) = answer.lease_id {
            ensure!(!self.leases.contains(&lease), "a lease id is used twice");
            self.leases.push(lease);
        }
        self.check_end(request, answer)?;
        self.check_policy(request, answer)?;
        for popped in &answer.lanes {
            let place = (popped.queue.to_string(), popped.partition.to_string());
            let Some(at) = open.iter().position(|lane| *lane == place) else {
                return Err(format!("{place:?} cannot be claimed or is claimed twice; could be: {open:?}"));
            };
            open.remove(at);
            ensure!(rest > 0, "more lanes are claimed than the batch has room for");
            let count = self.claim(request, answer, popped, rest);
            rest -= count.map_err(|wrong| format!("{place:?}: {wrong}"))?;
        }
        Ok(())
    }

    /// A pop makes its queue and registers its group, whether it finds messages or not.
    fn meet(&mut self, request: &PopRequest) {
        let reading = Reading { begin: self.begin(request), conflates: request.conflation };
        if let PopTarget::Lane { queue, .. } | PopTarget::Queue { queue } = &request.target {
            self.queue(queue);
        }
        let wanted = self.queues.iter_mut().filter(|(name, queue)| wants(request, name, queue));
        for (_, queue) in wanted {
            queue.groups.entry(request.group.to_string()).or_insert(reading);
        }
    }

    fn begin(&self, request: &PopRequest) -> Begin {
        if &*request.group == QUEUE_MODE {
            return Begin::AtTheOldest;
        }
        match (request.subscription_from.as_deref(), request.subscription_mode.as_deref()) {
            (Some("now"), _) | (None, Some("new" | "new-only")) => Begin::After(self.now),
            (Some(time), _) => {
                let time: jiff::Timestamp = time.parse().expect("a timestamp of the generator's");
                Begin::After(time.as_microsecond())
            }
            (None, _) => Begin::AtTheOldest,
        }
    }

    /// (queue, partition) of all lanes that have something to deliver now and are free.
    fn claimable(&self, request: &PopRequest) -> Vec<(String, String)> {
        let mut found = Vec::new();
        for (name, queue) in self.queues.iter().filter(|(name, queue)| wants(request, name, queue)) {
            for lane in &queue.lanes {
                let named =
                    !matches!(&request.target, PopTarget::Lane { partition, .. } if **partition != lane.name);
                let cursor = lane.cursor(&request.group, queue.groups[&*request.group]);
                let free = cursor.lease.as_ref().is_none_or(|held| held.until <= self.now);
                let rested = cursor.rests_until <= self.now;
                if named && free && rested && self.visible(queue, lane, cursor.next) > cursor.next {
                    found.push((name.clone(), lane.name.clone()));
                }
            }
        }
        found
    }

    /// The end of what may be delivered from `next` on.
    fn visible(&self, queue: &Queue, lane: &Lane, next: usize) -> usize {
        let waiting = &lane.messages[next..];
        let (Some(oldest), Some(newest)) = (waiting.first(), waiting.last()) else { return next };
        let window = seconds(queue.options.window_buffer);
        let quiet = newest.created_at + window <= self.now;
        let long = oldest.created_at + 2 * window <= self.now;
        if window > 0 && !quiet && !long && waiting.len() < WINDOW_FULL {
            return next;
        }
        let delay = seconds(queue.options.delayed_processing);
        next + waiting.iter().take_while(|message| message.created_at + delay <= self.now).count()
    }

    /// The lease ends when it should, by the request or by a queue it was taken on.
    fn check_end(&self, request: &PopRequest, answer: &PopAnswer) -> Check {
        let length = |queue: &Queue| request.lease_seconds.unwrap_or(queue.options.lease_time);
        let queues = self.queues.iter().filter(|(name, queue)| wants(request, name, queue));
        let mut ends = queues.map(|(_, queue)| self.now + seconds(length(queue)));
        let end = answer.lease_expires_at.map(|at| at.0);
        ensure!(
            end.is_some() == answer.lease_id.is_some()
                && end.is_none_or(|end| ends.any(|other| other == end)),
            "the lease ends at {end:?}, now is {}",
            self.now
        );
        Ok(())
    }

    /// How the group reads is told, and whether that is what was asked for.
    fn check_policy(&self, request: &PopRequest, answer: &PopAnswer) -> Check {
        let queues = self.queues.iter().filter(|(name, queue)| wants(request, name, queue));
        let stored: Vec<bool> = queues.map(|(_, queue)| queue.groups[&*request.group].conflates).collect();
        let conflates = stored.contains(&true) || (stored.is_empty() && request.conflation);
        let conflict = stored.contains(&!request.conflation);
        let told = (answer.conflation, answer.conflation_conflict);
        ensure!(
            told == (conflates, conflict),
            "conflation and conflict are told as {told:?}, stored: {stored:?}"
        );
        Ok(())
    }

    /// Compare the messages of one lane and move its cursor. Answers how many there were.
    fn claim(
        &mut self,
        request: &PopRequest,
        answer: &PopAnswer,
        popped: &PoppedLane,
        room: usize,
    ) -> Result<usize, String> {
        let queue = &self.queues[&*popped.queue];
        let at = queue.lanes.iter().position(|lane| lane.name == *popped.partition).expect("found before");
        let lane = &queue.lanes[at];
        ensure!(lane.id == Some(popped.lane), "another partition id");
        let mut cursor = lane.cursor(&request.group, queue.groups[&*request.group]);
        let visible = self.visible(queue, lane, cursor.next);
        let mut most = (visible - cursor.next).min(room);
        if queue.groups[&*request.group].conflates {
            // One that another server has stored may not be known yet.
            let told = popped.messages[0].offset as usize;
            let newest = if self.several { told.clamp(cursor.next, visible - 1) } else { visible - 1 };
            if newest > cursor.next {
                // What it replaces is passed over, and with it what was held against it.
                cursor = Cursor { next: newest, ..Cursor::default() };
            }
            most = 1;
        }
        let count = popped.messages.len();
        ensure!(
            count == most || (self.may_give_less(request) && (1..most).contains(&count)),
            "{count} messages are delivered, {most} expected"
        );
        for (message, got) in lane.messages[cursor.next..].iter().zip(&popped.messages) {
            let id = got.message.transaction();
            ensure!(message.id == got.message.id, "{id} is delivered, {} is next", message.transaction_id);
            ensure!(message.transaction_id == id, "{id} was pushed as {}", message.transaction_id);
            ensure!(message.payload == got.message.payload, "another payload than was pushed");
            ensure!(message.created_at == got.created_at.0, "created at {:?}", got.created_at);
        }
        ensure!(popped.messages[0].offset == cursor.next as u64, "at offset {}", popped.messages[0].offset);
        cursor.deliveries += 1;
        let told = popped.delivery_attempt;
        ensure!(told == cursor.deliveries, "told to be delivery {told}, is {}", cursor.deliveries);
        let end = cursor.next + count;
        cursor.rests_until = 0;
        if request.auto_ack {
            cursor = Cursor { next: end, ..Cursor::default() };
        } else {
            let (id, until) = answer.lease_id.zip(answer.lease_expires_at).expect("checked before");
            cursor.lease = Some(Held { id, until: until.0, end });
        }
        let queue = self.queues.get_mut(&*popped.queue).expect("found before");
        queue.lanes[at].cursors.insert(request.group.to_string(), cursor);
        Ok(count)
    }
}

impl Naive {
    /// Whether a lane may give less than there is room for: another server knows of more, or the room was meant for lanes
    /// whose messages turned out to be hidden.
    fn may_give_less(&self, request: &PopRequest) -> bool {
        let one = matches!(request.target, PopTarget::Lane { .. });
        let hides = |queue: &Queue| queue.options.delayed_processing > 0 || queue.options.window_buffer > 0;
        let hidden = self.queues.iter().any(|(name, queue)| wants(request, name, queue) && hides(queue));
        self.several || (hidden && !one)
    }
}

fn wants(request: &PopRequest, name: &str, queue: &Queue) -> bool {
    match &request.target {
        PopTarget::Lane { queue, .. } | PopTarget::Queue { queue } => **queue == *name,
        PopTarget::Filter { namespace, task } => {
            namespace.as_ref().is_none_or(|wanted| **wanted == *queue.namespace)
                && task.as_ref().is_none_or(|wanted| **wanted == *queue.task)
        }
    }
}
