//! Pop maintenance: nobody is handed anything, and whoever waits does so without claiming, so that consumers neither spin nor
//! end. When it is over they go on by themselves.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::time::{Instant, sleep_until};

use crate::api::{PopAnswer, PopRequest};
use crate::inner::Inner;

use super::{PopJob, deadline};

impl Inner {
    /// Wait until pops are served again. `Some` = this one's time is over, or it has none.
    pub(super) async fn wait_out_pause(
        self: &Arc<Self>,
        request: &Arc<PopRequest>,
        came: Instant,
    ) -> Option<PopAnswer> {
        let draining = || self.draining.load(Ordering::Acquire);
        let Some(wait) = request.wait.filter(|_| !draining()) else { return Some(self.nothing_for(request)) };
        let mut switches = self.board.watch();
        tokio::select! {
            _ = switches.wait_for(|now| !now.pop_maintenance || draining()) => {
                draining().then(|| self.nothing_for(request))
            }
            () = sleep_until(deadline(self.started, came, wait)) => {
                self.meters.registered.one();
                self.meters.expired.one();
                Some(self.nothing_for(request))
            }
        }
    }

    /// Answer jobs that were dispatched before pops were paused, or woken since.
    pub(super) fn turn_away(&self, jobs: Vec<PopJob>) {
        for job in jobs {
            let answer = self.nothing_for(&job.request);
            let _ = job.reply.send(Ok(answer));
        }
    }
}
