//! Compressed segments that were opened a moment ago.
//!
//! Fresh messages are remembered plain (`lanes.rs`). What comes back from the store may be compressed, and is asked for again and again by
//! those who take or acknowledge a segment message by message: it is opened once.

use std::borrow::Cow;
use std::collections::VecDeque;

use parking_lot::Mutex;

use bugle_store::{LaneId, MAX_PLAIN, Malformed, Segment};

/// Most segments; they are looked for one by one.
const MAX_SEGMENTS: usize = 64;

/// See the module. The longest body there is fits, and nothing beside it.
#[derive(Default)]
pub(crate) struct Opened(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    /// With plain bodies, the one asked for last at the end.
    segments: VecDeque<(LaneId, Segment)>,
    bytes: usize,
}

impl Opened {
    /// The same segment with a plain body.
    pub(crate) fn open<'a>(&self, lane: LaneId, segment: &'a Segment) -> Result<Cow<'a, Segment>, Malformed> {
        if !segment.is_packed() {
            return Ok(Cow::Borrowed(segment));
        }
        if let Some(known) = self.0.lock().find(lane, segment) {
            return Ok(Cow::Owned(known));
        }
        let opened = segment.opened()?;
        self.0.lock().keep(lane, &opened);
        Ok(Cow::Owned(opened))
    }
}

impl Kept {
    fn find(&mut self, lane: LaneId, segment: &Segment) -> Option<Segment> {
        // The id is random for every segment; the rest makes sure.
        let same = |(of, known): &(LaneId, Segment)| {
            (known.id, known.base, known.count, *of) == (segment.id, segment.base, segment.count, lane)
        };
        let at = self.segments.iter().rposition(same)?;
        let found = self.segments.remove(at)?;
        let opened = found.1.clone();
        self.segments.push_back(found);
        Some(opened)
    }

    fn keep(&mut self, lane: LaneId, opened: &Segment) {
        if self.find(lane, opened).is_some() {
            return;
        }
        self.bytes += opened.body.len();
        self.segments.push_back((lane, opened.clone()));
        while self.bytes > MAX_PLAIN || self.segments.len() > MAX_SEGMENTS {
            let Some((_, gone)) = self.segments.pop_front() else { break };
            self.bytes -= gone.body.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use bugle_store::{Codec, Timestamp, pack};
    use uuid::Uuid;

    use super::*;

    fn segment(id: u64, bytes: usize) -> Segment {
        let body = pack(Codec::Lz4, &vec![id as u8; bytes]).unwrap();
        Segment { base: 0, count: 1, created_at: Timestamp(1), id, body }
    }

    /// Where its bytes lie: what was opened before lies where it lay.
    fn place(opened: &Opened, lane: LaneId, segment: &Segment) -> usize {
        let found = opened.open(lane, segment).unwrap();
        assert!(found.body.iter().all(|byte| *byte == segment.id as u8));
        found.body.as_ptr() as usize
    }

    #[test]
    fn a_segment_is_opened_once_and_taken_for_no_other() {
        let (opened, lane) = (Opened::default(), LaneId(Uuid::new_v4()));
        let (one, two) = (segment(1, 5000), segment(2, 5000));
        let first = place(&opened, lane, &one);
        assert_ne!(place(&opened, lane, &two), first);
        assert_eq!(place(&opened, lane, &one), first);
        let kept = opened.open(lane, &one).unwrap().into_owned();
        assert_ne!(place(&opened, LaneId(Uuid::new_v4()), &one), first);
        assert_ne!(place(&opened, lane, &Segment { base: 7, ..one.clone() }), first);
        assert!(matches!(opened.open(lane, &kept), Ok(Cow::Borrowed(_))), "a plain one is left alone");
    }

    #[test]
    fn it_is_bounded_in_bytes_and_in_number() {
        let (opened, lane) = (Opened::default(), LaneId(Uuid::new_v4()));
        for id in 0..200 {
            place(&opened, lane, &segment(id, 5000));
        }
        assert_eq!(opened.0.lock().segments.len(), MAX_SEGMENTS);
        for id in 0..5 {
            place(&opened, lane, &segment(id, MAX_PLAIN / 2));
        }
        {
            let kept = opened.0.lock();
            assert_eq!((kept.segments.len(), kept.bytes), (2, MAX_PLAIN));
        }
        place(&opened, lane, &segment(9, MAX_PLAIN));
        let kept = opened.0.lock();
        assert_eq!((kept.segments.len(), kept.bytes), (1, MAX_PLAIN));
    }

    #[test]
    fn what_is_damaged_is_refused_each_time() {
        let (opened, lane) = (Opened::default(), LaneId(Uuid::new_v4()));
        let mut damaged = segment(1, 5000);
        damaged.body = damaged.body.slice(..damaged.body.len() - 1);
        for _ in 0..2 {
            assert_eq!(opened.open(lane, &damaged), Err(Malformed));
        }
        assert_eq!(opened.0.lock().bytes, 0);
    }
}
