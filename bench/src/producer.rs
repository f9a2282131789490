//! Producers of an open-loop run: they push what is due, one message per request, and note when it was answered.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Instant;

use tokio::sync::{Mutex, mpsc};

use crate::client::Target;
use crate::content::Content;
use crate::correlate::Books;
use crate::ids::Stamps;
use crate::schedule::Schedule;
use crate::stats::Errors;
use crate::{body, scan};

/// What producers and waiters of a run share.
pub(crate) struct Run {
    pub(crate) schedule: Schedule,
    pub(crate) content: Content,
    pub(crate) queues: Vec<String>,
    pub(crate) books: RefCell<Books>,
    pub(crate) push_errors: RefCell<Errors>,
    /// All moments in the books count from here. Set anew when the first push is due.
    pub(crate) epoch: std::cell::Cell<Instant>,
}

impl Run {
    /// Nanoseconds since the start of the run.
    pub(crate) fn now(&self) -> u64 {
        u64::try_from(self.epoch.get().elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

/// Pushes until there is nothing more to come.
pub(crate) async fn produce(run: Rc<Run>, target: Target, due: Rc<Mutex<mpsc::Receiver<u64>>>) {
    let mut connection = target.connection();
    let mut post = target.post("/api/v1/push");
    let mut stamps = Stamps::default();
    loop {
        let next = due.lock().await.recv().await;
        let Some(number) = next else { return };
        let lane = run.schedule.lane(number);
        let queue = &run.queues[run.schedule.queue(number) as usize];
        let out = post.begin();
        body::begin_push(out);
        body::push_item(out, queue, &run.content, (lane, number), stamps.reserve(1));
        body::end_push(out);
        post.finish();
        run.books.borrow_mut().sent(number, run.now());
        let outcome = connection.call(post.bytes()).await;
        let at = run.now();
        let mut errors = run.push_errors.borrow_mut();
        match outcome {
            Ok(response) if response.status == 201 => match scan::push_answer(response.body) {
                Ok(answer) if answer.queued == 1 => run.books.borrow_mut().answered(number, at),
                Ok(_) => errors.count("push: item not queued", 1),
                Err(_) => errors.count("push: malformed answer", 1),
            },
            Ok(response) => errors.count(&format!("push: http_{}", response.status), 1),
            Err(failure) => errors.count(&format!("push: {}", failure.kind()), 1),
        }
    }
}
