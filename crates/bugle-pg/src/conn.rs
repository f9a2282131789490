//! A connection for one caller: single statements, pipelines, and whole transactions in one round trip.
//!
//! The driver sends a statement when its future is first polled and matches answers in order. Polling a list of
//! futures in order therefore sends `BEGIN … COMMIT` without waiting in between. If any part fails, the server has
//! rolled back by the time it reads `COMMIT`.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::{Duration, Instant};

use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{sleep, timeout};
use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};

use crate::error::{PgError, PgErrorKind};
use crate::pool::{Link, Shared};
use crate::statement::{Statement, Step};
use crate::timeline::{Identity, Place};

/// Ask for the database's time along with a transaction when the last answer is older than this.
const CLOCK_FRESH: Duration = Duration::from_secs(1);

/// An answer that takes longer is reason to see whether the database went on elsewhere, and again after each such time.
const SLOW: Duration = Duration::from_secs(2);

/// Beyond the server's own timeout, how long to wait for its answer before giving the connection up.
const GRACE: Duration = Duration::from_secs(5);

/// How a transaction begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Begin {
    /// Read and write, each statement seeing what was committed before it.
    #[default]
    Write,
    /// Read only, all statements seeing the same moment.
    Snapshot,
    /// Like `Write`, for rare large work: no limit on the time of a statement.
    Unlimited,
    /// Like `Write`, but its commit waits for no disk and no standby, see [`Conn::transaction_early`].
    Early,
}

/// A connection for the caller alone; goes back to the pool when dropped.
pub struct Conn {
    shared: Arc<Shared>,
    link: Option<Link>,
    permit: Option<OwnedSemaphorePermit>,
    /// Something is under way: a connection dropped now is closed.
    busy: bool,
    /// The transaction under way was begun without a limit on its time.
    unlimited: bool,
}

/// What is sent around the statements of one call.
#[derive(Clone, Copy, Default)]
struct Frame {
    begin: Option<Begin>,
    end: Option<&'static str>,
    /// Ask for the database's time along, if it was not asked lately.
    clock: bool,
    /// Afterwards commit something that makes all before it durable.
    flush: bool,
}

const COMMIT: Option<&str> = Some("COMMIT");

type Answers = Vec<(Result<Vec<Row>, tokio_postgres::Error>, Instant)>;
type Pending<'a> =
    Pin<Box<dyn Future<Output = (Result<Vec<Row>, tokio_postgres::Error>, Instant)> + Send + 'a>>;

impl Conn {
    pub(crate) fn new(shared: Arc<Shared>, link: Link, permit: OwnedSemaphorePermit) -> Self {
        Self { shared, link: Some(link), permit: Some(permit), busy: false, unlimited: false }
    }

    fn link(&mut self) -> &mut Link {
        self.link.as_mut().expect("a connection is present until dropped")
    }

    /// See [`crate::Pool::timeline`].
    pub(crate) fn timeline(&self) -> u64 {
        self.link.as_ref().map_or(0, |link| link.timeline)
    }

