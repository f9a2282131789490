//! Which requests are recorded: as their caller decided, and of those that begin a trace, a share.

use bugle_store::TraceContext;

/// See the module.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sampling {
    /// Traces whose last seven bytes are below this are recorded, as all who sample by trace id do it.
    below: u64,
}

const SPACE: u64 = 1 << 56;

impl Sampling {
    /// `ratio` from 0 to 1.
    pub(crate) fn new(ratio: f64) -> Self {
        Self { below: (ratio.clamp(0.0, 1.0) * SPACE as f64) as u64 }
    }

    /// The trace in which a request is recorded; `None` if it is not. `begins`: one that has no caller may begin one.
    pub(crate) fn decide(self, caller: Option<&TraceContext>, begins: bool) -> Option<[u8; 16]> {
        match caller {
            Some(caller) => caller.sampled().then_some(caller.trace_id),
            None => begins.then(|| fastrand::u128(1..)).filter(|id| self.takes(*id)).map(u128::to_be_bytes),
        }
    }

    fn takes(self, trace: u128) -> bool {
        (trace as u64 & (SPACE - 1)) < self.below
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_decides_for_its_trace() {
        let caller = |flags| TraceContext { trace_id: [7; 16], parent_id: [1; 8], flags, state: None };
        for ratio in [0.0, 1.0] {
            let sampling = Sampling::new(ratio);
            assert_eq!(sampling.decide(Some(&caller(1)), false), Some([7; 16]));
            assert_eq!(sampling.decide(Some(&caller(0)), true), None);
        }
    }

    #[test]
    fn of_traces_that_begin_here_a_share_is_recorded() {
        assert!(Sampling::new(1.0).decide(None, true).is_some());
        assert!(Sampling::new(1.0).decide(None, false).is_none());
        let taken = |ratio: f64| {
            let sampling = Sampling::new(ratio);
            (0..1024_u128).filter(|i| sampling.takes(i * (u128::from(SPACE) / 1024))).count()
        };
        assert_eq!((taken(0.0), taken(0.25), taken(1.0), taken(7.0)), (0, 256, 1024, 1024));
    }
}
