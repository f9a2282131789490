//! Dead letters as callers see them: listing, replaying one, redriving many.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use bytes::Bytes;
use uuid::Uuid;

use bugle_store::{DeadLetter, Group, Message, Timestamp};

use super::Pushed;

/// Which dead letters, by names. What is `None` does not narrow.
#[derive(Clone, Debug, Default)]
pub struct LetterQuery {
    /// Of this queue.
    pub queue: Option<Arc<str>>,
    /// Of this partition; needs a queue.
    pub partition: Option<Arc<str>>,
    /// Given up by this group.
    pub group: Option<Group>,
    /// Failed at or after.
    pub from: Option<Timestamp>,
    /// Failed before.
    pub to: Option<Timestamp>,
    /// With this text in the error.
    pub error: Option<String>,
}

/// One dead letter.
#[derive(Clone, Debug)]
pub struct Letter {
    /// Name of its queue.
    pub queue: Arc<str>,
    /// As stored.
    pub letter: DeadLetter,
    /// Its copy of the message, decrypted; `None` if it cannot be read.
    pub message: Option<Message>,
}

/// Where a replayed message goes and what it says; what is `None` stays as it was.
#[derive(Clone, Debug, Default)]
pub struct Replay {
    /// Payload instead of the original.
    pub payload: Option<Bytes>,
    /// Queue instead of its own.
    pub queue: Option<Arc<str>>,
    /// Partition instead of its own.
    pub partition: Option<Arc<str>>,
}

/// A dead letter went back to a queue.
#[derive(Clone, Debug)]
pub struct Replayed {
    /// The dead letter, which is gone now.
    pub letter: Uuid,
    /// Where it went.
    pub queue: Arc<str>,
    /// Where it went.
    pub partition: Arc<str>,
    /// The message it became. A duplicate had been replayed before, by a call that did not live to see the end.
    pub pushed: Pushed,
}

/// Move many dead letters back.
#[derive(Clone, Debug)]
pub struct Redrive {
    /// Which; the queue is required.
    pub filter: LetterQuery,
    /// Where to, and with which payload.
    pub to: Replay,
    /// Go on where an earlier call ended.
    pub cursor: Option<RedriveCursor>,
    /// Most letters to look at in this call.
    pub limit: usize,
    /// Only count.
    pub dry_run: bool,
}

/// What a redrive did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Redriven {
    /// Letters that matched when the call began.
    pub matched: u64,
    /// Moved by this call.
    pub redriven: u64,
    /// Moved already by another call, or left where they are because they cannot be read.
    pub skipped: u64,
    /// Not looked at yet.
    pub remaining: u64,
    /// Where to go on; `None` = this was all.
    pub cursor: Option<RedriveCursor>,
    /// Why the call ended early. What it counts is done nevertheless.
    pub error: Option<String>,
}

/// A place in the walk over dead letters, oldest failure first. The walk ends at the moment it began: what fails again
/// after it was redriven is not redriven over and over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RedriveCursor {
    /// Letters that failed from here on belong to another walk.
    pub until: Timestamp,
    /// Failure time and id of the last letter looked at.
    pub after: (Timestamp, Uuid),
}

impl fmt::Display for RedriveCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.until.0, self.after.0.0, self.after.1.simple())
    }
}

impl FromStr for RedriveCursor {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let mut parts = text.splitn(3, '.');
        let mut time = || parts.next()?.parse().ok().map(Timestamp);
        let (until, failed_at) = (time().ok_or(())?, time().ok_or(())?);
        let id = parts.next().and_then(|id| Uuid::try_parse(id).ok()).ok_or(())?;
        Ok(Self { until, after: (failed_at, id) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_survives_its_text_and_other_texts_are_none() {
        let cursor = RedriveCursor { until: Timestamp(9), after: (Timestamp(7), Uuid::now_v7()) };
        assert_eq!(cursor.to_string().parse(), Ok(cursor));
        for text in ["", "1", "1.2", "1.2.x", "x.2.00000000000000000000000000000000", "..", "1.2.3.4"] {
            assert_eq!(text.parse::<RedriveCursor>(), Err(()), "{text}");
        }
    }
}
