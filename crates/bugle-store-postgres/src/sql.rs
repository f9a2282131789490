//! All statements, one file each in `sql/queries`, with the types of their parameters. Statements with a common part name it
//! in braces.

use bugle_pg::{Schema, Statement, Type};

use crate::options::Extras;

/// Most segments that one statement reads of one range, so that a huge range cannot fill the memory.
pub(crate) const READ_PAGE: usize = 1000;

const LANE: &str = "l.lane_id, l.queue_id, l.name, l.head, l.tail, l.created_at, l.written_at, l.greatest";
const CURSOR: &str = "c.group_name, c.epoch, c.committed, c.lease_id, c.lease_until, c.lease_end, c.attempts, \
                      c.deliveries, c.not_before, c.served_at, c.consumed";
const QUEUE: &str = "q.queue_id, q.name, q.namespace, q.task, q.created_at, q.version, q.options";
const GROUP: &str = "g.queue_id, g.group_name, g.start_kind, g.start_at, g.conflation, g.created_at";
const DEAD: &str = "d.id, d.queue_id, d.lane_id, d.partition, d.group_name, d.at_offset, d.message, \
                    d.transaction_id, d.error, d.attempts, d.created_at, d.failed_at";
const TRACE: &str = "t.id, t.queue_id, t.lane_id, t.transaction_id, t.event_type, t.data, t.group_name, t.names, \
                     t.worker, t.created_at";

/// Announces text ($7) on a channel ($6) if there is any. Nothing is lost with it, so its commit waits for no disk.
const ANNOUNCE: &str = "CASE WHEN $7::text IS NOT NULL THEN \
                        set_config('synchronous_commit', 'off', true) || pg_notify($6::text, $7::text)::text END";

/// What several statements share, one file each in `sql/parts`. A part may name those below it.
const PARTS: &[(&str, &str)] = &[
    ("{segments}", include_str!("../sql/parts/segments.sql")),
    ("{uncounted}", include_str!("../sql/parts/uncounted.sql")),
    ("{uncounted_cursor}", include_str!("../sql/parts/uncounted_cursor.sql")),
    ("{counted_until}", include_str!("../sql/parts/counted_until.sql")),
    ("{lane_by_key}", include_str!("../sql/parts/lane_by_key.sql")),
    ("{cursor_by_key}", include_str!("../sql/parts/cursor_by_key.sql")),
    ("{cursor_moved}", include_str!("../sql/parts/cursor_moved.sql")),
    ("{append_from}", include_str!("../sql/parts/append_from.sql")),
    ("{append}", include_str!("../sql/parts/append.sql")),
    ("{lane_sums}", include_str!("../sql/parts/lane_sums.sql")),
    ("{group_sums}", include_str!("../sql/parts/group_sums.sql")),
    ("{next_version}", include_str!("../sql/parts/next_version.sql")),
    ("{this_version}", include_str!("../sql/parts/this_version.sql")),
    ("{dead_filter}", include_str!("../sql/parts/dead_filter.sql")),
    ("{inbox_rows}", include_str!("../sql/parts/inbox_rows.sql")),
];

/// A part without the comments that explain it, which would break up the statement as the server shows it.
fn bare(part: &str) -> String {
    part.lines().filter(|line| !line.starts_with("--")).collect::<Vec<_>>().join("\n")
}

/// The oldest transaction that has not ended. Elsewhere transactions are counted by several servers, each in its own way.
const SETTLED: &str = "CASE WHEN to_regclass('pg_catalog.pg_dist_partition') IS NULL \
                       THEN pg_snapshot_xmin(pg_current_snapshot())::text::bigint END";

/// Whether tables are distributed over several servers.
const DISTRIBUTED: &str = "to_regclass('pg_catalog.pg_dist_partition') IS NOT NULL";

