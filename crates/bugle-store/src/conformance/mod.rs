//! The suite that every engine passes: what the contract promises, one case per promise.
//!
//! An engine runs it from its own tests with [`conformance!`](crate::conformance!), which makes one named test per
//! case, or with [`run_all`] inside a single test for a variant of itself. A case panics when the engine breaks its
//! promise. Cases work in queues with random names and filter whatever is global, so any number of them can share a
//! database and run at the same time.

mod fixture;

pub mod append;
pub mod commit;
pub mod contention;
pub mod dead_letter;
pub mod deletion;
pub mod find;
pub mod group;
pub mod lane;
pub mod load;
pub mod position;
pub mod probe;
pub mod queue;
pub mod read;
pub mod retention;
pub mod survey;
pub mod swap;
pub mod tally;
pub mod tally_races;
pub mod trace;

use std::any::Any;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use crate::Engine;

/// An engine to test, and whatever must live as long as it does (a directory, a server).
pub type Subject = (Arc<dyn Engine>, Box<dyn Any + Send>);

/// A case under way.
pub type Running = Pin<Box<dyn Future<Output = ()> + Send>>;

/// One promise of the contract.
#[derive(Clone, Copy)]
pub struct Case {
    /// Topic and promise, as in `append::offsets_are_gapless`.
    pub name: &'static str,
    /// Panics if the engine breaks it.
    pub run: fn(Arc<dyn Engine>) -> Running,
}

/// Run every case in turn, each on a store of its own from `factory`.
///
/// # Panics
/// At the end, naming every case that failed.
pub async fn run_all<F, Fut>(factory: F)
where
    F: Fn() -> Fut,
    Fut: Future<Output = Subject>,
{
    let mut failed = Vec::new();
    for case in cases() {
        let (engine, keep) = factory().await;
        // A task of its own, so that a panic ends the case and not the suite.
        if let Err(why) = tokio::spawn((case.run)(engine)).await {
            failed.push(format!("{}: {why}", case.name));
        }
        drop(keep);
    }
    assert!(failed.is_empty(), "{} cases failed:\n{}", failed.len(), failed.join("\n"));
}

