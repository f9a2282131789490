//! Extending a lease over all lanes it holds.

use std::sync::Arc;

use bugle_store::{LaneCursor, LeaseId, Load, Timestamp};

use crate::api::{LeaseToken, Refused, Renewed};
use crate::inner::Inner;
use crate::meters::WakeSource;
use crate::semantics::lease;

use super::MAX_TRIES;

impl Inner {
    /// See [`crate::Broker::renew`].
    pub(crate) async fn renew(self: &Arc<Self>, token: LeaseToken, seconds: u64) -> Result<Renewed, Refused> {
        let gone = |error| Ok(Renewed { renewed: 0, expires_at: None, error: Some(error) });
        let LeaseToken::Id(id) = token else { return gone("Lease not found") };
        for _ in 0..MAX_TRIES {
            let timeline = self.timeline();
            let held = self.held_by(id).await?;
            if held.is_empty() {
                return gone("Lease not found");
            }
            let now = self.engine.now();
            let (mut swaps, mut homes) = (Vec::new(), Vec::new());
            for found in held {
                let Some(cursor) = found.cursor else { continue };
                let Some(next) = lease::renew(&cursor, id, seconds, now) else { continue };
                swaps.push(crate::pop::plain_swap(found.lane.id, &found.group, &cursor, next.clone()));
                let channel = self.channels.get(found.lane.queue, &found.group);
                homes.push((channel, self.learn_lane(&found.lane, WakeSource::Local), next));
            }
            if swaps.is_empty() {
                return gone("Lease already expired");
            }
            let outcomes = self.watch(self.change(timeline, self.engine.swap(swaps)).await)?;
            let all = outcomes.iter().all(Result::is_ok);
            let mut ends: Vec<Timestamp> = Vec::new();
            for ((channel, lane, next), outcome) in homes.into_iter().zip(outcomes) {
                if outcome.is_ok() {
                    ends.extend(next.lease.map(|l| l.until));
                    if let Some(channel) = channel {
                        self.cursor_changed(&channel, &lane, next);
                    }
                }
            }
            if all {
                return Ok(Renewed { renewed: ends.len(), expires_at: ends.into_iter().min(), error: None });
            }
        }
        Err(self.busy("the lease is changed by too many"))
    }

    /// Everything that a lease holds, as the store has it.
    async fn held_by(&self, id: LeaseId) -> Result<Vec<LaneCursor>, Refused> {
        let loads = match self.held.places(id) {
            Some(places) => places.into_iter().map(|(lane, group)| Load::Lane(lane, group)).collect(),
            None => vec![Load::Lease(id)],
        };
        let found = self.watch(self.engine.load(loads).await)?;
        let is_held =
            |row: &LaneCursor| row.cursor.as_ref().and_then(|c| c.lease).is_some_and(|l| l.id == id);
        Ok(found.into_iter().flatten().filter(is_held).collect())
    }
}
