//! The calls of an engine as a list, for engines that stand around another and pass calls on: they slow them down, lose their
//! answers, count them. Tests have several of those, and a method that is added is added here once.

/// Named by the macro's users through this crate.
#[doc(hidden)]
pub use uuid::Uuid as RowId;

/// Hands the signatures of an engine's asynchronous calls to the macro `$each`, in the form
/// `name(argument: Type, …) -> Answer;`, one after the other. To be used inside of an `impl` of the trait.
///
/// Of [`Store`](crate::Store) there are the sections `append`, `swap`, `changes` (the other calls that change something) and
/// `questions`; of [`Catalog`](crate::Catalog) there are `catalog_changes` and `catalog_questions`.
///
/// ```
/// # use std::sync::Arc;
/// # use bugle_store::{Answer, Catalog, Engine};
/// struct Around(Arc<dyn Engine>);
///
/// macro_rules! pass_on {
///     ($($name:ident($($arg:ident: $type:ty),*) -> $answer:ty;)*) => {$(
///         fn $name(&self, $($arg: $type),*) -> Answer<'_, $answer> {
///             self.0.$name($($arg),*)
///         }
///     )*};
/// }
///
/// impl Catalog for Around {
///     bugle_store::engine_calls!(catalog_changes, catalog_questions => pass_on);
/// }
/// ```
#[macro_export]
macro_rules! engine_calls {
    (@append $each:ident) => {
        $each! { append(batch: Vec<$crate::Append>) -> Vec<Result<$crate::Appended, $crate::AppendError>>; }
    };
    (@swap $each:ident) => {
        $each! { swap(batch: Vec<$crate::Swap>) -> Vec<Result<$crate::Swapped, $crate::SwapError>>; }
    };
    (@changes $each:ident) => {
        $each! {
            commit(batch: Vec<$crate::Commit>) -> Vec<Result<$crate::Committed, $crate::CommitError>>;
            trim(batch: Vec<$crate::Trim>) -> Vec<u64>;
        }
    };
    (@questions $each:ident) => {
        $each! {
            read(batch: Vec<$crate::Read>) -> Vec<$crate::Segments>;
            find(batch: Vec<$crate::Find>) -> Vec<Vec<$crate::Found>>;
            probe(batch: Vec<$crate::Probe>) -> Vec<$crate::Probed>;
            load(batch: Vec<$crate::Load>) -> Vec<Vec<$crate::LaneCursor>>;
            position(batch: Vec<$crate::Position>) -> Vec<$crate::Offset>;
            aged(batch: Vec<$crate::Aged>) -> Vec<Vec<$crate::AgedLane>>;
            survey(survey: $crate::Survey) -> $crate::Surveyed;
            flush() -> ();
        }
    };
    (@catalog_changes $each:ident) => {
        $each! {
            put_switches(change: $crate::PutSwitches) -> $crate::Switches;
            put_queue(queue: $crate::Queue) -> $crate::PutQueue;
            delete_queue(id: $crate::QueueId) -> bool;
            ensure_lanes(batch: Vec<$crate::NewLane>) -> Vec<Result<$crate::Lane, $crate::LaneError>>;
            put_group(group: $crate::GroupRecord) -> Option<$crate::GroupRecord>;
            update_group(group: $crate::GroupRecord) -> bool;
            delete_group(queue: $crate::QueueId, group: $crate::Group, record: bool) -> u64;
            delete_dead_letters(ids: Vec<$crate::RowId>) -> u64;
            put_trace(trace: $crate::Trace) -> ();
            expire(what: $crate::Expire, limit: usize) -> u64;
        }
    };
    (@catalog_questions $each:ident) => {
        $each! {
            ping() -> ();
            snapshot(known: Option<u64>) -> Option<$crate::Snapshot>;
            lanes(queue: $crate::QueueId, after: Option<std::sync::Arc<str>>, limit: usize) -> Vec<$crate::Lane>;
            tallies(queues: Option<Vec<$crate::QueueId>>, now: $crate::Timestamp) -> Vec<$crate::QueueTally>;
            dead_letters(filter: $crate::DeadLetterFilter, page: $crate::Page) -> (Vec<$crate::DeadLetter>, u64);
            dead_letters_after(
                filter: $crate::DeadLetterFilter,
                after: Option<($crate::Timestamp, $crate::RowId)>,
                limit: usize
            ) -> Vec<$crate::DeadLetter>;
            traces(filter: $crate::TraceFilter, page: $crate::Page) -> (Vec<$crate::Trace>, u64);
            trace_names(page: $crate::Page) -> (Vec<$crate::TraceName>, u64);
        }
    };
    ($($section:ident),+ => $each:ident) => { $( $crate::engine_calls!(@$section $each); )+ };
}
