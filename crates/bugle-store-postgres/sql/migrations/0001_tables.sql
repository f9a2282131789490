-- All tables. Hot ones lead with the bucket, so that a distributed PostgreSQL can place them by it.
-- Times are microseconds since 1970, UTC, given by the servers. Offsets and ids are the servers' u64 as bigint.
-- Text is compared byte by byte (COLLATE "C"); how U+0000 is kept is described in row.rs.

CREATE TABLE {schema}.meta (
    id int PRIMARY KEY CHECK (id = 1),
    buckets int NOT NULL CHECK (buckets > 0),
    catalog_version bigint NOT NULL
);

CREATE TABLE {schema}.queues (
    queue_id uuid PRIMARY KEY,
    name text COLLATE "C" NOT NULL UNIQUE,
    namespace text COLLATE "C" NOT NULL,
    task text COLLATE "C" NOT NULL,
    created_at bigint NOT NULL,
    version bigint NOT NULL,
    options text NOT NULL
);

CREATE TABLE {schema}.groups (
    queue_id uuid NOT NULL,
    group_name text COLLATE "C" NOT NULL,
    start_kind int NOT NULL, -- 0 all, 1 new, 2 from
    start_at bigint NOT NULL,
    conflation boolean NOT NULL,
    created_at bigint NOT NULL,
    PRIMARY KEY (queue_id, group_name)
);

-- One row per lane. `writer` is the random mark of the call that changed the row last, by which later statements of the
-- same transaction know whom they may follow.
CREATE TABLE {schema}.lanes (
    bucket int NOT NULL,
    lane_id uuid NOT NULL,
    queue_id uuid NOT NULL,
    name text COLLATE "C" NOT NULL,
    head bigint NOT NULL,
    tail bigint NOT NULL,
    created_at bigint NOT NULL,
    written_at bigint NOT NULL,
    written_s bigint NOT NULL, -- written_at in seconds: its index entry changes once a second, not with every push
    tail_at bigint, -- stamp of the oldest kept segment; null while empty
    writer bigint NOT NULL DEFAULT 0,
    greatest uuid,
    indexed bigint NOT NULL DEFAULT 0, -- fingerprint_runs cover what is kept below this offset
    PRIMARY KEY (bucket, lane_id)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000,
        autovacuum_analyze_scale_factor = 0.05, vacuum_truncate = off);
CREATE INDEX lanes_written ON {schema}.lanes (bucket, queue_id, written_s);
CREATE INDEX lanes_walk ON {schema}.lanes (bucket, queue_id, lane_id);
CREATE INDEX lanes_aged ON {schema}.lanes (bucket, queue_id, tail_at) WHERE tail_at IS NOT NULL;
CREATE INDEX lanes_idle ON {schema}.lanes (bucket, written_s) WHERE tail_at IS NULL;
CREATE INDEX lanes_name ON {schema}.lanes (queue_id, name);

CREATE TABLE {schema}.segments (
    bucket int NOT NULL,
    lane_id uuid NOT NULL,
    base bigint NOT NULL,
    count int NOT NULL,
    created_at bigint NOT NULL,
    segment_id bigint NOT NULL,
    fingerprints bigint[] NOT NULL,
    body bytea NOT NULL,
    PRIMARY KEY (bucket, lane_id, base)
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_insert_scale_factor = 0.1, vacuum_truncate = off);
-- Payloads are not compressed again, and their length is known without fetching them.
ALTER TABLE {schema}.segments ALTER COLUMN body SET STORAGE EXTERNAL;
ALTER TABLE {schema}.segments ALTER COLUMN fingerprints SET STORAGE EXTERNAL;

-- Fingerprints of 16384 messages at a time, divided by their last 7 bits, so that a lane with very many segments can be
-- searched without reading them all. Made when a long lane is searched, see find.rs. Offsets count from the run's first.
CREATE TABLE {schema}.fingerprint_runs (
    bucket int NOT NULL,
    lane_id uuid NOT NULL,
    part int NOT NULL,
    run bigint NOT NULL,
    newest bigint NOT NULL, -- latest stamp of its segments
    prints bigint[] NOT NULL,
    offsets int[] NOT NULL,
    PRIMARY KEY (bucket, lane_id, part, run)
) WITH (vacuum_truncate = off);
ALTER TABLE {schema}.fingerprint_runs ALTER COLUMN prints SET STORAGE EXTERNAL;

CREATE TABLE {schema}.cursors (
    bucket int NOT NULL,
    lane_id uuid NOT NULL,
    group_name text COLLATE "C" NOT NULL,
    epoch bigint NOT NULL,
    committed bigint NOT NULL,
    lease_id uuid,
    lease_until bigint,
    lease_end bigint,
    attempts bigint NOT NULL,
    deliveries bigint NOT NULL,
    not_before bigint NOT NULL,
    served_at bigint NOT NULL,
    consumed bigint NOT NULL,
    writer bigint NOT NULL,
    PRIMARY KEY (bucket, lane_id, group_name)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000,
        autovacuum_analyze_scale_factor = 0.05, vacuum_truncate = off);
CREATE INDEX cursors_lease ON {schema}.cursors (bucket, lease_id) WHERE lease_id IS NOT NULL;

CREATE TABLE {schema}.dead_letters (
    bucket int NOT NULL,
    id uuid NOT NULL,
    queue_id uuid NOT NULL,
    lane_id uuid NOT NULL,
    partition text COLLATE "C" NOT NULL,
    group_name text COLLATE "C" NOT NULL,
    at_offset bigint NOT NULL,
    message bytea NOT NULL,
    transaction_id text COLLATE "C" NOT NULL,
    error text COLLATE "C" NOT NULL,
    attempts bigint NOT NULL,
    created_at bigint NOT NULL,
    failed_at bigint NOT NULL,
    PRIMARY KEY (bucket, id)
);
CREATE INDEX dead_letters_queue ON {schema}.dead_letters (queue_id, failed_at DESC, id DESC);
CREATE INDEX dead_letters_lane ON {schema}.dead_letters (lane_id, transaction_id);
CREATE INDEX dead_letters_failed ON {schema}.dead_letters (failed_at);

CREATE TABLE {schema}.traces (
    id uuid PRIMARY KEY,
    queue_id uuid NOT NULL,
    lane_id uuid NOT NULL,
    transaction_id text COLLATE "C" NOT NULL,
    event_type text COLLATE "C" NOT NULL,
    data text COLLATE "C" NOT NULL,
    group_name text COLLATE "C" NOT NULL,
    names text[] COLLATE "C" NOT NULL,
    worker text COLLATE "C",
    created_at bigint NOT NULL
);
CREATE INDEX traces_message ON {schema}.traces (lane_id, transaction_id, created_at);
CREATE INDEX traces_queue ON {schema}.traces (queue_id);
CREATE INDEX traces_created ON {schema}.traces (created_at);

CREATE TABLE {schema}.trace_names (
    name text COLLATE "C" NOT NULL,
    trace_id uuid NOT NULL,
    lane_id uuid NOT NULL,
    transaction_id text COLLATE "C" NOT NULL,
    created_at bigint NOT NULL,
    PRIMARY KEY (name, trace_id)
);
CREATE INDEX trace_names_trace ON {schema}.trace_names (trace_id);
