//! What a channel need not ask the store: nothing, or only for the lanes that hints have named.
//!
//! In a period in which every hint is heard (see [`crate::hearing`]) whoever comes after somebody has asked for all lanes needs to know
//! only what hints have told since. While somebody waits a named lane is looked at when the hint comes; otherwise it is remembered here.

use std::collections::{HashMap, HashSet};

use bugle_store::LaneId;

/// Lanes remembered as seen empty by pops that named them.
const MAX_SEEN_EMPTY: usize = 10_000;
/// Most lanes that are remembered because nobody waited when they were named; beyond that whoever comes next asks for all.
const MAX_TOLD: usize = 1000;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Quiet {
    /// The store was asked about all lanes in this period, and no hint has gone unheeded since but for those in `told`.
    since: Option<u64>,
    /// Lanes that hints have named while nobody waited.
    told: HashSet<LaneId>,
    /// Lanes that were asked about by name, and in which period.
    seen_empty: HashMap<LaneId, u64>,
}

impl Quiet {
    /// The store was asked, about one lane or about all of them, in this period.
    pub(crate) fn asked(&mut self, lane: Option<LaneId>, period: Option<u64>) {
        let Some(period) = period else { return };
        match lane {
            None => self.since = Some(period),
            Some(lane) => {
                if self.seen_empty.len() >= MAX_SEEN_EMPTY {
                    self.seen_empty.clear();
                }
                self.seen_empty.insert(lane, period);
            }
        }
    }

    /// What was known is known still, in this period.
    pub(crate) fn confirm(&mut self, period: Option<u64>) {
        if let Some(period) = period {
            self.since = self.since.map(|_| period);
            self.seen_empty.values_mut().for_each(|seen| *seen = period);
        }
    }

    /// Something may have been missed: whoever comes next asks.
    pub(crate) fn doubt(&mut self) {
        *self = Self::default();
    }

    /// A hint has named a lane, and nobody waits who would look at it.
    pub(super) fn tell(&mut self, lane: LaneId) {
        self.seen_empty.remove(&lane);
        self.told.insert(lane);
        if self.told.len() > MAX_TOLD {
            self.since = None;
            self.told.clear();
        }
    }

    /// Whether asking for all lanes would tell nothing new.
    pub(super) fn about_all(&self, period: u64) -> bool {
        self.since == Some(period) && self.told.is_empty()
    }

    /// Whether asking for this lane would tell nothing new.
    pub(super) fn about(&self, lane: LaneId, period: u64) -> bool {
        self.seen_empty.get(&lane) == Some(&period)
    }

    /// The lanes to look at, if they are all that may be new. Who takes them and cannot look at them has to [`Self::doubt`].
    pub(super) fn take_told(&mut self, period: u64) -> Option<Vec<LaneId>> {
        (self.since == Some(period)).then(|| self.told.drain().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    fn lane(n: usize) -> LaneId {
        LaneId(Uuid::from_u128(n as u128))
    }

    /// Asked about all lanes in period 1.
    fn quiet() -> Quiet {
        let mut quiet = Quiet::default();
        quiet.asked(None, Some(1));
        quiet
    }

    #[test]
    fn only_what_was_told_is_looked_at_and_once() {
        let mut quiet = quiet();
        assert!(quiet.about_all(1));
        quiet.tell(lane(1));
        quiet.tell(lane(2));
        quiet.tell(lane(1));
        assert!(!quiet.about_all(1));
        let mut told = quiet.take_told(1).unwrap();
        told.sort_unstable();
        assert_eq!(told, [lane(1), lane(2)]);
        assert!(quiet.about_all(1));
        assert_eq!(quiet.take_told(1), Some(Vec::new()));
    }

    #[test]
    fn nothing_is_known_without_having_asked_in_this_period() {
        let mut quiet = Quiet::default();
        quiet.tell(lane(1));
        assert!(!quiet.about_all(1));
        assert_eq!(quiet.take_told(1), None);
        quiet.asked(None, None);
        assert_eq!(quiet.take_told(1), None);
        quiet.asked(None, Some(1));
        assert_eq!(quiet.take_told(2), None, "hints were missed since");
        assert_eq!(
            quiet.take_told(1),
            Some(vec![lane(1)]),
            "told before or after it was asked: nobody knows"
        );
        quiet.confirm(Some(2));
        assert!(quiet.about_all(2) && !quiet.about_all(1));
    }

    #[test]
    fn who_doubts_and_who_was_told_too_much_asks_for_all() {
        let mut quiet = quiet();
        quiet.tell(lane(1));
        quiet.doubt();
        assert_eq!(quiet.take_told(1), None);
        quiet.confirm(Some(1));
        assert_eq!(quiet.take_told(1), None, "what was not known is not confirmed");
        quiet.asked(None, Some(1));
        (0..=MAX_TOLD).for_each(|n| quiet.tell(lane(n)));
        assert_eq!(quiet.take_told(1), None);
    }

    #[test]
    fn a_named_lane_is_asked_about_again_when_a_hint_names_it() {
        let mut quiet = quiet();
        quiet.asked(Some(lane(1)), Some(1));
        assert!(quiet.about(lane(1), 1) && !quiet.about(lane(1), 2) && !quiet.about(lane(2), 1));
        quiet.tell(lane(1));
        assert!(!quiet.about(lane(1), 1));
        quiet.asked(Some(lane(1)), Some(1));
        quiet.doubt();
        assert!(!quiet.about(lane(1), 1));
    }
}
