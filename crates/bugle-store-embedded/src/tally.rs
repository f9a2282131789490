//! What queues hold, counted.

use bugle_store::{QueueId, QueueTally, Timestamp};

use crate::state::State;

/// Tallies of these queues or of all, in queue id order.
pub(crate) fn tallies(state: &State, queues: Option<Vec<QueueId>>, now: Timestamp) -> Vec<QueueTally> {
    let asked = |id: &QueueId| queues.as_ref().is_none_or(|queues| queues.contains(id));
    let queues = state.queues.iter().filter(|(id, _)| asked(id));
    let tally = |(id, queue): (&QueueId, &crate::state::QueueState)| {
        let mut tally = QueueTally::empty(*id);
        for uid in queue.by_id.values() {
            let lane = &state.lanes[uid];
            tally.count(&lane.lane, lane.cursors.iter().map(|(group, cursor)| (group, cursor)), now);
        }
        tally.dead = state.dead.of_queue(*id).len() as u64;
        tally
    };
    queues.map(tally).collect()
}
