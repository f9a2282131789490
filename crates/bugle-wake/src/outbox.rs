//! Hints waiting to be sent: the first of a burst at once, the rest together, each once, bounded.

use std::collections::HashSet;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use crate::frame::Body;
use crate::hint::Tiding;

/// Most frames of one flush; above it one advice to re-check is cheaper.
const FRAMES: usize = 4;

#[derive(Debug)]
pub(crate) struct Outbox<T> {
    coalesce: Duration,
    max: usize,
    order: Vec<T>,
    waiting: HashSet<T, foldhash::fast::RandomState>,
    overflow: bool,
    /// No flush before.
    not_before: Option<Instant>,
}

/// What a flush takes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Batch<T> {
    Tidings(Vec<T>),
    /// Too many.
    Everything,
}

impl<T: Tiding> Outbox<T> {
    pub(crate) fn new(coalesce: Duration, max: usize) -> Self {
        Self {
            coalesce,
            max,
            order: Vec::new(),
            waiting: HashSet::default(),
            overflow: false,
            not_before: None,
        }
    }

    /// Add one. Whether it is the first, so that somebody must see to the flush.
    pub(crate) fn add(&mut self, tiding: T) -> bool {
        if self.overflow || self.waiting.contains(&tiding) {
            return false;
        }
        if self.order.len() >= self.max {
            self.everything();
            return false;
        }
        self.order.push(tiding.clone());
        self.waiting.insert(tiding);
        self.order.len() == 1
    }

    /// Tell of everything instead of what is listed.
    pub(crate) fn everything(&mut self) {
        self.clear();
        self.overflow = true;
    }

    pub(crate) fn clear(&mut self) {
        self.order.clear();
        self.waiting.clear();
        self.overflow = false;
    }

    /// No flush before `at`: something failed.
    pub(crate) fn hold_until(&mut self, at: Instant) {
        self.not_before = self.not_before.max(Some(at));
    }

    /// When a flush is due; `None` while there is nothing to send.
    pub(crate) fn due(&self, now: Instant) -> Option<Instant> {
        let any = self.overflow || !self.order.is_empty();
        any.then(|| self.not_before.unwrap_or(now))
    }

    pub(crate) fn take(&mut self, now: Instant) -> Option<Batch<T>> {
        if self.due(now).is_none_or(|at| at > now) {
            return None;
        }
        self.not_before = Some(now + self.coalesce);
        self.waiting.clear();
        if std::mem::take(&mut self.overflow) {
            return Some(Batch::Everything);
        }
        Some(Batch::Tidings(std::mem::take(&mut self.order)))
    }
}

/// Bodies of at most `room` bytes for these tidings, or one advice to re-check.
pub(crate) fn pack<'a, T: Tiding>(tidings: impl Iterator<Item = &'a T>, room: usize) -> Vec<Body> {
    let mut bodies: Vec<Vec<u8>> = Vec::new();
    let mut one = Vec::new();
    for tiding in tidings {
        one.clear();
        tiding.encode(&mut one);
        if one.is_empty() || one.len() > room {
            return vec![Body::Recheck];
        }
        let full = bodies.len() == FRAMES;
        match bodies.last_mut().filter(|b| b.len() + one.len() <= room) {
            Some(body) => body.extend_from_slice(&one),
            None if full => return vec![Body::Recheck],
            None => bodies.push(one.clone()),
        }
    }
    bodies.into_iter().map(|b| Body::Hints(Bytes::from(b))).collect()
}

/// The tidings of a body, and whether all of it was understood.
pub(crate) fn unpack<T: Tiding>(mut bytes: &[u8]) -> (Vec<T>, bool) {
    let mut tidings = Vec::new();
    while !bytes.is_empty() {
        let before = bytes.len();
        match T::decode(&mut bytes) {
            Some(tiding) if bytes.len() < before => tidings.push(tiding),
            _ => return (tidings, false),
        }
    }
    (tidings, true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::tests::Word;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn the_first_goes_at_once_and_the_rest_together() {
        let (mut outbox, now) = (Outbox::new(5 * MS, 10), Instant::now());
        assert!(outbox.add(Word(1)));
        assert_eq!(outbox.due(now), Some(now));
        assert_eq!(outbox.take(now), Some(Batch::Tidings(vec![Word(1)])));
        assert_eq!(outbox.due(now), None);
        assert!(outbox.add(Word(2)));
        assert!(!outbox.add(Word(3)) && !outbox.add(Word(2)));
        assert_eq!(outbox.due(now + MS), Some(now + 5 * MS));
        assert_eq!(outbox.take(now + 4 * MS), None);
        assert_eq!(outbox.take(now + 5 * MS), Some(Batch::Tidings(vec![Word(2), Word(3)])));
    }

    #[test]
    fn above_the_bound_one_advice_replaces_them_all() {
        let (mut outbox, now) = (Outbox::new(5 * MS, 2), Instant::now());
        for n in 0..100 {
            outbox.add(Word(n));
        }
        assert_eq!(outbox.take(now), Some(Batch::Everything));
        assert_eq!(outbox.due(now), None);
        assert!(outbox.add(Word(1)), "it begins anew");
    }

    #[test]
    fn packing_keeps_to_the_room_and_loses_nothing() {
        let words: Vec<Word> = (0..40).map(Word).collect();
        let bodies = pack(words.iter(), 80);
        assert_eq!(bodies.len(), 4);
        let mut heard = Vec::new();
        for body in bodies {
            let Body::Hints(bytes) = body else { panic!("hints") };
            assert!(bytes.len() <= 80);
            let (tidings, whole) = unpack::<Word>(&bytes);
            assert!(whole);
            heard.extend(tidings);
        }
        assert_eq!(heard, words);
        let more: Vec<Word> = (0..41).map(Word).collect();
        assert_eq!(pack(more.iter(), 80), [Body::Recheck]);
    }

    #[test]
    fn what_is_cut_off_is_told() {
        let Body::Hints(bytes) = pack([Word(1), Word(2)].iter(), 80).remove(0) else { panic!("hints") };
        assert_eq!(unpack::<Word>(&bytes[..11]), (vec![Word(1)], false));
    }
}
