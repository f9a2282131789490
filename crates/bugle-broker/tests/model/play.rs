//! A case on its way: every operation is sent to a broker, and its answer is given to the model to be judged.

use std::sync::Arc;
use std::time::Duration;

use bugle_broker::{
    AckItem, AckStatus, Broker, Configure, LeaseToken, LetterQuery, Operation, PopAnswer, PopRequest,
    PopTarget, PushItem, SeekTo,
};
use bugle_store::{Group, LaneId, LeaseId, Page, QUEUE_MODE, Timestamp};

use crate::naive::{Check, Dead, Naive};
use crate::op::{Acks, From, Id, Item, Lease, Of, Op, Pop, Start, Step, To};
use crate::rig::Rig;

/// So close to a time at which something changes by itself, brokers need not agree with the model: leases are taken over a
/// few milliseconds after their end. Nothing is asked then.
const TURNING: i64 = 12_000;
/// How long a pop waits that finds nothing.
const WAIT: Duration = Duration::from_millis(5);
/// An answer that takes longer than this does not come. By the system's clock.
const PATIENCE: Duration = Duration::from_secs(30);

/// Messages that one pop was given.
struct Delivery {
    group: Group,
    lease: Option<LeaseId>,
    messages: Vec<(LaneId, String)>,
}

pub(crate) struct Play<'r> {
    rig: &'r Rig,
    brokers: Vec<Broker>,
    /// Brokers have next to no memory.
    tight: bool,
    model: Naive,
    /// Begins the names of everything in this case.
    prefix: String,
    deliveries: Vec<Delivery>,
    /// All that was pushed.
    pushed: Vec<(LaneId, String)>,
    /// Own ids given so far.
    ids: usize,
}

impl<'r> Play<'r> {
    pub(crate) async fn new(rig: &'r Rig, prefix: String, tight: bool) -> Self {
        let mut brokers = Vec::new();
        for _ in 0..rig.servers() {
            brokers.push(rig.broker(tight).await);
        }
        let model = Naive::new(rig.servers() > 1);
        Self { rig, brokers, tight, model, prefix, deliveries: Vec::new(), pushed: Vec::new(), ids: 0 }
    }

    /// All steps, and what is left in the end. The error names the step.
    pub(crate) async fn run(&mut self, steps: &[Step]) -> Check {
        for (i, step) in steps.iter().enumerate() {
            self.tick(Duration::from_millis(1)).await;
            let at = self.model.now;
            self.step(step).await.map_err(|wrong| format!("step {i} at {at}: {step:?}\n{wrong}"))?;
        }
        self.drain().await.map_err(|wrong| format!("when drained: {wrong}"))?;
        self.compare_letters().await.map_err(|wrong| format!("in the end: {wrong}"))?;
        for broker in &self.brokers {
            broker.shutdown().await;
        }
        Ok(())
    }

