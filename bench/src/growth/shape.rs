//! What a server is brought into before it is measured, and what is done with it then. An axis is a list of these.

use crate::cli::Spread;

/// Lanes where the axis does not say.
pub(crate) const LANES: u32 = 100;
/// Payload where the axis does not say.
pub(crate) const PAYLOAD: usize = 256;
/// Messages per request where the axis does not say.
pub(crate) const BATCH: usize = 100;
/// Most messages pushed in one window: bounds what must then be popped.
const MOST: u64 = 600_000;

/// One thing that is timed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// Messages are pushed for a window.
    Push(Spread),
    /// Every group pops and acknowledges what was pushed; a pop takes from so many lanes.
    Pop {
        /// Lanes per pop.
        claim: u32,
    },
    /// The group that is behind reads a part of its backlog.
    ReadBacklog,
    /// Single messages for a consumer that waits.
    Wake,
}

impl Step {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Push(Spread::Request) => "push",
            Self::Push(Spread::Item) => "push, a lane each",
            Self::Pop { claim: 1 } => "pop + ack",
            Self::Pop { .. } => "pop + ack, a lane each",
            Self::ReadBacklog => "pop + ack of the group behind",
            Self::Wake => "wake",
        }
    }
}

/// A server's contents and surroundings.
#[derive(Debug, Clone)]
pub(crate) struct Shape {
    /// The point on its axis.
    pub(crate) label: String,
    pub(crate) lanes: u32,
    pub(crate) groups: usize,
    /// Messages that a group of their own has not read; none without such a group.
    pub(crate) backlog: Option<u64>,
    pub(crate) waiters: usize,
    pub(crate) payload: usize,
    pub(crate) batch: usize,
    /// Messages that were read go after a second.
    pub(crate) retention: bool,
    pub(crate) steps: Vec<Step>,
    /// Windows are so many times as long as asked for.
    pub(crate) longer: f64,
}

impl Default for Shape {
    fn default() -> Self {
        Self {
            label: String::new(),
            lanes: LANES,
            groups: 1,
            backlog: None,
            waiters: 0,
            payload: PAYLOAD,
            batch: BATCH,
            retention: false,
            steps: vec![Step::Push(Spread::Request), Step::Pop { claim: 1 }],
            longer: 1.0,
        }
    }
}

impl Shape {
    /// Most messages that a window pushes: many groups pop each of them.
    pub(crate) fn most(&self) -> u64 {
        (MOST / self.groups as u64).max(30_000)
    }

    /// Flags of its server.
    pub(crate) fn flags(&self) -> Vec<String> {
        let mut flags = Vec::new();
        if self.waiters > 0 {
            // Room for those who wait for messages as well.
            flags.push(format!("--max-waiters={}", self.waiters + 1000));
        }
        if self.retention {
            flags.push("--retention-interval=1s".to_owned());
        }
        flags
    }
}

/// Base and points of an axis.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    /// What every point is measured beside.
    pub(crate) base: Shape,
    pub(crate) points: Vec<Shape>,
    /// What the reader must know.
    pub(crate) told: &'static str,
}

/// A count with separators, as people write it.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_have_separators() {
        let written = [0, 999, 1000, 15_000, 1_000_000].map(count);
        assert_eq!(written, ["0", "999", "1,000", "15,000", "1,000,000"]);
    }

    #[test]
    fn many_groups_are_given_fewer_messages_and_enough_to_time() {
        let of = |groups| Shape { groups, ..Shape::default() }.most();
        assert_eq!((of(1), of(10), of(50)), (600_000, 60_000, 30_000));
    }
}