/// How rows that are to be changed are found, locked and found again: by place, and in the portable way.
const BY_PLACE: &[(&str, &str)] = &[
    ("{cursor_to_lock}", include_str!("../sql/parts/cursor_by_place.sql")),
    ("{cursor_place}", ", c.ctid AS place"),
    ("{locked_cursor}", "c.ctid = s.place"),
    ("{lane_to_lock}", include_str!("../sql/parts/lane_by_place.sql")),
    ("{lane_place}", ", l.ctid AS place"),
    ("{locked_lane}", "l.ctid = s.place"),
    ("{lane_moved}", include_str!("../sql/parts/lane_by_key.sql")),
    ("{slowest}", include_str!("../sql/parts/slowest.sql")),
    ("{distributed}", DISTRIBUTED),
];
const BY_KEY: &[(&str, &str)] = &[
    (
        "{cursor_to_lock}",
        "JOIN {schema}.cursors c ON c.bucket = $1 AND c.lane_id = u.lane_id AND c.group_name = u.group_name",
    ),
    ("{cursor_place}", ""),
    ("{locked_cursor}", "c.bucket = $1 AND c.lane_id = s.lane_id AND c.group_name = s.group_name"),
    ("{lane_to_lock}", "JOIN {schema}.lanes l ON l.bucket = $1 AND l.lane_id = u.lane_id"),
    ("{lane_place}", ""),
    ("{locked_lane}", "l.bucket = $1 AND l.lane_id = s.lane_id"),
    ("{lane_moved}", "JOIN {schema}.lanes l ON l.lane_id = u.lane_id"),
    (
        "{slowest}",
        "SELECT min(c.committed) FROM {schema}.cursors c WHERE c.bucket = $1 AND c.lane_id = l.lane_id",
    ),
    ("{distributed}", "false"),
];

fn fill(sql: &str, extras: Extras) -> String {
    let (settled, unsettled) = match extras.row_ages {
        true => (
            SETTLED,
            format!(" AND age(w.xmin) <= (SELECT {})", bare(include_str!("../sql/parts/settled_age.sql"))),
        ),
        false => ("NULL::bigint", String::new()),
    };
    let sql = sql.replace("{settled}", settled).replace("{unsettled}", &unsettled);
    let found = if extras.row_places { BY_PLACE } else { BY_KEY };
    let parts = PARTS.iter().chain(found);
    let whole = parts.fold(sql, |sql, (place, part)| sql.replace(place, &bare(part)));
    whole
        .replace("{lane}", LANE)
        .replace("{cursor}", CURSOR)
        .replace("{queue}", QUEUE)
        .replace("{group}", GROUP)
        .replace("{dead}", DEAD)
        .replace("{trace}", TRACE)
        .replace("{page}", &READ_PAGE.to_string())
        .replace("{announce}", if extras.listen { ANNOUNCE } else { "NULL" })
        .replace("{skip_locked}", if extras.skip_locked { " SKIP LOCKED" } else { "" })
}

macro_rules! statements {
    ($($name:ident($($ty:ident),*);)*) => {
        /// Every statement, ready for one schema.
        pub(crate) struct Sql { $(pub(crate) $name: Statement,)* }

        impl Sql {
            /// Put the schema and the extras into all statements.
            pub(crate) fn new(schema: &Schema, extras: Extras) -> Self {
                Self { $($name: {
                    const TYPES: &[Type] = &[$(Type::$ty),*];
                    let sql = include_str!(concat!("../sql/queries/", stringify!($name), ".sql"));
                    Statement::new(schema, &fill(sql, extras), TYPES)
                },)* }
            }
        }
    };
}

