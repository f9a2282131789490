//! The other servers heard on one carrier: what of theirs was missed, who is new, who went silent.
//!
//! Each sender numbers its frames with hints. A number that is missing may only have been overtaken, so it is given a
//! little time; after that it is a gap, told once.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

use crate::interest::Digest;

/// Senders remembered; the one heard longest ago gives way.
const MOST: usize = 1024;
/// How far back a late frame is still taken.
const WINDOW: u64 = 64;

#[derive(Debug)]
pub(crate) struct Peers {
    silence: Duration,
    reorder: Duration,
    known: HashMap<u64, Peer, foldhash::fast::RandomState>,
}

#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) name: String,
    pub(crate) heard: Instant,
    numbers: Option<Numbers>,
    digest: Option<(u64, Digest, Instant)>,
}

/// The numbers of one sender.
#[derive(Debug)]
struct Numbers {
    /// The highest one heard of.
    last: u64,
    /// Bit n: `last - n` came in.
    seen: u64,
    /// Everything up to here was heard, or given up, or is older than the acquaintance.
    base: u64,
    /// Something above the old base fell out of the window.
    lost: bool,
    /// Something is missing since.
    gap: Option<Instant>,
}

/// Whether the sender was known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum News {
    Known,
    New,
    /// New, with the name of one that was known.
    Restarted,
}

/// What a number says about its frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// The first number of this sender: whatever was before it is not known.
    First,
    /// To be taken.
    Fresh,
    /// Taken before.
    Again,
    /// Too far back to know.
    Old,
}

/// What time brought to light.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Overdue {
    /// Senders of whom something is missing for good.
    pub(crate) gaps: usize,
    /// Senders that went silent and were forgotten.
    pub(crate) silent: Vec<(u64, String)>,
}

