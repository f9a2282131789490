//! What is waited for here, and what a peer said it waits for.
//!
//! Hints about queues nobody waits for at the other end are most of the traffic between many servers. A server tells
//! its peers what it wants, exactly while that fits, else as a Bloom filter: wrong only in excess.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

/// Topics listed one by one.
const EXACT: usize = 100;
/// Size of the filter.
const BLOOM: usize = 800;
/// Topics a filter can hold before it lets nearly everything through.
const MOST: usize = 5_000;
const HASHES: u64 = 4;

/// What a server wants to hear of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Digest {
    /// Everything.
    All,
    /// These topics.
    Exact(Vec<u64>),
    /// At least these topics.
    Bloom(Vec<u8>),
}

impl Digest {
    /// The best digest of these topics.
    pub(crate) fn exact(topics: impl IntoIterator<Item = u64>) -> Self {
        let mut topics: Vec<u64> = topics.into_iter().collect();
        topics.sort_unstable();
        match topics.len() {
            0..=EXACT => Self::Exact(topics),
            count if count <= MOST => {
                let mut bits = vec![0; BLOOM];
                for place in topics.iter().flat_map(|t| places(*t, BLOOM)) {
                    bits[place / 8] |= 1 << (place % 8);
                }
                Self::Bloom(bits)
            }
            _ => Self::All,
        }
    }

    pub(crate) fn contains(&self, topic: Option<u64>) -> bool {
        let Some(topic) = topic else { return true };
        match self {
            Self::All => true,
            Self::Exact(topics) => topics.binary_search(&topic).is_ok(),
            Self::Bloom(bits) => places(topic, bits.len()).all(|p| bits[p / 8] & (1 << (p % 8)) != 0),
        }
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::All => out.push(1),
            Self::Exact(topics) => {
                out.push(2);
                out.extend(topics.iter().flat_map(|t| t.to_be_bytes()));
            }
            Self::Bloom(bits) => {
                out.push(3);
                out.extend_from_slice(bits);
            }
        }
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let (kind, rest) = bytes.split_first()?;
        match kind {
            1 if rest.is_empty() => Some(Self::All),
            2 if rest.len() % 8 == 0 => {
                let numbers = rest.chunks_exact(8).filter_map(|c| c.try_into().ok());
                let mut topics: Vec<u64> = numbers.map(u64::from_be_bytes).collect();
                topics.sort_unstable();
                Some(Self::Exact(topics))
            }
            3 if !rest.is_empty() => Some(Self::Bloom(rest.to_vec())),
            _ => None,
        }
    }
}

/// Bits of a topic in a filter of `bytes` bytes. Both ends must agree, so the mixing is fixed.
fn places(topic: u64, bytes: usize) -> impl Iterator<Item = usize> {
    let bits = bytes as u64 * 8;
    let mixed = (topic ^ (topic >> 32)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let (one, two) = (mixed ^ (mixed >> 29), (mixed >> 17) | 1);
    (0..HASHES).map(move |i| (one.wrapping_add(two.wrapping_mul(i)) % bits) as usize)
}

/// Topics waited for here.
#[derive(Debug)]
pub(crate) struct Interest {
    linger: Duration,
    /// Waiters of a topic; with none, when it stops being wanted.
    topics: HashMap<u64, (usize, Option<Instant>), foldhash::fast::RandomState>,
    version: u64,
    digest: Option<Digest>,
    /// An instant not after the earliest end of a lingering topic.
    next_end: Option<Instant>,
}

impl Interest {
    pub(crate) fn new(linger: Duration) -> Self {
        Self { linger, topics: HashMap::default(), version: 1, digest: None, next_end: None }
    }

    /// One more waiter. Whether the set grew, so that peers must be told.
    pub(crate) fn want(&mut self, topic: u64) -> bool {
        let entry = self.topics.entry(topic);
        let grew = matches!(entry, std::collections::hash_map::Entry::Vacant(_));
        let entry = entry.or_insert((0, None));
        *entry = (entry.0 + 1, None);
        if grew {
            self.changed();
        }
        grew
    }

    /// One waiter less.
    pub(crate) fn unwant(&mut self, topic: u64, now: Instant) {
        if let Some(entry) = self.topics.get_mut(&topic).filter(|e| e.0 > 0) {
            entry.0 -= 1;
            if entry.0 == 0 {
                let end = now + self.linger;
                entry.1 = Some(end);
                self.next_end.get_or_insert(end);
            }
        }
    }

    /// Forget topics whose time is over.
    pub(crate) fn expire(&mut self, now: Instant) {
        if self.next_end.is_none_or(|end| end > now) {
            return;
        }
        let before = self.topics.len();
        self.topics.retain(|_, (_, end)| end.is_none_or(|end| end > now));
        self.next_end = self.topics.values().filter_map(|(_, end)| *end).min();
        if self.topics.len() != before {
            self.changed();
        }
    }

    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.next_end
    }

    /// Grows with every change.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    pub(crate) fn digest(&mut self) -> Digest {
        let topics = &self.topics;
        self.digest.get_or_insert_with(|| Digest::exact(topics.keys().copied())).clone()
    }

    fn changed(&mut self) {
        self.version += 1;
        self.digest = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_never_denies_what_it_was_made_of() {
        for count in [0, 1, 100, 101, 2_000, 5_000, 5_001] {
            let topics: Vec<u64> = (0..count).map(|_| fastrand::u64(..)).collect();
            let mut bytes = Vec::new();
            Digest::exact(topics.iter().copied()).encode(&mut bytes);
            assert!(bytes.len() <= 801, "{count}: {}", bytes.len());
            let digest = Digest::decode(&bytes).unwrap();
            assert!(topics.iter().all(|t| digest.contains(Some(*t))), "{count}");
            assert!(digest.contains(None));
        }
    }

    #[test]
    fn a_digest_denies_most_of_the_rest() {
        for (count, least) in [(0, 1_000), (50, 999), (1_000, 900)] {
            let digest = Digest::exact((0..count).map(|n| n * 3));
            let denied = (0..1_000).filter(|n| !digest.contains(Some(1_000_000 + n * 7))).count();
            assert!(denied >= least, "{count}: {denied}");
        }
    }

    #[test]
    fn topics_linger_after_the_last_waiter_left() {
        let (mut interest, now) = (Interest::new(Duration::from_secs(60)), Instant::now());
        assert!(interest.want(5));
        assert!(!interest.want(5), "a second waiter changes nothing");
        let version = interest.version();
        interest.unwant(5, now);
        assert_eq!(interest.next_due(), None, "one still waits");
        interest.unwant(5, now);
        interest.expire(now + Duration::from_secs(59));
        assert!(interest.digest().contains(Some(5)));
        assert!(!interest.want(5), "it was still wanted: peers need not be told");
        interest.unwant(5, now + Duration::from_secs(59));
        interest.expire(now + Duration::from_secs(60));
        assert!(interest.digest().contains(Some(5)), "its time began again");
        assert_eq!(interest.version(), version);
        interest.expire(now + Duration::from_secs(119));
        assert!(!interest.digest().contains(Some(5)));
        assert!(interest.version() > version);
        assert_eq!(interest.next_due(), None);
    }

    #[test]
    fn unwanting_what_nobody_wanted_does_nothing() {
        let mut interest = Interest::new(Duration::from_secs(1));
        interest.unwant(9, Instant::now());
        assert_eq!(interest.next_due(), None);
    }
}
