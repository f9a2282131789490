//! One client's requests, each sent once and written down, whatever becomes of it.

use std::time::Duration;

use bugle_client::{Ack, Client, Error, Lease, Message, NewMessage, PushStatus, RetryPolicy};

use crate::load::Load;
use crate::record::{Acked, Delivered, Op, Outcome, Pushed, Said, Status};
use crate::recorder::Recorder;

/// Pause after a request that failed.
const PAUSE: Duration = Duration::from_millis(50);

/// See the module.
pub(crate) struct Session {
    /// One for each server.
    clients: Vec<Client>,
    current: usize,
    recorder: Recorder,
}

/// Messages that are to be worked on.
pub(crate) struct Work {
    pub(crate) queue: String,
    pub(crate) group: String,
    pub(crate) lease: Lease,
    pub(crate) messages: Vec<Message>,
}

impl Work {
    /// What is said of the message at `index`.
    fn said(&self, index: usize, status: Status) -> Said {
        let message = &self.messages[index];
        let next = self.messages.get(index + 1);
        Said {
            queue: self.queue.clone(),
            partition: message.partition.clone(),
            offset: message.offset.unwrap_or_default(),
            status,
            last: next.is_none_or(|next| next.partition != message.partition),
        }
    }
}

impl Work {
    /// Places of those of its messages that came again in another delivery.
    pub(crate) fn shared_with(&self, later: &Work) -> Vec<usize> {
        let again = |message: &Message| {
            let is = |other: &Message| other.partition == message.partition && other.offset == message.offset;
            self.queue == later.queue && later.messages.iter().any(is)
        };
        (0..self.messages.len()).filter(|at| again(&self.messages[*at])).collect()
    }
}

impl Session {
    /// A client that begins with the server of this number.
    pub(crate) fn new(load: &Load, first: usize, recorder: Recorder) -> Result<Self, Error> {
        // Whatever is sent twice would be one request with two effects, of which one is not written down.
        let client = |url: &String| {
            let builder = Client::builder(url).retry(RetryPolicy::never());
            builder.timeout(load.timeout).connect_timeout(load.timeout).build()
        };
        let clients = load.servers.iter().map(client).collect::<Result<Vec<_>, _>>()?;
        if clients.is_empty() {
            return Err(Error::Setup("load needs a server".to_owned()));
        }
        Ok(Self { current: first % clients.len(), clients, recorder })
    }

    fn client(&self) -> Client {
        self.clients[self.current].clone()
    }