impl Peers {
    pub(crate) fn new(silence: Duration, reorder: Duration) -> Self {
        Self { silence, reorder, known: HashMap::default() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    pub(crate) fn knows(&self, sender: u64) -> bool {
        self.known.contains_key(&sender)
    }

    pub(crate) fn get(&self, sender: u64) -> Option<&Peer> {
        self.known.get(&sender)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&u64, &Peer)> {
        self.known.iter()
    }

    /// A frame of this sender came in; greetings carry its name.
    pub(crate) fn hear(&mut self, now: Instant, sender: u64, name: &str) -> News {
        let before = self.known.len();
        let named = self.known.get(&sender).is_some_and(|p| p.name == name);
        if !name.is_empty() && !named {
            self.known.retain(|other, p| *other == sender || p.name != name);
        }
        let restarted = self.known.len() < before;
        if let Some(peer) = self.known.get_mut(&sender) {
            peer.heard = now;
            if !name.is_empty() && !named {
                name.clone_into(&mut peer.name);
            }
            return if restarted { News::Restarted } else { News::Known };
        }
        if self.known.len() >= MOST {
            let oldest = self.known.iter().min_by_key(|(_, p)| p.heard).map(|(s, _)| *s);
            oldest.map(|s| self.known.remove(&s));
        }
        let peer = Peer { name: name.to_owned(), heard: now, numbers: None, digest: None };
        self.known.insert(sender, peer);
        if restarted { News::Restarted } else { News::New }
    }

    /// A frame said how many frames with hints there were; `counts` when it is one of them itself.
    pub(crate) fn claim(&mut self, now: Instant, sender: u64, number: u64, counts: bool) -> Claim {
        let Some(peer) = self.known.get_mut(&sender) else { return Claim::First };
        match &mut peer.numbers {
            None => {
                let seen = u64::from(counts);
                peer.numbers = Some(Numbers { last: number, seen, base: number, lost: false, gap: None });
                Claim::First
            }
            Some(numbers) => {
                let claim = numbers.claim(number, counts);
                numbers.gap = (numbers.lost || numbers.missing()).then(|| numbers.gap.unwrap_or(now));
                claim
            }
        }
    }

    /// What this sender wants; older versions than the known one are ignored.
    pub(crate) fn learn(&mut self, now: Instant, sender: u64, version: u64, digest: Digest) {
        if let Some(peer) = self.known.get_mut(&sender)
            && peer.digest.as_ref().is_none_or(|(known, ..)| *known <= version)
        {
            peer.digest = Some((version, digest, now));
        }
    }

    /// What this sender wants, if it said so since `fresh`.
    pub(crate) fn digest(&self, sender: u64, fresh: Option<Instant>) -> Option<&Digest> {
        let (_, digest, at) = self.known.get(&sender)?.digest.as_ref()?;
        fresh.is_none_or(|fresh| *at >= fresh).then_some(digest)
    }

    pub(crate) fn forget(&mut self, sender: u64) {
        self.known.remove(&sender);
    }

    /// Let time pass.
    pub(crate) fn tick(&mut self, now: Instant) -> Overdue {
        let mut overdue = Overdue::default();
        let (silence, reorder) = (self.silence, self.reorder);
        self.known.retain(|sender, peer| {
            if let Some(numbers) = &mut peer.numbers
                && numbers.gap.is_some_and(|since| now >= since + reorder)
            {
                overdue.gaps += 1;
                (numbers.base, numbers.lost, numbers.gap) = (numbers.last, false, None);
            }
            let stays = now < peer.heard + silence;
            if !stays {
                overdue.silent.push((*sender, std::mem::take(&mut peer.name)));
            }
            stays
        });
        overdue
    }

    pub(crate) fn next_due(&self) -> Option<Instant> {
        let gap = |p: &Peer| p.numbers.as_ref().and_then(|n| n.gap).map(|since| since + self.reorder);
        self.known
            .values()
            .map(|p| gap(p).map_or(p.heard + self.silence, |g| g.min(p.heard + self.silence)))
            .min()
    }
}

impl Numbers {
    fn claim(&mut self, number: u64, counts: bool) -> Claim {
        if number > self.last {
            self.advance(number);
            self.seen |= u64::from(counts);
            return Claim::Fresh;
        }
        if !counts {
            return Claim::Fresh;
        }
        let back = self.last - number;
        if back >= WINDOW {
            return Claim::Old;
        }
        let bit = 1 << back;
        let claim = if self.seen & bit != 0 { Claim::Again } else { Claim::Fresh };
        self.seen |= bit;
        claim
    }

    /// Move the window to end at `number`.
    fn advance(&mut self, number: u64) {
        let floor = number.saturating_sub(WINDOW);
        if floor > self.base {
            let fallen_out = floor.min(self.last);
            let unseen = |n: &u64| self.seen & (1 << (self.last - n)) == 0;
            // The base is never more than a window behind, so these are at most 64.
            self.lost |= floor > self.last || (self.base + 1..=fallen_out).any(|n| unseen(&n));
            self.base = floor;
        }
        let by = number - self.last;
        self.seen = if by < WINDOW { self.seen << by } else { 0 };
        self.last = number;
    }

    fn missing(&self) -> bool {
        let count = self.last - self.base;
        let needed = if count >= WINDOW { u64::MAX } else { (1 << count) - 1 };
        self.seen & needed != needed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn peers() -> (Peers, Instant) {
        let (mut peers, now) = (Peers::new(Duration::from_secs(75), 50 * MS), Instant::now());
        assert_eq!(peers.hear(now, 1, ""), News::New);
        assert_eq!(peers.claim(now, 1, 10, false), Claim::First);
        (peers, now)
    }

    #[test]
    fn numbers_in_order_are_no_news() {
        let (mut peers, now) = peers();
        for n in 11..500 {
            assert_eq!(peers.claim(now, 1, n, true), Claim::Fresh);
        }
        assert_eq!(peers.claim(now, 1, 499, false), Claim::Fresh, "a trailing frame repeats the number");
        assert_eq!(peers.tick(now + 60 * MS), Overdue::default());
    }

    #[test]
    fn a_missing_number_is_told_once_and_only_after_a_while() {
        let (mut peers, now) = peers();
        peers.claim(now, 1, 12, true);
        assert_eq!(peers.next_due(), Some(now + 50 * MS));
        assert_eq!(peers.tick(now + 49 * MS).gaps, 0);
        assert_eq!(peers.tick(now + 50 * MS).gaps, 1);
        assert_eq!(peers.tick(now + 51 * MS).gaps, 0);
        assert_eq!(peers.claim(now + 60 * MS, 1, 13, true), Claim::Fresh);
        assert_eq!(peers.tick(now + 200 * MS).gaps, 0);
        assert_eq!(peers.claim(now + 201 * MS, 1, 11, true), Claim::Fresh, "late, but still of use");
        assert_eq!(peers.claim(now + 202 * MS, 1, 11, true), Claim::Again);
    }

    #[test]
    fn an_overtaken_frame_is_taken_once_and_is_no_gap() {
        let (mut peers, now) = peers();
        assert_eq!(peers.claim(now, 1, 12, true), Claim::Fresh);
        assert_eq!(peers.claim(now + 20 * MS, 1, 11, true), Claim::Fresh);
        assert_eq!(peers.claim(now + 20 * MS, 1, 11, true), Claim::Again);
        assert_eq!(peers.tick(now + 60 * MS), Overdue::default());
    }

    #[test]
    fn a_lost_last_frame_is_found_by_the_number_alone() {
        let (mut peers, now) = peers();
        peers.claim(now, 1, 11, true);
        peers.claim(now, 1, 12, false);
        assert_eq!(peers.tick(now + 50 * MS).gaps, 1);
    }

    #[test]
    fn a_gap_wider_than_the_window_is_one_gap() {
        let (mut peers, now) = peers();
        peers.claim(now, 1, 1_000, true);
        assert_eq!(peers.claim(now, 1, 900, true), Claim::Old);
        assert_eq!(peers.tick(now + 50 * MS).gaps, 1);
        for n in 1_001..1_200 {
            peers.claim(now + 60 * MS, 1, n, true);
        }
        assert_eq!(peers.tick(now + 200 * MS).gaps, 0);
    }

    #[test]
    fn what_falls_out_of_the_window_unseen_stays_a_gap() {
        let (mut peers, now) = peers();
        for n in 12..200 {
            peers.claim(now, 1, n, true);
        }
        assert_eq!(peers.tick(now + 50 * MS).gaps, 1, "11 never came");
    }

    #[test]
    fn random_reordering_within_the_window_loses_nothing() {
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..200 {
            let (mut peers, now) = peers();
            let mut numbers: Vec<u64> = (11..400).collect();
            for chunk in numbers.chunks_mut(60) {
                random.shuffle(chunk);
            }
            assert!(numbers.iter().all(|n| peers.claim(now, 1, *n, true) == Claim::Fresh));
            assert!(numbers.iter().rev().take(29).all(|n| peers.claim(now, 1, *n, true) == Claim::Again));
            assert_eq!(peers.tick(now + 50 * MS), Overdue::default());
        }
    }

    #[test]
    fn silence_is_told_once_and_forgets() {
        let (mut peers, now) = peers();
        peers.hear(now + Duration::from_secs(10), 1, "a");
        assert!(peers.tick(now + Duration::from_secs(84)).silent.is_empty());
        assert_eq!(peers.tick(now + Duration::from_secs(85)).silent, [(1, "a".to_owned())]);
        assert!(peers.is_empty());
        assert!(peers.tick(now + Duration::from_secs(86)).silent.is_empty());
    }

    #[test]
    fn a_new_sender_with_a_known_name_is_a_restart() {
        let (mut peers, now) = peers();
        assert_eq!(peers.hear(now, 2, "a"), News::New);
        assert_eq!(peers.hear(now, 3, "a"), News::Restarted);
        assert!(!peers.knows(2) && peers.knows(3) && peers.knows(1));
        assert_eq!(peers.hear(now, 1, "a"), News::Restarted, "its name came late");
        assert!(peers.knows(1) && !peers.knows(3));
        assert_eq!(peers.hear(now, 1, "a"), News::Known);
    }

    #[test]
    fn old_digests_do_not_replace_newer_ones_and_grow_stale() {
        let (mut peers, now) = peers();
        peers.learn(now, 1, 2, Digest::exact([2]));
        peers.learn(now, 1, 1, Digest::exact([1]));
        assert_eq!(peers.digest(1, Some(now)), Some(&Digest::exact([2])));
        assert_eq!(peers.digest(1, Some(now + MS)), None);
    }

    #[test]
    fn senders_are_bounded() {
        let (mut peers, now) = peers();
        for n in 0..3_000 {
            peers.hear(now + MS * n, u64::from(n) + 5, "");
        }
        assert_eq!(peers.known.len(), MOST);
        assert!(!peers.knows(1) && peers.knows(3_004));
    }
}
