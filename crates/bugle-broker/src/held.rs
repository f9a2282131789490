//! Which lanes the leases over several lanes hold, as far as this server handed them out: whoever renews such a lease here costs no
//! search in the store. What is forgotten, and what another server handed out, is found by the store all the same.

use std::collections::{HashMap, VecDeque};

use parking_lot::Mutex;

use bugle_store::{Group, LaneId, LeaseId};

/// Lanes remembered, of all leases together; the oldest leases go first.
const MAX_LANES: usize = 1 << 16;

/// A lane and the group that holds it.
pub(crate) type Place = (LaneId, Group);

/// See the module.
#[derive(Default)]
pub(crate) struct Held(Mutex<Book>);

#[derive(Default)]
struct Book {
    leases: HashMap<LeaseId, Vec<Place>, foldhash::fast::RandomState>,
    order: VecDeque<LeaseId>,
    lanes: usize,
}

impl Held {
    /// A lease was handed out over all of these.
    pub(crate) fn insert(&self, lease: LeaseId, places: Vec<Place>) {
        let mut book = self.0.lock();
        book.lanes += places.len();
        book.order.push_back(lease);
        book.leases.insert(lease, places);
        while book.lanes > MAX_LANES
            && let Some(oldest) = book.order.pop_front()
        {
            book.lanes -= book.leases.remove(&oldest).map_or(0, |places| places.len());
        }
    }

    /// All places of a lease, if they are known. Some may be held by it no more.
    pub(crate) fn places(&self, lease: LeaseId) -> Option<Vec<Place>> {
        self.0.lock().leases.get(&lease).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    #[test]
    fn leases_are_known_until_there_are_too_many() {
        let held = Held::default();
        let places = |count: usize| vec![(LaneId(Uuid::nil()), Group::from("g")); count];
        let ids: Vec<LeaseId> = (0..100).map(Uuid::from_u128).collect();
        ids.iter().for_each(|id| held.insert(*id, places(1000)));
        let known: Vec<bool> = ids.iter().map(|id| held.places(*id).is_some()).collect();
        assert_eq!(known.iter().filter(|known| **known).count(), MAX_LANES / 1000);
        assert!(known.is_sorted(), "the oldest went first");
        assert_eq!(held.places(ids[99]), Some(places(1000)));
        held.insert(ids[0], places(MAX_LANES + 1));
        assert_eq!(held.places(ids[0]), None, "one that is too large is not kept either");
    }
}