/// From the one list of cases below: the list for [`run_all`] and the macro that makes a test of each.
macro_rules! suite {
    ($d:tt $($topic:ident: $($case:ident)*;)*) => {
        /// Every case.
        pub fn cases() -> Vec<Case> {
            vec![$($(Case {
                name: concat!(stringify!($topic), "::", stringify!($case)),
                run: |engine| Box::pin($topic::$case(engine)),
            }),*),*]
        }

        /// One test per case of the suite, grouped into modules by topic, in the module this is called in.
        ///
        /// The argument is called for every test: an async function without arguments that answers a
        /// [`Subject`](crate::conformance::Subject) with an empty store. Needs `tokio` in scope. To run the suite on
        /// several variants of an engine, call this once in a module for each.
        #[macro_export]
        macro_rules! conformance {
            ($d factory:expr) => {
                $(mod $topic {
                    #[allow(unused_imports)]
                    use super::*;
                    $(#[tokio::test(flavor = "multi_thread")]
                    async fn $case() {
                        let (engine, _keep): $crate::conformance::Subject = ($d factory)().await;
                        $crate::conformance::$topic::$case(engine).await;
                    })*
                })*
            };
        }
    };
}
suite! { $
    append:
        offsets_are_gapless
        segments_round_trip
        bodies_are_opaque_bytes
        many_messages_fit_one_segment
        head_guard_wants_the_exact_head
        fingerprint_guard_looks_above_the_known_head
        a_head_below_the_known_one_is_moved
        free_guard_takes_anything
        stamps_never_decrease
        stamps_are_exact
        greatest_is_kept
        outcomes_are_per_item
        large_batches_work
        an_empty_batch_is_fine
        no_lane_after_its_queue_was_deleted;
    swap:
        epoch_zero_creates
        a_first_row_begins_at_any_epoch
        only_the_stored_epoch_is_exchanged
        every_field_round_trips
        a_lane_is_needed
        a_span_is_read_along
        dead_letters_follow_their_exchange
        outcomes_are_per_item
        large_batches_work;
    commit:
        everything_happens
        either_half_may_be_missing
        a_refused_append_undoes_the_set
        a_refused_swap_undoes_the_set
        outcomes_are_per_set
        sets_of_one_call_happen_in_order
        lanes_may_come_in_any_order;
    read:
        ranges_yield_the_segments_they_touch
        max_bytes_stops_after_reaching
        a_trimmed_front_is_gone
        an_unknown_lane_is_empty
        batches_answer_in_order;
    find:
        all_occurrences_are_found_in_order
        repeated_questions_are_both_answered
        the_range_is_exact
        older_segments_are_ignored
        trimmed_messages_are_not_found
        extreme_fingerprints_are_found
        batches_answer_in_order;
    probe:
        ready_is_head_above_committed
        leased_lanes_are_reported
        trimmed_messages_do_not_count
        since_skips_what_was_written_before
        rechecked_lanes_ignore_since
        pages_cover_everything_once
        queues_are_separate
        confirmed_changes_are_seen_at_once;
    load:
        a_lane_with_a_cursor
        everything_a_lease_holds
        leases_are_found_where_their_ids_say
        all_cursors_of_a_lane
        batches_answer_in_order;
    position:
        the_first_offset_after_a_time
        never_below_the_tail
        batches_answer_in_order;
    retention:
        trim_moves_the_tail_and_counts
        trim_stays_between_tail_and_head
        trim_batches_answer_in_order
        aged_tells_cut_and_slowest
        aged_answers_many_queues_in_order
        expired_lanes_take_their_cursors
        old_dead_letters_expire
        old_traces_expire
        expire_respects_a_limit_of_zero
        concurrent_trims_count_once;
    survey:
        a_written_lane_appears
        all_queues_are_one_answer
        since_is_inclusive
        the_limit_keeps_what_was_written_first
        rechecked_lanes_come_with_their_cursor
        a_lane_may_be_written_and_rechecked
        the_catalog_version_is_the_snapshots
        a_deleted_queue_is_absent
        a_late_commit_is_found_by_looking_back
        announcing_changes_nothing;
    queue:
        the_store_answers_and_tells_the_time
        queues_round_trip
        a_name_is_taken_once
        updates_compare_the_version
        names_are_any_text
        the_snapshot_version_follows_changes
        switches_are_kept
        one_creation_wins
        an_unknown_queue_has_no_lanes;
    lane:
        a_new_lane_is_empty
        an_existing_lane_is_answered
        batches_answer_in_order
        lanes_are_listed_by_name
        listing_goes_on_after_any_name
        concurrent_creation_agrees;
    tally:
        queues_are_answered_by_id
        pushes_count_at_once
        trims_below_and_past_cursors
        cursors_move_both_ways
        leases_count_while_they_live
        a_deleted_group_is_gone
        expired_lanes_are_gone
        a_deleted_queue_is_gone
        dead_letters_are_counted;
    tally_races:
        random_changes_come_to_the_same
        askers_do_not_disturb_writers;
    deletion:
        deletion_takes_everything
        a_queue_created_again_is_empty
        no_lane_survives_its_queue
        no_append_survives_its_queue;
    group:
        the_first_record_wins
        records_round_trip
        an_unknown_queue_has_no_groups
        updates_replace_the_record
        deletion_forgets_cursors
        concurrent_first_contacts_agree;
    dead_letter:
        letters_round_trip
        the_latest_failure_comes_first
        filters_narrow
        the_error_narrows
        a_walk_goes_from_the_earliest_failure_on
        deletion_counts_what_was_there
        many_letters_ride_on_one_exchange;
    trace:
        traces_round_trip
        a_message_has_its_traces_oldest_first
        a_name_has_its_traces_newest_first
        names_are_summed_up;
    contention:
        free_appends_are_all_stored
        one_append_wins_each_head
        guarded_ids_are_stored_once
        one_swap_wins_each_epoch
        commits_stay_whole
        readers_see_prefixes
        trims_do_not_disturb
        crossing_batches_do_not_block;
}