    /// Whatever is left is delivered when every lease, delay and rest is over.
    async fn drain(&mut self) -> Check {
        self.tick(Duration::from_secs(7200)).await;
        for (queue, group) in self.model.readers() {
            let all = Pop { batch: Some(1000), partitions: Some(10), auto_ack: true, ..Pop::default() };
            let mut request = self.pop_request(&all);
            request.target = PopTarget::Queue { queue: queue.as_str().into() };
            request.group = group.as_str().into();
            loop {
                let answer = self.brokers[0].pop(request.clone()).await.map_err(|e| e.to_string())?;
                self.model.pop(&request, &answer)?;
                if answer.lanes.is_empty() {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Move the clock, and away from times at which something changes by itself.
    async fn tick(&mut self, by: Duration) {
        let mut to = self.rig.now() + by.as_micros() as i64;
        self.model.now = to;
        let points = self.model.turning_points();
        while let Some(point) = points.iter().find(|point| (to - **point).abs() < TURNING) {
            to = point + TURNING;
        }
        self.rig.advance(Duration::from_micros((to - self.rig.now()).unsigned_abs())).await;
        self.model.now = self.rig.now();
    }

    async fn step(&mut self, step: &Step) -> Check {
        let broker = self.brokers[step.server % self.brokers.len()].clone();
        match &step.op {
            Op::Push(items) => {
                let items: Vec<PushItem> = items.iter().map(|item| self.item(item)).collect();
                let answer = broker.push(items.clone()).await.map_err(|e| e.to_string())?;
                self.model.push(&items, &answer)?;
                let pushed = answer.into_iter().map(|p| (p.lane, text(&p.transaction_id)));
                self.pushed.extend(pushed);
            }
            Op::Pop(pop) => self.pop(broker, pop).await?,
            Op::Ack(acks) => {
                let Some(items) = self.acks(acks) else { return Ok(()) };
                let answer = broker.ack(items.clone()).await.map_err(|e| e.to_string())?;
                self.model.ack(&items, &answer)?;
            }
            Op::Transact(acks, items) => self.transact(&broker, acks.as_ref(), items).await?,
            Op::Renew { delivery, seconds } => {
                let Some(lease) = self.delivery(*delivery).and_then(|d| d.lease) else { return Ok(()) };
                let answer =
                    broker.renew(LeaseToken::Id(lease), *seconds).await.map_err(|e| e.to_string())?;
                self.model.renew(lease, *seconds, &answer)?;
            }
            Op::Advance(millis) => self.tick(Duration::from_millis(*millis)).await,
            Op::Restart => self.restart(step.server).await,
            op => self.administer(step.server, op).await?,
        }
        Ok(())
    }

    /// What changes the catalog. Other servers hear of that by hints, which these do not have: they start anew.
    async fn administer(&mut self, server: usize, op: &Op) -> Check {
        self.restart(server).await;
        let broker = self.brokers[server % self.brokers.len()].clone();
        match op {
            Op::Seek { queue, partition, group, to } => {
                let (queue, group) = (self.queue(*queue), group_name(*group));
                let partition = partition.map(partition_name);
                let to = match to {
                    To::Beginning => SeekTo::Beginning,
                    To::End => SeekTo::End,
                    To::Ago(millis) => SeekTo::Time(Timestamp(self.model.now - millis * 1000)),
                };
                let answer = broker.seek(&queue, &group, partition.as_deref(), to).await;
                self.model.seek((&queue, partition.as_deref(), &group), to, &answer)?;
            }
            Op::DeleteGroup { queue, group, metadata } => {
                let (queue, group) = (self.queue(*queue), group_name(*group));
                let answer = broker.delete_group(&group, Some(&queue), *metadata).await;
                self.model.delete_group(&queue, &group, *metadata, &answer)?;
            }
            Op::Configure { queue, options, replace, namespace } => {
                let name = self.queue(*queue);
                let request = Configure {
                    namespace: namespace.then(|| self.prefix.clone()),
                    task: namespace.then(|| self.task(*queue)),
                    queue: name,
                    options: options.as_object().cloned().unwrap_or_default(),
                    replace: *replace,
                };
                let answer = broker.configure(request.clone()).await.map_err(|e| e.to_string())?;
                self.model.configure(&request, &answer)?;
            }
            Op::DeleteQueue(queue) => {
                self.compare_letters().await?;
                let queue = self.queue(*queue);
                let existed = broker.delete_queue(&queue).await.map_err(|e| e.to_string())?;
                self.model.delete_queue(&queue, existed)?;
            }
            other => return Err(format!("{other:?} is no change of the catalog")),
        }
        if self.brokers.len() > 1 {
            self.restart(server + 1).await;
        }
        Ok(())
    }

    async fn restart(&mut self, server: usize) {
        let place = server % self.brokers.len();
        self.brokers[place].shutdown().await;
        self.brokers[place] = self.rig.broker(self.tight).await;
    }

    async fn pop(&mut self, broker: Broker, pop: &Pop) -> Check {
        let mut broker = broker;
        if matches!(pop.from, From::Namespace | From::Task(_)) && self.brokers.len() > 1 {
            // Which queues there are is another thing that servers tell each other by hints.
            broker = self.rig.broker(self.tight).await;
        }
        let mut request = self.pop_request(pop);
        let ready = self.model.has_messages(&request);
        request.wait = pop.wait.then_some(WAIT);
        let request = Arc::new(request);
        let answer = if pop.wait && !ready {
            self.wait_in_vain(&broker, &request).await?
        } else {
            broker.pop(request.clone()).await.map_err(|e| e.to_string())?
        };
        self.model.pop(&request, &answer)?;
        if !answer.lanes.is_empty() {
            let lanes = answer.lanes.iter().flat_map(|lane| lane.messages.iter().map(|m| (lane.lane, m)));
            let messages = lanes.map(|(lane, m)| (lane, m.message.transaction().to_owned())).collect();
            self.deliveries.push(Delivery { group: request.group.clone(), lease: answer.lease_id, messages });
        }
        Ok(())
    }

    /// A pop that waits, and the time it waits for.
    async fn wait_in_vain(
        &mut self,
        broker: &Broker,
        request: &Arc<PopRequest>,
    ) -> Result<PopAnswer, String> {
        let waiting = tokio::spawn({
            let (broker, request) = (broker.clone(), request.clone());
            async move { broker.pop(request).await }
        });
        let patience = std::time::Instant::now() + PATIENCE;
        let started = self.rig.now();
        while !waiting.is_finished() {
            if self.rig.now() - started < 2 * WAIT.as_micros() as i64 {
                self.rig.advance(Duration::from_millis(1)).await;
            } else if std::time::Instant::now() < patience {
                tokio::task::yield_now().await;
            } else {
                return Err("a waiting pop is not answered".to_owned());
            }
        }
        let answer = waiting.await.map_err(|e| e.to_string())?;
        answer.map_err(|e| e.to_string())
    }

    async fn transact(&mut self, broker: &Broker, acks: Option<&Acks>, items: &[Item]) -> Check {
        let acked = acks.and_then(|acks| self.acks(acks)).unwrap_or_default();
        let mut operations: Vec<Operation> =
            items.iter().map(|item| Operation::Push(self.item(item))).collect();
        // A lease may be named once for all.
        let lease = acked.first().and_then(|ack| ack.lease);
        let required = lease.filter(|_| operations.len() == 1).into_iter().collect::<Vec<_>>();
        for mut ack in acked {
            if !required.is_empty() {
                ack.lease = None;
            }
            operations.push(Operation::Ack(ack));
        }
        if operations.is_empty() {
            return Ok(());
        }
        let answer =
            broker.transact(operations.clone(), required.clone()).await.map_err(|e| e.to_string())?;
        self.model.transact(&operations, &required, &answer)?;
        for result in answer.results {
            if let bugle_broker::OperationResult::Push(pushed, _) = result {
                self.pushed.push((pushed.lane, text(&pushed.transaction_id)));
            }
        }
        Ok(())
    }

    /// Dead letters are listed as the model has them.
    async fn compare_letters(&mut self) -> Check {
        let broker = self.rig.broker(self.tight).await;
        let names: Vec<String> = self.model.queues.keys().cloned().collect();
        for name in names {
            let query = LetterQuery { queue: Some(name.as_str().into()), ..LetterQuery::default() };
            let page = Page { offset: 0, limit: 10_000 };
            let (letters, total) = broker.dead_letters(&query, page).await.map_err(|e| e.to_string())?;
            let mut told: Vec<Dead> = letters
                .iter()
                .map(|letter| Dead {
                    partition: letter.letter.partition.to_string(),
                    group: letter.letter.group.to_string(),
                    offset: letter.letter.offset,
                    transaction_id: letter.letter.transaction_id.clone(),
                    error: letter.letter.error.clone(),
                    failures: letter.letter.attempts,
                })
                .collect();
            let mut expected = self.model.queues[&name].dead.clone();
            told.sort();
            expected.sort();
            if told != expected || total != expected.len() as u64 {
                return Err(format!("dead letters of {name}: {told:?} of {total}, expected {expected:?}"));
            }
        }
        broker.shutdown().await;
        Ok(())
    }

    fn queue(&self, number: usize) -> Arc<str> {
        format!("{}.{}", self.prefix, self.task(number)).into()
    }

    fn task(&self, number: usize) -> String {
        format!("{}-{number}", self.prefix)
    }

    fn item(&mut self, item: &Item) -> PushItem {
        self.ids += 1;
        let id = match item.id {
            Id::Often(n) => Some(format!("often-{n}")),
            Id::Own => Some(format!("own-{}", self.ids)),
            Id::Minted => None,
        };
        PushItem {
            queue: self.queue(item.queue),
            partition: partition_name(item.partition).into(),
            transaction_id: id.map(Into::into),
            trace_id: None,
            producer_sub: None,
            context: None,
            // Some are long enough to be compressed.
            payload: format!("{:<1$}", self.ids, if self.ids.is_multiple_of(3) { 1200 } else { 0 }).into(),
        }
    }

    fn pop_request(&self, pop: &Pop) -> PopRequest {
        let namespace = || Some(self.prefix.as_str().into());
        let target = match pop.from {
            From::Lane(queue, partition) => {
                PopTarget::Lane { queue: self.queue(queue), partition: partition_name(partition).into() }
            }
            From::Queue(queue) => PopTarget::Queue { queue: self.queue(queue) },
            From::Namespace => PopTarget::Filter { namespace: namespace(), task: None },
            From::Task(queue) => PopTarget::Filter { namespace: None, task: Some(self.task(queue).into()) },
        };
        let (subscription_mode, subscription_from) = match pop.start {
            Start::Unsaid => (None, None),
            Start::Mode(mode) => (Some(mode.to_owned()), None),
            Start::Now => (None, Some("now".to_owned())),
            Start::Ago(millis) => {
                let time = jiff::Timestamp::from_microsecond(self.model.now - millis * 1000);
                (None, time.ok().map(|time| time.to_string()))
            }
        };
        PopRequest {
            target,
            group: group_name(pop.group),
            wait: None,
            batch: pop.batch,
            partitions: pop.partitions,
            auto_ack: pop.auto_ack,
            lease_seconds: pop.lease_seconds,
            subscription_mode,
            subscription_from,
            conflation: pop.conflation,
            autopilot: false,
            consumer: None,
        }
    }

    /// A delivery, counted back from the last.
    fn delivery(&self, back: usize) -> Option<&Delivery> {
        self.deliveries.iter().rev().nth(back % self.deliveries.len().max(1))
    }

    fn acks(&self, acks: &Acks) -> Option<Vec<AckItem>> {
        let delivery = self.delivery(acks.delivery)?;
        let lease = match acks.lease {
            Lease::Own => delivery.lease.map(LeaseToken::Id),
            Lease::Unsaid => None,
            Lease::Other(back) => self.delivery(back).and_then(|other| other.lease).map(LeaseToken::Id),
            Lease::Garbage => Some(LeaseToken::Garbage),
        };
        let group = if acks.foreign { group_name(3) } else { delivery.group.clone() };
        let pick = |from: &[(LaneId, String)], some: &[(usize, AckStatus)]| -> Vec<_> {
            some.iter().map(|(at, status)| (from[at % from.len()].clone(), *status)).collect()
        };
        let chosen: Vec<((LaneId, String), AckStatus)> = match &acks.of {
            Of::All(status) => delivery.messages.iter().map(|m| (m.clone(), *status)).collect(),
            Of::Some(some) => pick(&delivery.messages, some),
            Of::Any(some) => pick(&self.pushed, some),
        };
        let item = |((lane, id), status): ((LaneId, String), AckStatus)| AckItem {
            error: (id.len() % 2 == 0).then(|| format!("{id} is bad")),
            transaction_id: id,
            lane: Some(lane),
            status,
            group: group.clone(),
            lease,
        };
        let meant = chosen.into_iter().filter(|((lane, id), _)| !self.model.ambiguous(*lane, id));
        Some(meant.map(item).collect())
    }
}

fn group_name(number: usize) -> Group {
    [QUEUE_MODE, "readers", "writers", "others"][number % 4].into()
}

fn partition_name(number: usize) -> String {
    format!("p{number}")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
