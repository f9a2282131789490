//! Writing stored messages anew, for the change of an encryption key. The engines know where messages lie; what becomes of them is the
//! caller's business.

use bytes::Bytes;

use crate::name::LaneId;

/// Given the messages of a segment or of a dead letter of this lane: what to store in their place, or nothing if they stay. An
/// error ends the work; what was rewritten before it stays rewritten.
pub type Recode<'a> = &'a (dyn Fn(LaneId, &Bytes) -> Result<Option<Bytes>, String> + Send + Sync);

/// How far the work has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recoded {
    /// Segments and dead letters looked at.
    pub seen: u64,
    /// Of those: written anew.
    pub changed: u64,
}

impl Recoded {
    /// Count one, and whether it was written anew.
    pub fn count(&mut self, changed: bool) {
        self.seen += 1;
        self.changed += u64::from(changed);
    }
}