statements! {
    lanes_lock(INT4, UUID_ARRAY);
    lanes_by_id(INT4, UUID_ARRAY);
    append_lanes(INT4, INT8, UUID_ARRAY, INT8_ARRAY, INT4_ARRAY, INT4_ARRAY, INT8_ARRAY, UUID_ARRAY, INT8);
    append_lanes_checked(INT4, INT8, UUID_ARRAY, INT8_ARRAY, INT4_ARRAY, INT4_ARRAY, INT8_ARRAY, UUID_ARRAY,
        INT8_ARRAY, INT4_ARRAY, INT4_ARRAY, INT8);
    append_whole(INT4, INT8, UUID_ARRAY, INT8_ARRAY, INT4_ARRAY, INT8_ARRAY, UUID_ARRAY, INT8,
        INT8_ARRAY, BYTEA_ARRAY, INT8_ARRAY, INT4_ARRAY, INT4_ARRAY);
    append_early(INT4, INT8, UUID_ARRAY, INT8_ARRAY, INT4_ARRAY, INT8_ARRAY, UUID_ARRAY, INT8,
        INT8_ARRAY, BYTEA_ARRAY, INT8_ARRAY, INT4_ARRAY, INT4_ARRAY);
    append_segments(INT4, INT8, UUID_ARRAY, INT4_ARRAY, INT8_ARRAY, BYTEA_ARRAY, INT8_ARRAY, INT4_ARRAY, INT4_ARRAY);
    read(INT4, UUID_ARRAY, INT8_ARRAY, INT8_ARRAY, INT8_ARRAY);
    swap_insert(INT4, INT8, UUID_ARRAY, TEXT_ARRAY, INT8_ARRAY, INT8_ARRAY, INT8_ARRAY, UUID_ARRAY, INT8_ARRAY,
        INT8_ARRAY, INT8_ARRAY, INT8_ARRAY, INT8_ARRAY, INT8_ARRAY, INT8_ARRAY, INT8);
    swap_update(INT4, INT8, UUID_ARRAY, TEXT_ARRAY, INT8_ARRAY, INT8_ARRAY, INT8_ARRAY, UUID_ARRAY, INT8_ARRAY,
        INT8_ARRAY, INT8_ARRAY, INT8_ARRAY, INT8_ARRAY, INT8_ARRAY, INT8_ARRAY, INT8);
    swap_dead(INT4, INT8, UUID_ARRAY, TEXT_ARRAY, UUID_ARRAY, UUID_ARRAY, UUID_ARRAY, TEXT_ARRAY, TEXT_ARRAY,
        INT8_ARRAY, BYTEA_ARRAY, TEXT_ARRAY, TEXT_ARRAY, INT8_ARRAY, INT8_ARRAY, INT8_ARRAY);
    swap_read(INT4, INT8, UUID_ARRAY, TEXT_ARRAY, INT8_ARRAY, INT8_ARRAY, INT8_ARRAY);
    find(INT4, UUID_ARRAY, INT8_ARRAY, INT8_ARRAY, INT8_ARRAY, INT4_ARRAY, INT4_ARRAY, INT8_ARRAY);
    run_due(INT4, UUID_ARRAY);
    run_hold(INT4, UUID);
    run_insert(INT4, UUID, INT8);
    run_cover(INT4, UUID, INT8, INT8);
    probe_all(INT4, UUID, TEXT, UUID, INT8);
    probe_since(INT4, UUID, TEXT, UUID, INT8, INT8, UUID_ARRAY);
    load_lane(INT4, UUID_ARRAY, TEXT_ARRAY);
    load_lease(INT4, UUID_ARRAY, INT8_ARRAY);
    load_lease_near(INT4, UUID_ARRAY, UUID_ARRAY, UUID_ARRAY);
    load_cursors(INT4, UUID_ARRAY);
    position(INT4, UUID_ARRAY, INT8_ARRAY);
    trim_lanes(INT4, UUID_ARRAY, INT8_ARRAY, INT8);
    trim_segments(INT4, UUID_ARRAY, INT8_ARRAY);
    trim_runs(INT4, UUID_ARRAY);
    aged(INT4, UUID_ARRAY, INT8_ARRAY, UUID_ARRAY, INT8_ARRAY);
    survey(INT4, INT8, UUID_ARRAY, TEXT_ARRAY, INT8, TEXT, TEXT);
    inbox_front(TEXT, TEXT, TEXT_ARRAY, INT8, INT8, INT8);
    inbox_lock(TEXT_ARRAY, TEXT_ARRAY, INT4_ARRAY, INT8_ARRAY);
    inbox_delete(TEXT_ARRAY, TEXT_ARRAY, INT4_ARRAY, INT8_ARRAY);
    inbox_depth(INT8);
    internals();
    meta_insert(INT4);
    meta_get();
    catalog_version();
    catalog_bump();
    switches_get();
    switches_put(BOOL, BOOL);
    queues_all();
    groups_all();
    queue_insert(UUID, TEXT, TEXT, TEXT, INT8, INT8, TEXT);
    queue_update(UUID, TEXT, TEXT, INT8, TEXT);
    queue_get(UUID, TEXT);
    queue_delete(UUID);
    queue_lanes_lock(INT4, UUID);
    queue_segments_delete(INT4, UUID);
    queue_runs_delete(INT4, UUID);
    queue_cursors_delete(INT4, UUID);
    queue_lanes_delete(INT4, UUID);
    queue_groups_delete(UUID);
    queue_cursor_tallies_delete(INT4, UUID);
    queue_lane_tallies_delete(INT4, UUID);
    queue_group_tallies_delete(INT4, UUID);
    queue_tally_delete(INT4, UUID);
    queue_dead_delete(UUID);
    queue_trace_names_delete(UUID);
    queue_traces_delete(UUID);
    lanes_insert(INT4, UUID_ARRAY, UUID_ARRAY, TEXT_ARRAY, INT8_ARRAY, INT8);
    lanes_first(UUID, INT8);
    lanes_after(UUID, TEXT, INT8);
    tally_open(INT4, INT8);
    tally_hold(INT4);
    tally_part(INT4);
    tally_part_groups(INT4, UUID_ARRAY, TEXT);
    tally_begin(INT4);
    tally_changed(INT4, INT8, INT8, BOOL);
    tally_page(INT4, UUID, INT8);
    tally_walked(INT4, INT8, UUID, UUID);
    tally_letters(INT4, INT8);
    tally_put_lanes(INT4, UUID_ARRAY, UUID_ARRAY, INT8_ARRAY, INT8_ARRAY);
    tally_put_cursors(INT4, UUID_ARRAY, TEXT_ARRAY, UUID_ARRAY, INT8_ARRAY, INT8_ARRAY, INT8_ARRAY, INT8_ARRAY,
        INT8_ARRAY, INT8_ARRAY, INT8_ARRAY, INT8_ARRAY);
    tally_add_queues(INT4, UUID_ARRAY, INT8_ARRAY, INT8_ARRAY, INT8_ARRAY, INT8_ARRAY, INT8_ARRAY);
    tally_add_groups(INT4, UUID_ARRAY, TEXT_ARRAY, INT8_ARRAY, INT8_ARRAY, INT8_ARRAY, INT8_ARRAY, INT8_ARRAY);
    tally_end(INT4, INT8, UUID, INT8, BOOL);
    tally_take_lanes(INT4, UUID_ARRAY);
    tally_take_cursors(INT4, UUID_ARRAY, TEXT);
    tally_drop_lanes(INT4, UUID_ARRAY);
    tally_drop_cursors(INT4, UUID_ARRAY, TEXT);
    tally_drop_groups(INT4, UUID_ARRAY, TEXT);
    tally_queues(UUID, UUID);
    tally_lane_sums(INT4, UUID, UUID);
    tally_group_sums(INT4, UUID, UUID);
    tally_queues_since(INT8);
    tally_lane_sums_since(INT4, INT8);
    tally_group_sums_since(INT4, INT8);
    tally_leases(INT4, UUID, UUID, INT8);
    group_insert(UUID, TEXT, INT4, INT8, BOOL, INT8);
    group_get(UUID, TEXT);
    group_update(UUID, TEXT, INT4, INT8, BOOL, INT8);
    group_delete(UUID, TEXT);
    group_cursors_delete(INT4, UUID, TEXT);
    dead_list(UUID, UUID, TEXT, TEXT, UUID, INT8, INT8, TEXT, INT8, INT8);
    dead_after(UUID, UUID, TEXT, TEXT, UUID, INT8, INT8, TEXT, INT8, UUID, INT8);
    dead_count(UUID, UUID, TEXT, TEXT, UUID, INT8, INT8, TEXT);
    dead_delete(INT4_ARRAY, UUID_ARRAY);
    trace_insert(UUID, UUID, UUID, TEXT, TEXT, TEXT, TEXT, TEXT_ARRAY, TEXT, INT8);
    trace_names_insert(UUID);
    traces_by_message(UUID, TEXT, INT8, INT8);
    traces_by_message_count(UUID, TEXT);
    traces_by_name(TEXT, INT8, INT8);
    traces_by_name_count(TEXT);
    trace_names(INT8, INT8);
    trace_names_count();
    recode_keys(INT4, UUID, INT8, INT8);
    recode_read(INT4, UUID_ARRAY, INT8_ARRAY);
    recode_write(INT4, UUID_ARRAY, INT8_ARRAY, INT8_ARRAY, INT8_ARRAY, BYTEA_ARRAY);
    recode_letters(INT4, UUID, INT8);
    recode_letters_write(INT4, UUID_ARRAY, BYTEA_ARRAY);
    expire_dead_due(INT8);
    expire_dead(INT8, INT8);
    expire_traces(INT8, INT8);
    expire_trace_names(UUID_ARRAY);
    expire_lanes_pick(INT4, INT8, INT8);
    expire_lanes_cursors(INT4, UUID_ARRAY);
    expire_lanes_runs(INT4, UUID_ARRAY);
    expire_lanes(INT4, UUID_ARRAY);
}