    /// After a failure the next request goes to the next server, a little later.
    async fn after(&mut self, error: Option<Error>) {
        // A server that says no is well.
        if error.is_some_and(|error| !matches!(error, Error::Rejected { .. })) {
            self.current = (self.current + 1) % self.clients.len();
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Store messages whose payloads are their ids.
    pub(crate) async fn push(&mut self, messages: Vec<Pushed>) -> Result<Outcome<()>, Error> {
        let sent = messages.iter().map(new_message).collect::<Result<Vec<_>, _>>()?;
        let begun = self.recorder.begin();
        let answer = self.client().push_all(&sent).await;
        let taken =
            |status| matches!(status, PushStatus::Queued | PushStatus::Duplicate | PushStatus::Buffered);
        let (outcome, error) = match answer {
            Ok(pushed) if pushed.iter().all(|pushed| taken(pushed.status)) => (Outcome::Done(()), None),
            Ok(_) => (Outcome::Unknown, None),
            Err(error) => (outcome_of(&error), Some(error)),
        };
        self.recorder.end(begun, Op::Push { messages, outcome });
        self.after(error).await;
        Ok(outcome)
    }

    /// Ask for messages. `None` = there are none, or nobody knows; the flag says that there are certainly none.
    pub(crate) async fn pop(&mut self, pop: &Pop<'_>) -> (Option<Work>, bool) {
        let mut request =
            self.client().pop(pop.queue).group(pop.group).batch(pop.batch).partitions(pop.partitions);
        request = match pop.lease {
            Some(lease) => request.lease(lease),
            None => request.auto_ack(),
        };
        let begun = self.recorder.begin();
        let answer = request.wait(pop.wait).send().await;
        let (outcome, work, error) = match answer {
            // Empty and without its store: it may have committed what it could not deliver.
            Ok(batch) if batch.store_unavailable && batch.messages.is_empty() && pop.lease.is_none() => {
                (Outcome::Unknown, (None, false), None)
            }
            Ok(batch) => {
                let none = batch.messages.is_empty() && !batch.store_unavailable;
                let delivered = batch.messages.iter().map(delivered).collect();
                let (queue, group) = (pop.queue.to_owned(), pop.group.to_owned());
                let messages = batch.messages;
                let work = batch.lease.map(|lease| Work { queue, group, lease, messages });
                (Outcome::Done((batch.lease.map(|lease| lease.id), delivered)), (work, none), None)
            }
            Err(error) => (outcome_of(&error), (None, false), Some(error)),
        };
        let (queue, group) = (pop.queue.to_owned(), pop.group.to_owned());
        let lease_for = pop.lease.map(|lease| lease.as_micros() as u64);
        let (batch, partitions) = (pop.batch, pop.partitions);
        self.recorder.end(begun, Op::Pop { queue, group, lease_for, batch, partitions, outcome });
        self.after(error).await;
        work
    }

    /// Say what became of messages, by their places in the work.
    pub(crate) async fn ack(&mut self, work: &Work, what: &[(usize, Status)]) {
        let acks: Vec<Ack> = what.iter().map(|(at, status)| ack(&work.messages[*at], *status)).collect();
        let said = what.iter().map(|(at, status)| work.said(*at, *status)).collect();
        let begun = self.recorder.begin();
        let answer = self.client().settle(&acks).await;
        let (outcome, error) = match answer {
            Ok(acked) => {
                let read = |acked: &bugle_client::Acked| Acked {
                    success: acked.success,
                    noop: acked.noop,
                    dlq: acked.dead_lettered,
                };
                (Outcome::Done(acked.iter().map(read).collect()), None)
            }
            Err(error) => (outcome_of(&error), Some(error)),
        };
        let (group, lease) = (work.group.clone(), work.lease.id);
        self.recorder.end(begun, Op::Ack { group, lease, said, outcome });
        self.after(error).await;
    }

    /// Make the lease longer.
    pub(crate) async fn renew(&mut self, work: &Work, length: Duration) {
        let begun = self.recorder.begin();
        let answer = self.client().renew(&work.lease, length).await;
        let (outcome, error) = match answer {
            Ok(_) => (Outcome::Done(()), None),
            Err(error) => (outcome_of(&error), Some(error)),
        };
        self.recorder
            .end(begun, Op::Renew { lease: work.lease.id, length: length.as_micros() as u64, outcome });
        self.after(error).await;
    }

    /// All messages of the work are done, and these are stored, or neither.
    pub(crate) async fn transact(&mut self, work: &Work, messages: Vec<Pushed>) -> Result<(), Error> {
        let mut transaction = self.client().transaction();
        let mut said = Vec::new();
        for (at, message) in work.messages.iter().enumerate() {
            transaction = transaction.ack(message);
            said.push(work.said(at, Status::Completed));
        }
        for message in &messages {
            transaction = transaction.push(new_message(message)?);
        }
        let begun = self.recorder.begin();
        let answer = transaction.send().await;
        let (outcome, error) = match answer {
            Ok(_) => (Outcome::Done(()), None),
            Err(error) => (outcome_of(&error), Some(error)),
        };
        let (group, lease) = (work.group.clone(), work.lease.id);
        self.recorder.end(begun, Op::Transact { group, lease, said, messages, outcome });
        self.after(error).await;
        Ok(())
    }

    /// Write down that a group was given everything of a queue.
    pub(crate) fn drained(&self, queue: &str, group: &str) {
        let (queue, group) = (queue.to_owned(), group.to_owned());
        self.recorder.end(self.recorder.begin(), Op::Drained { queue, group });
    }
}

/// What to ask for.
pub(crate) struct Pop<'a> {
    pub(crate) queue: &'a str,
    pub(crate) group: &'a str,
    pub(crate) batch: u32,
    pub(crate) partitions: u32,
    /// `None` = committed by the delivery.
    pub(crate) lease: Option<Duration>,
    pub(crate) wait: Duration,
}

/// What an error says of the outcome.
fn outcome_of<T>(error: &Error) -> Outcome<T> {
    match error {
        Error::Rejected { .. } | Error::Refused { .. } | Error::Unavailable { .. } => Outcome::Not,
        Error::Setup(_) | Error::Payload(_) => Outcome::Not,
        _ => Outcome::Unknown,
    }
}

fn new_message(message: &Pushed) -> Result<NewMessage, Error> {
    let new = NewMessage::json(&message.queue, &message.id)?;
    Ok(new.partition(&message.partition).transaction_id(&message.id))
}

fn delivered(message: &Message) -> Delivered {
    Delivered {
        partition: message.partition.clone(),
        offset: message.offset.unwrap_or_default(),
        id: message.transaction_id.clone(),
        payload: message.json().unwrap_or_else(|_| message.payload().to_owned()),
    }
}

fn ack(message: &Message, status: Status) -> Ack {
    match status {
        Status::Completed => Ack::completed(message),
        Status::Failed => Ack::failed(message, "made to fail"),
        Status::Retry => Ack::retry(message),
        Status::Dlq => Ack::dead_letter(message, "made to be given up"),
    }
}
