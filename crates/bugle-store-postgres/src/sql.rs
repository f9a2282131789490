//! All statements, one file each in `sql/queries`, with the types of their parameters.

use bugle_pg::{Schema, Statement, Type};

use crate::options::Extras;

/// Most segments that one statement reads of one range, so that a huge range cannot fill the memory.
pub(crate) const READ_PAGE: usize = 1000;

const LANE: &str = "l.lane_id, l.queue_id, l.name, l.head, l.tail, l.created_at, l.written_at, l.greatest";
const CURSOR: &str = "c.group_name, c.epoch, c.committed, c.lease_id, c.lease_until, c.lease_end, c.attempts, \
                      c.deliveries, c.not_before, c.served_at, c.consumed";
const QUEUE: &str = "q.queue_id, q.name, q.namespace, q.task, q.created_at, q.version, q.options";
const GROUP: &str = "g.queue_id, g.group_name, g.start_kind, g.start_at, g.conflation, g.created_at";
const TRACE: &str = "t.id, t.queue_id, t.lane_id, t.transaction_id, t.event_type, t.data, t.group_name, t.names, \
                     t.worker, t.created_at";

fn fill(sql: &str, extras: Extras) -> String {
    sql.replace("{lane}", LANE)
        .replace("{cursor}", CURSOR)
        .replace("{queue}", QUEUE)
        .replace("{group}", GROUP)
        .replace("{trace}", TRACE)
        .replace("{page}", &READ_PAGE.to_string())
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
    append_lanes(INT4, INT8, UUID_ARRAY, INT8_ARRAY, INT4_ARRAY, INT4_ARRAY, INT8_ARRAY, UUID_ARRAY);
    append_lanes_checked(INT4, INT8, UUID_ARRAY, INT8_ARRAY, INT4_ARRAY, INT4_ARRAY, INT8_ARRAY, UUID_ARRAY,
        INT8_ARRAY, INT4_ARRAY, INT4_ARRAY);
    append_segments(INT4, INT8, UUID_ARRAY, INT4_ARRAY, INT8_ARRAY, BYTEA_ARRAY, INT8_ARRAY, INT4_ARRAY, INT4_ARRAY);
    read(INT4, UUID_ARRAY, INT8_ARRAY, INT8_ARRAY, INT8_ARRAY);
    swap_insert(INT4, INT8, UUID_ARRAY, TEXT_ARRAY, INT8_ARRAY, INT8_ARRAY, INT8_ARRAY, UUID_ARRAY, INT8_ARRAY,
        INT8_ARRAY, INT8_ARRAY, INT8_ARRAY, INT8_ARRAY, INT8_ARRAY, INT8_ARRAY);
    swap_update(INT4, INT8, UUID_ARRAY, TEXT_ARRAY, INT8_ARRAY, INT8_ARRAY, INT8_ARRAY, UUID_ARRAY, INT8_ARRAY,
        INT8_ARRAY, INT8_ARRAY, INT8_ARRAY, INT8_ARRAY, INT8_ARRAY, INT8_ARRAY);
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
    load_lease(INT4, UUID_ARRAY);
    load_cursors(INT4, UUID_ARRAY);
    position(INT4, UUID_ARRAY, INT8_ARRAY);
    trim_lanes(INT4, UUID_ARRAY, INT8_ARRAY);
    trim_segments(INT4, UUID_ARRAY);
    trim_runs(INT4, UUID_ARRAY);
    aged(INT4, UUID, INT8, UUID, INT8);
    meta_insert(INT4);
    meta_get();
    catalog_version();
    catalog_bump();
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
    queue_dead_delete(UUID);
    queue_trace_names_delete(UUID);
    queue_traces_delete(UUID);
    lanes_insert(INT4, UUID_ARRAY, UUID_ARRAY, TEXT_ARRAY, INT8_ARRAY);
    lanes_list(UUID, INT8, INT8);
    group_insert(UUID, TEXT, INT4, INT8, BOOL, INT8);
    group_get(UUID, TEXT);
    group_update(UUID, TEXT, INT4, INT8, BOOL, INT8);
    group_delete(UUID, TEXT);
    group_cursors_delete(INT4, UUID, TEXT);
    dead_list(UUID, UUID, TEXT, TEXT, UUID, INT8, INT8, INT8, INT8);
    dead_count(UUID, UUID, TEXT, TEXT, UUID, INT8, INT8);
    dead_delete(INT4_ARRAY, UUID_ARRAY);
    trace_insert(UUID, UUID, UUID, TEXT, TEXT, TEXT, TEXT, TEXT_ARRAY, TEXT, INT8);
    trace_names_insert(UUID);
    traces_by_message(UUID, TEXT, INT8, INT8);
    traces_by_message_count(UUID, TEXT);
    traces_by_name(TEXT, INT8, INT8);
    traces_by_name_count(TEXT);
    trace_names(INT8, INT8);
    trace_names_count();
    expire_dead(INT8, INT8);
    expire_traces(INT8, INT8);
    expire_trace_names(UUID_ARRAY);
    expire_lanes_pick(INT4, INT8, INT8);
    expire_lanes_cursors(INT4, UUID_ARRAY);
    expire_lanes_runs(INT4, UUID_ARRAY);
    expire_lanes(INT4, UUID_ARRAY);
}
