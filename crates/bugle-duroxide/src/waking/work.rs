//! What there can be to do, and who wants which of it.

use xxhash_rust::xxh3::xxh3_64;

/// The two queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Queue {
    Orchestrations,
    Activities,
}

/// Something to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Work {
    /// An orchestration's turn.
    Turn,
    /// An activity, with its tag and whether it belongs to a session.
    Activity { tag: Option<Tag>, session: bool },
}

/// A tag, as far as waking is concerned. Two tags with one hash cost a look in vain, no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Tag(pub(crate) u64);

impl Tag {
    pub(crate) fn new(tag: &str) -> Self {
        Self(xxh3_64(tag.as_bytes()))
    }
}

impl Work {
    pub(crate) fn queue(self) -> Queue {
        match self {
            Self::Turn => Queue::Orchestrations,
            Self::Activity { .. } => Queue::Activities,
        }
    }
}

/// What a fetch would take. Fetches that want the same wait in one group and need not look twice.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Want {
    /// Turns of executions pinned to one of these framework versions, or of any.
    Turns { pins: Option<(i64, i64)> },
    /// Activities: untagged ones, those with these tags (`None`: with any), those of sessions.
    Activities { plain: bool, tags: Option<Vec<Tag>>, sessions: bool },
}

impl Want {
    pub(crate) fn queue(&self) -> Queue {
        match self {
            Self::Turns { .. } => Queue::Orchestrations,
            Self::Activities { .. } => Queue::Activities,
        }
    }

    /// Whether this may be something for it. A pin is not known here; the look will tell.
    pub(crate) fn takes(&self, work: Work) -> bool {
        match (self, work) {
            (Self::Turns { .. }, Work::Turn) => true,
            (Self::Activities { plain, tags, sessions }, Work::Activity { tag, session }) => {
                let tagged = match tag {
                    None => *plain,
                    Some(tag) => tags.as_ref().is_none_or(|t| t.contains(&tag)),
                };
                tagged && (*sessions || !session)
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_wants_what() {
        let gpu = Tag::new("gpu");
        let plain = Work::Activity { tag: None, session: false };
        let tagged = Work::Activity { tag: Some(gpu), session: false };
        let session = Work::Activity { tag: None, session: true };
        let default = Want::Activities { plain: true, tags: Some(vec![]), sessions: false };
        assert!(default.takes(plain) && !default.takes(tagged) && !default.takes(session));
        let only = Want::Activities { plain: false, tags: Some(vec![gpu]), sessions: true };
        assert!(!only.takes(plain) && only.takes(tagged) && !only.takes(session));
        let any = Want::Activities { plain: true, tags: None, sessions: true };
        assert!(any.takes(plain) && any.takes(tagged) && any.takes(session) && !any.takes(Work::Turn));
        assert!(Want::Turns { pins: None }.takes(Work::Turn));
    }
}
