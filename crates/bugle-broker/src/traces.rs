//! Traces: events that consumers record for messages, found by message or by name. They never affect delivery.

use std::collections::HashMap;
use std::sync::Arc;

use uuid::Uuid;

use bugle_store::{LaneId, Load, Page, QUEUE_MODE, QueueId, Trace, TraceFilter, TraceName};

use crate::ack::Sought;
use crate::api::{NewTrace, Refused, TraceView};
use crate::inner::Inner;
use crate::lanes::LaneState;
use crate::meters::WakeSource;

impl Inner {
    /// See [`crate::Broker::record_trace`].
    pub(crate) async fn record_trace(self: &Arc<Self>, new: NewTrace) -> Result<Option<Uuid>, Refused> {
        let Some(queue) = self.queue_of(new.lane, &new.transaction_id).await? else { return Ok(None) };
        let trace = Trace {
            id: Uuid::now_v7(),
            queue,
            lane: new.lane,
            transaction_id: new.transaction_id,
            event_type: new.event_type,
            data: new.data,
            group: new.group,
            names: new.names,
            worker: None,
            created_at: self.engine.now().latest,
        };
        let id = trace.id;
        self.watch(self.engine.put_trace(trace).await)?;
        Ok(Some(id))
    }

    /// The queue of a message that is kept, alive or dead.
    async fn queue_of(
        self: &Arc<Self>,
        lane: LaneId,
        transaction_id: &str,
    ) -> Result<Option<QueueId>, Refused> {
        if let Some(state) = self.stored_lanes(&[lane]).await?.pop() {
            let (queue, tail) = (state.queue, state.bounds().1);
            let sought = Sought { lane: state, cursor: None, ids: vec![transaction_id.to_owned()] };
            let located = self.locate(vec![sought]).await?.pop().unwrap_or_default();
            if located.offset(transaction_id).is_some_and(|at| at >= tail) {
                return Ok(Some(queue));
            }
        }
        let letter = self.letters_of(lane, transaction_id, None, 1).await?.pop();
        Ok(letter.map(|letter| letter.queue))
    }

    /// Those of these lanes that exist, as the store sees them now.
    pub(crate) async fn stored_lanes(
        self: &Arc<Self>,
        lanes: &[LaneId],
    ) -> Result<Vec<Arc<LaneState>>, Refused> {
        let batch = lanes.iter().map(|lane| Load::Lane(*lane, QUEUE_MODE.into())).collect();
        let found = self.watch(self.engine.load(batch).await)?;
        Ok(found.into_iter().flatten().map(|found| self.learn_lane(&found.lane, WakeSource::Local)).collect())
    }

    /// See [`crate::Broker::traces_of`].
    pub(crate) async fn traces_of(
        self: &Arc<Self>,
        lane: LaneId,
        transaction_id: String,
        page: Page,
    ) -> Result<(Vec<Trace>, u64), Refused> {
        self.watch(self.engine.traces(TraceFilter::Message(lane, transaction_id), page).await)
    }

    /// See [`crate::Broker::traces_named`].
    pub(crate) async fn traces_named(
        self: &Arc<Self>,
        name: String,
        page: Page,
    ) -> Result<(Vec<TraceView>, u64), Refused> {
        let (traces, total) = self.watch(self.engine.traces(TraceFilter::Name(name), page).await)?;
        let mut ids: HashMap<LaneId, Vec<String>> = HashMap::new();
        for trace in &traces {
            ids.entry(trace.lane).or_default().push(trace.transaction_id.clone());
        }
        let wanted: Vec<LaneId> = ids.keys().copied().collect();
        let lanes = self.stored_lanes(&wanted).await?;
        let sought = lanes.iter().map(|lane| {
            let ids = ids.remove(&lane.id).unwrap_or_default();
            Sought { lane: lane.clone(), cursor: None, ids }
        });
        let located = self.locate(sought.collect()).await?;
        let places: HashMap<LaneId, usize> = lanes.iter().enumerate().map(|(i, lane)| (lane.id, i)).collect();
        let names = self.queue_names(traces.iter().map(|trace| trace.queue)).await;
        let mut views = Vec::with_capacity(traces.len());
        for trace in traces {
            let place = places.get(&trace.lane).copied();
            let payload = place.and_then(|i| {
                let at = located[i].offset(&trace.transaction_id)?;
                let mut message = located[i].message(at)?.0.clone();
                self.open_payload(trace.lane, &mut message);
                Some(message.payload)
            });
            views.push(TraceView {
                queue: names.get(&trace.queue).cloned().unwrap_or_else(|| "".into()),
                partition: place.map(|i| lanes[i].name.clone()),
                payload,
                trace,
            });
        }
        Ok((views, total))
    }

    /// See [`crate::Broker::trace_names`].
    pub(crate) async fn trace_names(&self, page: Page) -> Result<(Vec<TraceName>, u64), Refused> {
        self.watch(self.engine.trace_names(page).await)
    }
}