    /// One statement, on its own or inside the transaction begun on this connection.
    pub async fn query(
        &mut self,
        statement: &Statement,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, PgError> {
        Ok(self.pipeline(&[Step::new(statement, params)]).await?.pop().unwrap_or_default())
    }

    /// Several statements in one round trip, each on its own or all inside the transaction begun here.
    pub async fn pipeline(&mut self, steps: &[Step<'_>]) -> Result<Vec<Vec<Row>>, PgError> {
        let open = self.busy;
        let rows = self.send(Frame::default(), steps).await?;
        self.busy = open;
        Ok(rows)
    }

    /// A whole transaction in one round trip. An error whose `not_applied` is set left no trace.
    pub async fn transaction(&mut self, steps: &[Step<'_>]) -> Result<Vec<Vec<Row>>, PgError> {
        self.transaction_as(Begin::Write, steps).await
    }

    /// The same, begun in another way.
    pub async fn transaction_as(
        &mut self,
        begin: Begin,
        steps: &[Step<'_>],
    ) -> Result<Vec<Vec<Row>>, PgError> {
        let frame = Frame { begin: Some(begin), end: COMMIT, clock: true, ..Frame::default() };
        let rows = self.send(frame, steps).await?;
        self.ended();
        Ok(rows)
    }

    /// One statement that changes something and is a whole transaction by itself: no BEGIN and no COMMIT is sent, read and
    /// answered beside it.
    pub async fn change(&mut self, step: Step<'_>) -> Result<Vec<Row>, PgError> {
        // Behind a pooler its limits of time must be set inside a transaction.
        let pooled = self.shared.options.pooled;
        let (begin, end) = (pooled.then_some(Begin::Write), COMMIT.filter(|_| pooled));
        let rows = self.send(Frame { begin, end, clock: true, ..Frame::default() }, &[step]).await?;
        self.ended();
        Ok(rows.into_iter().next().unwrap_or_default())
    }

    /// Like [`Conn::transaction`], but locks are let go of, and others see the change, before it is durable. It is durable when this
    /// returns, by a second commit in the same round trip; an error of that one leaves doubt.
    pub async fn transaction_early(&mut self, steps: &[Step<'_>]) -> Result<Vec<Vec<Row>>, PgError> {
        let rows = self
            .send(Frame { begin: Some(Begin::Early), end: COMMIT, clock: true, flush: true }, steps)
            .await?;
        self.ended();
        Ok(rows)
    }

    /// The same for a statement that is a transaction by itself, as [`Conn::change`]. The statement itself must switch
    /// `synchronous_commit` off for its transaction, or it is durable before its locks go.
    pub async fn change_early(&mut self, step: Step<'_>) -> Result<Vec<Row>, PgError> {
        let rows = self.send(Frame { clock: true, flush: true, ..Frame::default() }, &[step]).await?;
        self.ended();
        Ok(rows.into_iter().next().unwrap_or_default())
    }

    /// Commit something that makes everything durable that was committed before, whoever did.
    pub async fn flush(&mut self) -> Result<(), PgError> {
        let shared = Arc::clone(&self.shared);
        self.change(Step::new(&shared.flush_statement, &[])).await.map(drop)
    }

    /// Whether the database can do [`Conn::flush`], and this user may. Nothing is committed.
    pub async fn can_flush(&mut self) -> Result<bool, PgError> {
        let shared = Arc::clone(&self.shared);
        match self.begin(Begin::Write, &[Step::new(&shared.flush_statement, &[])]).await {
            Ok(_) => self.rollback().await.map(|()| true),
            Err(error) if error.kind() == PgErrorKind::Refused => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Begin a transaction and run its first statements in one round trip. End it with [`Conn::commit`] or
    /// [`Conn::rollback`]; a connection dropped before is closed.
    pub async fn begin(&mut self, begin: Begin, steps: &[Step<'_>]) -> Result<Vec<Vec<Row>>, PgError> {
        self.send(Frame { begin: Some(begin), clock: true, ..Frame::default() }, steps).await
    }

    /// Run the last statements of a transaction and commit it.
    pub async fn commit(&mut self, steps: &[Step<'_>]) -> Result<Vec<Vec<Row>>, PgError> {
        let rows = self.send(Frame { end: COMMIT, ..Frame::default() }, steps).await?;
        self.ended();
        Ok(rows)
    }

    /// Give a transaction up.
    pub async fn rollback(&mut self) -> Result<(), PgError> {
        self.send(Frame { end: Some("ROLLBACK"), ..Frame::default() }, &[]).await?;
        self.ended();
        Ok(())
    }

    /// SQL without parameters, several statements if need be; for migrations.
    pub async fn execute_batch(&mut self, sql: &str) -> Result<(), PgError> {
        let open = std::mem::replace(&mut self.busy, true);
        self.link().client.batch_execute(sql).await?;
        self.busy = open;
        Ok(())
    }

    /// Ask for the database's time, and learn it.
    pub async fn ping(&mut self) -> Result<(), PgError> {
        let shared = Arc::clone(&self.shared);
        let (before, sent) = (shared.timelines.known(), Instant::now());
        let rows = self.query(shared.clock_statement(), &[]).await?;
        self.learn(before, sent, &rows, Instant::now())
    }

    fn ended(&mut self) {
        (self.busy, self.unlimited) = (false, false);
    }

    async fn prepare(&mut self, steps: &[Step<'_>]) -> Result<(), PgError> {
        let link = self.link();
        for step in steps {
            if !link.prepared.contains_key(&step.statement.id) {
                let made = link.client.prepare_typed(&step.statement.sql, step.statement.types).await?;
                link.prepared.insert(step.statement.id, made);
            }
        }
        Ok(())
    }

    /// Send everything, then collect the answers. On success `busy` is left set; the callers know what was ended.
    async fn send(&mut self, frame: Frame, steps: &[Step<'_>]) -> Result<Vec<Vec<Row>>, PgError> {
        let Frame { begin, end, clock, flush } = frame;
        let shared = Arc::clone(&self.shared);
        let in_transaction = self.busy;
        self.busy = true;
        let wants_clock = clock && shared.clock.age().is_none_or(|age| age > CLOCK_FRESH);
        let mut all = Vec::with_capacity(steps.len() + 1);
        if wants_clock {
            all.push(Step::new(shared.clock_statement(), &[]));
        }
        all.extend_from_slice(steps);
        let own = all.len();
        if flush {
            all.push(Step::new(&shared.flush_statement, &[]));
        }
        if !shared.options.pooled
            && let Err(error) = self.prepare(&all).await
        {
            self.busy = in_transaction || error.breaks_connection();
            return Err(error.harmless());
        }
        if let Some(begin) = begin {
            self.unlimited = begin == Begin::Unlimited;
        }
        let limit = (!self.unlimited).then(|| shared.options.statement_timeout + GRACE);
        let (before, sent) = (shared.timelines.known(), Instant::now());
        let opening = begin.map(|b| begin_sql(b, &shared));
        let timeline = self.timeline();
        let (steps, after) = all.split_at(own);
        let running =
            in_order(pending(self.link(), shared.options.pooled, opening.as_deref(), steps, end, after));
        let mut answers = match limit {
            None => running.await,
            Some(limit) => answered(running, &shared, timeline, limit).await?,
        };
        let flushed = if flush { answers.pop() } else { None };
        let rows = self.judge(answers, begin.is_some(), end, in_transaction)?;
        if let Some((Err(error), _)) = flushed {
            // The change is made, and will be durable soon unless the database fails: `busy` stays set.
            shared.troubled();
            return Err(PgError::from(error).in_doubt());
        }
        let mut rows = rows.into_iter();
        if wants_clock && let Some((first, received)) = rows.next() {
            self.learn(before, sent, &first, received)?;
        }
        self.still_there()?;
        Ok(rows.map(|(rows, _)| rows).collect())
    }

    /// After a success: is it one for the database as it goes on?
    fn still_there(&mut self) -> Result<(), PgError> {
        let now = self.shared.timelines.count();
        let link = self.link();
        let reason = if link.unreplicated.load(Ordering::Acquire) {
            "the database stopped waiting for its standby: the change may be lost with the server"
        } else if link.timeline != now {
            "the database went on on another timeline, on which this may not have happened"
        } else {
            return Ok(());
        };
        self.shared.troubled();
        Err(PgError::new(PgErrorKind::Broken, reason).in_doubt())
    }

    /// Use what the server told of itself.
    fn learn(
        &mut self,
        before: Option<Place>,
        sent: Instant,
        rows: &[Row],
        received: Instant,
    ) -> Result<(), PgError> {
        let identity = rows.first().map(Identity::read).transpose()?;
        let identity =
            identity.ok_or_else(|| PgError::new(PgErrorKind::Unexpected, "the database told no time"))?;
        let noted = self.shared.note(before, &identity, sent, received);
        if !matches!(noted, Ok(count) if count == self.timeline()) {
            self.busy = true;
        }
        noted.map(drop).map_err(PgError::in_doubt)
    }

    /// Turn the answers into rows, or into the first error and what it means.
    fn judge(
        &mut self,
        answers: Answers,
        began: bool,
        end: Option<&str>,
        in_transaction: bool,
    ) -> Result<Vec<(Vec<Row>, Instant)>, PgError> {
        let skip = usize::from(began);
        let last = answers.len().saturating_sub(1);
        let mut rows = Vec::with_capacity(answers.len());
        let mut failed: Option<PgError> = None;
        let mut broken = false;
        // Statements that stand alone happen or do not, each for itself.
        let (alone, several) = (!began && !in_transaction, answers.len() > 1);
        for (at, (answer, received)) in answers.into_iter().enumerate() {
            match answer {
                Ok(found) if at >= skip && (end.is_none() || at < last) => rows.push((found, received)),
                Ok(_) => {}
                Err(error) => {
                    let error = PgError::from(error);
                    broken |= error.breaks_connection();
                    // A statement that the server refused means that its transaction was rolled back. A connection
                    // that broke leaves doubt once COMMIT was sent, and for a statement that stood alone.
                    // Without its BEGIN the rest was not one transaction: nothing is certain then.
                    let never_began = began && at == 0;
                    let undone = match end {
                        Some(_) => at < last && error.code().is_some(),
                        None => !alone,
                    };
                    broken |= never_began;
                    let error = match undone {
                        _ if never_began || alone && several && end.is_none() => error.in_doubt(),
                        true => error.harmless(),
                        false => error,
                    };
                    failed.get_or_insert(error);
                }
            }
        }
        match failed {
            None => Ok(rows),
            Some(error) => {
                if broken {
                    self.shared.troubled();
                }
                // Without an end the transaction is still open and aborted: let the connection go.
                self.busy = broken || (end.is_none() && (began || in_transaction));
                Err(error)
            }
        }
    }
}

impl Drop for Conn {
    fn drop(&mut self) {
        if let (Some(link), Some(permit)) = (self.link.take(), self.permit.take())
            && !self.busy
        {
            self.shared.give_back(link, permit);
        }
    }
}

fn begin_sql(begin: Begin, shared: &Shared) -> String {
    let mut sql = match begin {
        Begin::Snapshot => "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
        Begin::Write | Begin::Unlimited => "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE",
        Begin::Early => "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SET LOCAL synchronous_commit = off",
    }
    .to_owned();
    if begin == Begin::Unlimited {
        sql.push_str("; SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = 0");
    } else if shared.options.pooled {
        // Session settings would leak to whoever gets the server connection next.
        sql.push_str(&format!(
            "; SET LOCAL statement_timeout = {}; SET LOCAL lock_timeout = {}",
            shared.options.statement_timeout.as_millis(),
            shared.options.lock_timeout.as_millis()
        ));
    }
    sql
}

/// Wait for the answers, and when they are long in coming for the news that they no longer count.
async fn answered(
    running: impl Future<Output = Answers>,
    shared: &Arc<Shared>,
    timeline: u64,
    limit: Duration,
) -> Result<Answers, PgError> {
    let mut running = pin!(running);
    if let Ok(answers) = timeout(SLOW.min(limit), running.as_mut()).await {
        return Ok(answers);
    }
    let given_up = sleep(limit.saturating_sub(SLOW));
    let mut given_up = pin!(given_up);
    let mut changes = shared.timelines.watch();
    while shared.timelines.count() == timeline {
        shared.look_around();
        tokio::select! {
            answers = running.as_mut() => return Ok(answers),
            _ = changes.changed() => {}
            () = sleep(SLOW) => {}
            () = given_up.as_mut() => {
                return Err(PgError::new(PgErrorKind::Timeout, "the database gave no answer in time").in_doubt());
            }
        }
    }
    let reason = "the database went on on another timeline before it answered";
    Err(PgError::new(PgErrorKind::Broken, reason).in_doubt())
}

fn pending<'a>(
    link: &'a Link,
    pooled: bool,
    opening: Option<&'a str>,
    steps: &'a [Step<'a>],
    end: Option<&'a str>,
    after: &'a [Step<'a>],
) -> Vec<Pending<'a>> {
    let client = &link.client;
    let plain = |sql: &'a str| -> Pending<'a> {
        Box::pin(async move { (client.batch_execute(sql).await.map(|()| Vec::new()), Instant::now()) })
    };
    let run = |step: &'a Step<'a>| -> Pending<'a> {
        if pooled {
            let typed: Vec<(&(dyn ToSql + Sync), Type)> =
                step.params.iter().copied().zip(step.statement.types.iter().cloned()).collect();
            Box::pin(async move { (client.query_typed(&step.statement.sql, &typed).await, Instant::now()) })
        } else {
            let prepared = &link.prepared[&step.statement.id];
            Box::pin(async move { (client.query(prepared, &step.params).await, Instant::now()) })
        }
    };
    let mut all: Vec<Pending<'a>> = Vec::with_capacity(steps.len() + after.len() + 2);
    all.extend(opening.map(plain));
    all.extend(steps.iter().map(run));
    all.extend(end.map(plain));
    all.extend(after.iter().map(run));
    all
}

/// Drive futures together, always polling them in order, so that what they send is sent in order.
async fn in_order<T>(mut futures: Vec<Pin<Box<dyn Future<Output = T> + Send + '_>>>) -> Vec<T> {
    let mut done: Vec<Option<T>> = futures.iter().map(|_| None).collect();
    poll_fn(|cx| {
        let mut waiting = false;
        for (future, slot) in futures.iter_mut().zip(done.iter_mut()) {
            if slot.is_none() {
                match future.as_mut().poll(cx) {
                    Poll::Ready(value) => *slot = Some(value),
                    Poll::Pending => waiting = true,
                }
            }
        }
        if waiting { Poll::Pending } else { Poll::Ready(()) }
    })
    .await;
    done.into_iter().flatten().collect()
}
