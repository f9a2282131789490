//! What nodes tell each other: there is something to do now, or there will be at an instant.

use bugle_wake::Tiding;

use crate::waking::work::{Queue, Tag, Work};

/// One hint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Hint {
    /// Look now.
    Now(Work),
    /// Look at this instant, in microseconds of the database's clock.
    At(Queue, i64),
}

const TURN: u8 = 1;
const ACTIVITY: u8 = 2;
const SESSION: u8 = 3;
const TAGGED: u8 = 4;
const TAGGED_SESSION: u8 = 5;
const TURN_AT: u8 = 6;
const ACTIVITY_AT: u8 = 7;

impl Tiding for Hint {
    fn encode(&self, out: &mut Vec<u8>) {
        let (kind, number) = match *self {
            Self::Now(Work::Turn) => (TURN, None),
            Self::Now(Work::Activity { tag: None, session: false }) => (ACTIVITY, None),
            Self::Now(Work::Activity { tag: None, session: true }) => (SESSION, None),
            Self::Now(Work::Activity { tag: Some(tag), session: false }) => (TAGGED, Some(tag.0)),
            Self::Now(Work::Activity { tag: Some(tag), session: true }) => (TAGGED_SESSION, Some(tag.0)),
            Self::At(Queue::Orchestrations, at) => (TURN_AT, Some(at.cast_unsigned())),
            Self::At(Queue::Activities, at) => (ACTIVITY_AT, Some(at.cast_unsigned())),
        };
        out.push(kind);
        if let Some(number) = number {
            out.extend(number.to_be_bytes());
        }
    }

    fn decode(input: &mut &[u8]) -> Option<Self> {
        let (kind, rest) = input.split_first()?;
        *input = rest;
        let mut number = || {
            let (bytes, rest) = input.split_first_chunk::<8>()?;
            *input = rest;
            Some(u64::from_be_bytes(*bytes))
        };
        Some(match *kind {
            TURN => Self::Now(Work::Turn),
            ACTIVITY => Self::Now(Work::Activity { tag: None, session: false }),
            SESSION => Self::Now(Work::Activity { tag: None, session: true }),
            TAGGED => Self::Now(Work::Activity { tag: Some(Tag(number()?)), session: false }),
            TAGGED_SESSION => Self::Now(Work::Activity { tag: Some(Tag(number()?)), session: true }),
            TURN_AT => Self::At(Queue::Orchestrations, number()?.cast_signed()),
            ACTIVITY_AT => Self::At(Queue::Activities, number()?.cast_signed()),
            _ => return None,
        })
    }

    fn topic(&self) -> Option<u64> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_are_decoded_as_they_were_encoded_and_anything_else_is_not() {
        let all = [
            Hint::Now(Work::Turn),
            Hint::Now(Work::Activity { tag: None, session: false }),
            Hint::Now(Work::Activity { tag: None, session: true }),
            Hint::Now(Work::Activity { tag: Some(Tag::new("gpu")), session: false }),
            Hint::Now(Work::Activity { tag: Some(Tag::new("cpu")), session: true }),
            Hint::At(Queue::Orchestrations, 1_700_000_000_000_000),
            Hint::At(Queue::Activities, -1),
        ];
        let mut bytes = Vec::new();
        all.iter().for_each(|hint| hint.encode(&mut bytes));
        let mut input = bytes.as_slice();
        for hint in all {
            assert_eq!(Hint::decode(&mut input), Some(hint));
        }
        assert!(input.is_empty());
        assert_eq!(Hint::decode(&mut [99].as_slice()), None);
        assert_eq!(Hint::decode(&mut [TURN_AT, 1, 2].as_slice()), None);
    }
}
