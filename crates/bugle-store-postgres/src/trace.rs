//! Traces: events recorded for messages, found by message or by name.

use std::borrow::Cow;

use bugle_pg::{PgError, Row, Step};
use bugle_store::{LaneId, Page, QueueId, Trace, TraceFilter, TraceName, Unavailable};

use crate::dead_letter::count;
use crate::row::{from_text, get, limit, text, time, to_text, unsigned};
use crate::store::{PostgresStore, Tries, retry, unavailable};

fn trace(row: &Row) -> Result<Trace, PgError> {
    let names: Vec<&str> = get(row, 7)?;
    let worker: Option<&str> = get(row, 8)?;
    Ok(Trace {
        id: get(row, 0)?,
        queue: QueueId(get(row, 1)?),
        lane: LaneId(get(row, 2)?),
        transaction_id: text(row, 3)?.into_owned(),
        event_type: text(row, 4)?.into_owned(),
        data: text(row, 5)?.into_owned(),
        group: text(row, 6)?.into(),
        names: names.into_iter().map(|n| from_text(n).into_owned()).collect(),
        worker: worker.map(|w| from_text(w).into_owned()),
        created_at: time(row, 9)?,
    })
}

fn trace_name(row: &Row) -> Result<TraceName, PgError> {
    Ok(TraceName {
        name: text(row, 0)?.into_owned(),
        traces: unsigned(row, 1)?,
        messages: unsigned(row, 2)?,
        last_seen: time(row, 3)?,
    })
}

impl PostgresStore {
    pub(crate) async fn record_trace(&self, trace: Trace) -> Result<(), Unavailable> {
        retry!(Tries::question(), self.record_trace_once(&trace)).map_err(unavailable)
    }

    async fn record_trace_once(&self, trace: &Trace) -> Result<(), PgError> {
        let (transaction, event) = (to_text(&trace.transaction_id), to_text(&trace.event_type));
        let (data, group) = (to_text(&trace.data), to_text(&trace.group));
        let names: Vec<Cow<'_, str>> = trace.names.iter().map(|n| to_text(n)).collect();
        let worker = trace.worker.as_deref().map(to_text);
        let insert = Step::new(
            &self.sql.trace_insert,
            &[
                &trace.id,
                &trace.queue.0,
                &trace.lane.0,
                &transaction,
                &event,
                &data,
                &group,
                &names,
                &worker,
                &trace.created_at.0,
            ],
        );
        let names = Step::new(&self.sql.trace_names_insert, &[&trace.id]);
        self.pool.get().await?.transaction(&[insert, names]).await?;
        Ok(())
    }

    pub(crate) async fn list_traces(
        &self,
        filter: TraceFilter,
        page: Page,
    ) -> Result<(Vec<Trace>, u64), Unavailable> {
        retry!(Tries::question(), self.list_traces_once(&filter, page)).map_err(unavailable)
    }

    async fn list_traces_once(&self, filter: &TraceFilter, page: Page) -> Result<(Vec<Trace>, u64), PgError> {
        let (offset, most) = (limit(page.offset), limit(page.limit));
        let mut conn = self.pool.get().await?;
        let rows = match filter {
            TraceFilter::Message(lane, transaction) => {
                let transaction = to_text(transaction);
                let list = Step::new(&self.sql.traces_by_message, &[&lane.0, &transaction, &offset, &most]);
                let count = Step::new(&self.sql.traces_by_message_count, &[&lane.0, &transaction]);
                conn.pipeline(&[list, count]).await?
            }
            TraceFilter::Name(name) => {
                let name = to_text(name);
                let list = Step::new(&self.sql.traces_by_name, &[&name, &offset, &most]);
                conn.pipeline(&[list, Step::new(&self.sql.traces_by_name_count, &[&name])]).await?
            }
        };
        Ok((rows[0].iter().map(trace).collect::<Result<_, _>>()?, count(&rows[1])?))
    }

    pub(crate) async fn list_trace_names(&self, page: Page) -> Result<(Vec<TraceName>, u64), Unavailable> {
        retry!(Tries::question(), self.list_trace_names_once(page)).map_err(unavailable)
    }

    async fn list_trace_names_once(&self, page: Page) -> Result<(Vec<TraceName>, u64), PgError> {
        let (offset, most) = (limit(page.offset), limit(page.limit));
        let steps = [
            Step::new(&self.sql.trace_names, &[&offset, &most]),
            Step::new(&self.sql.trace_names_count, &[]),
        ];
        let rows = self.pool.get().await?.pipeline(&steps).await?;
        Ok((rows[0].iter().map(trace_name).collect::<Result<_, _>>()?, count(&rows[1])?))
    }
}
