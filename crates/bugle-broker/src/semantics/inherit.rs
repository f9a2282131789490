//! Which trace a message belongs to that was pushed where others were acknowledged, and that names none itself.

use std::sync::Arc;

use bugle_store::TraceContext;

/// What is pushed in the transaction that acknowledges messages follows from them: it belongs to the trace of the first of
/// them that belongs to one.
pub(crate) fn inherited<'a>(
    mut acknowledged: impl Iterator<Item = Option<&'a Arc<TraceContext>>>,
) -> Option<Arc<TraceContext>> {
    acknowledged.find_map(|context| context.cloned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_that_belongs_to_a_trace_decides() {
        let of = |id| {
            Some(Arc::new(TraceContext { trace_id: [id; 16], parent_id: [1; 8], flags: 0, state: None }))
        };
        let (one, two) = (of(1), of(2));
        let all = [&None, &two, &one];
        assert_eq!(inherited(all.iter().map(|context| context.as_ref())), two);
        assert_eq!(inherited([None, None].into_iter()), None);
    }
}