#[cfg(test)]
mod tests {
    use bugle_pg::Row;

    use super::*;
    use crate::fixture::{Fixture, fixture};

    const SWAP_TYPES: &str = "int, bigint, uuid[], text[], bigint[], bigint[], bigint[], uuid[], bigint[], bigint[], \
                              bigint[], bigint[], bigint[], bigint[], bigint[], bigint";
    const SWAP_VALUES: &str =
        "0, 1, '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', 1";

    /// The plan of a statement that was prepared and used on empty tables, once they have grown and before the server
    /// knows it.
    async fn kept_plan(sql: &str, types: &str, values: &str) -> String {
        let grow = "INSERT INTO {schema}.lanes
            SELECT 0, md5(n::text)::uuid, md5('q')::uuid, n::text, 1, 0, n, n, n, n FROM generate_series(1, 2000) n";
        plan_after(grow, sql, types, values).await
    }

    async fn plan_after(grow: &str, sql: &str, types: &str, values: &str) -> String {
        let Fixture { store, schema, .. } = fixture().await;
        let schema = Schema::new(&schema).unwrap();
        let mut conn = store.pool.get().await.unwrap();
        let prepare = format!("PREPARE kept ({types}) AS {}", fill(sql, Extras::default()));
        conn.execute_batch(&schema.fill(&prepare)).await.unwrap();
        for _ in 0..7 {
            conn.execute_batch(&format!("EXECUTE kept ({values})")).await.unwrap();
        }
        conn.execute_batch(&schema.fill(grow)).await.unwrap();
        let explain = Statement::new(&schema, &format!("EXPLAIN (COSTS off) EXECUTE kept ({values})"), &[]);
        let rows = conn.query(&explain, &[]).await.unwrap();
        let line = |row: &Row| row.get::<_, String>(0);
        rows.iter().map(line).collect::<Vec<_>>().join("\n")
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_kept_survey_goes_by_what_was_written_and_by_key() {
        let sql = include_str!("../sql/queries/survey.sql");
        let types = "int, bigint, uuid[], text[], bigint, text, text";
        let plan = kept_plan(sql, types, "0, 1, '{}', '{}', 100, 'c', NULL").await;
        assert!(plan.contains("lanes_recent"), "{plan}");
        assert!(plan.contains("(bucket = $1) AND (written_s >="), "{plan}");
        assert!(plan.contains("(bucket = $1) AND (lane_id <= u.lane_id)"), "{plan}");
        assert!(!plan.contains("Seq Scan"), "{plan}");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_kept_probe_goes_by_what_was_written_and_by_key() {
        let sql = include_str!("../sql/queries/probe_since.sql");
        let types = "int, uuid, text, uuid, bigint, bigint, uuid[]";
        let plan = kept_plan(sql, types, "0, md5('q')::uuid, 'g', NULL, 100, 1, '{}'").await;
        assert!(plan.contains("written_s >="), "{plan}");
        assert!(plan.contains("(bucket = $1) AND (lane_id <= u.lane_id)"), "{plan}");
        assert!(!plan.contains("Seq Scan"), "{plan}");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_kept_look_at_lanes_goes_by_key() {
        let sql = include_str!("../sql/queries/load_lane.sql");
        let plan = kept_plan(sql, "int, uuid[], text[]", "0, '{}', '{}'").await;
        assert!(plan.contains("(bucket = $1) AND (lane_id <= u.lane_id)"), "{plan}");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn kept_changes_go_to_the_newest_version_and_then_to_its_place() {
        let sql = include_str!("../sql/queries/append_lanes.sql");
        let types = "int, bigint, uuid[], bigint[], int[], int[], bigint[], uuid[], bigint";
        let plan = kept_plan(sql, types, "0, 1, '{}', '{}', '{}', '{}', '{}', '{}', 1").await;
        let found = ["Index Scan Backward using lanes_pkey", "(ctid = f.place)", "(ctid = s.place)"];
        assert!(found.iter().all(|part| plan.contains(part)), "{plan}");
        let sql = include_str!("../sql/queries/append_whole.sql");
        let types = "int, bigint, uuid[], bigint[], int[], bigint[], uuid[], bigint, bigint[], bytea[], bigint[], int[], int[]";
        let values = "0, 1, '{}', '{}', '{}', '{}', '{}', 1, '{}', '{}', '{}', '{}', '{}'";
        let plan = kept_plan(sql, types, values).await;
        assert!(found.iter().all(|part| plan.contains(part)) && !plan.contains("Seq Scan"), "{plan}");
        let sql = include_str!("../sql/queries/trim_lanes.sql");
        let plan = kept_plan(sql, "int, uuid[], bigint[], bigint", "0, '{}', '{}', 1").await;
        assert!(found.iter().all(|part| plan.contains(part)), "{plan}");
        let sql = include_str!("../sql/queries/lanes_lock.sql");
        let plan = kept_plan(sql, "int, uuid[]", "0, '{}'").await;
        assert!(found[..2].iter().all(|part| plan.contains(part)), "{plan}");
        let sql = include_str!("../sql/queries/trim_segments.sql");
        let plan = kept_plan(sql, "int, uuid[], bigint[]", "0, '{}', '{}'").await;
        assert!(plan.contains(found[0]) && !plan.contains("Seq Scan"), "{plan}");
        assert!(plan.contains("(base >= s.first) AND (base < s.next)"), "{plan}");
        let sql = include_str!("../sql/queries/swap_update.sql");
        let plan = kept_plan(sql, SWAP_TYPES, SWAP_VALUES).await;
        let found = ["Index Scan Backward using cursors_pkey", "(ctid = f.place)", "(ctid = s.place)"];
        assert!(found.iter().all(|part| plan.contains(part)), "{plan}");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn who_knows_of_old_versions_still_looks_for_the_newest_first() {
        let grow = "INSERT INTO {schema}.cursors (bucket, lane_id, group_name, epoch, committed, attempts, deliveries, not_before,
                                                  served_at, consumed, writer)
                SELECT 0, md5((n % 24)::text)::uuid, 'g' || n / 24, 0, 0, 0, 0, 0, 0, 0, 0 FROM generate_series(0, 20000) n;
            DELETE FROM {schema}.cursors WHERE group_name NOT IN ('g0', 'g1', 'g2');
            ANALYZE {schema}.cursors";
        let looks = [
            (include_str!("../sql/queries/load_lane.sql"), "int, uuid[], text[]", "0, '{}', '{}'"),
            (include_str!("../sql/queries/swap_update.sql"), SWAP_TYPES, SWAP_VALUES),
        ];
        for (sql, types, values) in looks {
            let plan = plan_after(grow, sql, types, values).await;
            assert!(plan.contains("Index Scan Backward using cursors_pkey"), "{plan}");
            assert!(!plan.contains("Bitmap") && !plan.contains("Seq Scan"), "{plan}");
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_kept_look_for_a_lease_goes_where_its_id_says() {
        let sql = include_str!("../sql/queries/load_lease_near.sql");
        let plan = kept_plan(sql, "int, uuid[], uuid[], uuid[]", "0, '{}', '{}', '{}'").await;
        assert!(plan.contains("(bucket = $1) AND (lane_id >= u.first) AND (lane_id <= u.last)"), "{plan}");
        let sql = include_str!("../sql/queries/load_lease.sql");
        let plan = kept_plan(sql, "int, uuid[], bigint[]", "0, '{}', '{}'").await;
        assert!(plan.contains("cursors_changed") && plan.contains("(changed_s >= u.since)"), "{plan}");
        assert!(!plan.contains("Seq Scan"), "{plan}");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_kept_look_for_what_changed_goes_by_marks_and_by_key() {
        let sql = include_str!("../sql/queries/tally_changed.sql");
        let plan = kept_plan(sql, "int, bigint, bigint, bool", "0, 100, 1, true").await;
        for index in
            ["lanes_recent", "lanes_touched", "cursors_changed", "lane_tallies_pkey", "cursor_tallies_pkey"]
        {
            assert!(plan.contains(index), "{index}: {plan}");
        }
        assert!(plan.contains("(bucket = $1) AND (lane_id <= u.lane_id)"), "{plan}");
        assert!(plan.contains("(bucket = $1) AND (lane_id = u.lane_id)"), "{plan}");
        assert!(!plan.contains("Seq Scan"), "{plan}");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_kept_look_for_letters_goes_by_those_not_counted() {
        let sql = include_str!("../sql/queries/tally_letters.sql");
        let plan = kept_plan(sql, "int, bigint", "0, 100").await;
        assert!(plan.contains("dead_letters_uncounted"), "{plan}");
    }
}
