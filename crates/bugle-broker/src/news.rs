//! What servers tell each other: which lanes to look at again. Never what is in them: the store says that.

use std::hash::Hash;

use bugle_store::{Group, LaneId, QueueId};
use bugle_wake::Tiding;
use uuid::Uuid;

/// One hint.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum News {
    /// Messages were committed to a lane.
    Written {
        /// Its queue.
        queue: QueueId,
        /// The lane.
        lane: LaneId,
    },
    /// A group's cursor on a lane changed and messages are left.
    Moved {
        /// Its queue.
        queue: QueueId,
        /// The lane.
        lane: LaneId,
        /// The group.
        group: Group,
    },
    /// Queues were created, changed or deleted.
    Catalog,
    /// Something was committed to the inbox.
    Inbox,
}

const WRITTEN: u8 = 1;
const MOVED: u8 = 2;
const CATALOG: u8 = 3;
const INBOX: u8 = 4;

impl Tiding for News {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Written { queue, lane } => {
                out.push(WRITTEN);
                out.extend_from_slice(queue.0.as_bytes());
                out.extend_from_slice(lane.0.as_bytes());
            }
            Self::Moved { queue, lane, group } => {
                out.push(MOVED);
                out.extend_from_slice(queue.0.as_bytes());
                out.extend_from_slice(lane.0.as_bytes());
                // Names are at most 255 bytes.
                out.push(group.len().min(255) as u8);
                out.extend_from_slice(&group.as_bytes()[..group.len().min(255)]);
            }
            Self::Catalog => out.push(CATALOG),
            Self::Inbox => out.push(INBOX),
        }
    }

    fn decode(input: &mut &[u8]) -> Option<Self> {
        match take(input, 1)?[0] {
            WRITTEN => Some(Self::Written { queue: QueueId(id(input)?), lane: LaneId(id(input)?) }),
            MOVED => {
                let (queue, lane) = (QueueId(id(input)?), LaneId(id(input)?));
                let length = take(input, 1)?[0];
                let group = std::str::from_utf8(take(input, usize::from(length))?).ok()?;
                Some(Self::Moved { queue, lane, group: group.into() })
            }
            CATALOG => Some(Self::Catalog),
            INBOX => Some(Self::Inbox),
            _ => None,
        }
    }

    fn topic(&self) -> Option<u64> {
        match self {
            Self::Written { queue, .. } | Self::Moved { queue, .. } => Some(topic(*queue)),
            Self::Catalog | Self::Inbox => None,
        }
    }
}

/// What servers say they have waiting pops for: a queue, folded.
pub(crate) fn topic(queue: QueueId) -> u64 {
    let (high, low) = queue.0.as_u64_pair();
    high ^ low
}

fn take<'a>(input: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (front, rest) = input.split_at_checked(length)?;
    *input = rest;
    Some(front)
}

fn id(input: &mut &[u8]) -> Option<Uuid> {
    Uuid::from_slice(take(input, 16)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn news_come_back_as_they_were_sent() {
        let queue = QueueId::random();
        let lane = LaneId::derive(queue, "Default");
        let sent = [
            News::Written { queue, lane },
            News::Catalog,
            News::Inbox,
            News::Moved { queue, lane, group: "größe".into() },
            News::Moved { queue, lane, group: "x".repeat(255).as_str().into() },
        ];
        let mut bytes = Vec::new();
        sent.iter().for_each(|news| news.encode(&mut bytes));
        let mut rest = bytes.as_slice();
        for news in &sent {
            assert_eq!(News::decode(&mut rest).as_ref(), Some(news));
        }
        assert!(rest.is_empty());
    }

    /// The text is written in SQL, where nobody can encode it.
    #[test]
    fn the_inbox_is_announced_as_a_hint() {
        let text = bugle_wake::Bell::unsigned(&[News::Inbox]);
        assert_eq!(text.as_deref(), Some(bugle_store::INBOX_HINT));
    }

    #[test]
    fn what_nobody_understands_is_none() {
        for bytes in [&[9_u8, 1, 2][..], &[WRITTEN, 1], &[MOVED], &[]] {
            assert_eq!(News::decode(&mut &*bytes), None);
        }
    }
}
