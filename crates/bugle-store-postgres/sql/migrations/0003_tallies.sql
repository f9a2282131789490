-- Tallies: what queues hold, counted when somebody asks, see docs/decisions/0006-statistics.md. Nothing that pushes or
-- acknowledges touches the sums.

-- Which lanes to count again: those found by written_s, and those found by this, the store's clock in seconds. It is set by
-- a trim, and by an append whose stamp is not about now; an ordinary append clears it, and so has no index entry more to
-- write than before.
ALTER TABLE {schema}.lanes ADD COLUMN touched_s bigint;
CREATE INDEX lanes_touched ON {schema}.lanes (touched_s, bucket) WHERE touched_s IS NOT NULL;

-- Which cursors to count again. The bucket comes last: a plan made while the table is small cannot take this index for
-- the key.
ALTER TABLE {schema}.cursors ADD COLUMN changed_s bigint NOT NULL DEFAULT 0;
CREATE INDEX cursors_changed ON {schema}.cursors (changed_s, bucket);

ALTER TABLE {schema}.dead_letters ADD COLUMN counted boolean NOT NULL DEFAULT false;
CREATE INDEX dead_letters_uncounted ON {schema}.dead_letters (bucket, queue_id, id) WHERE NOT counted;

-- One row per bucket, made when a server opens. Its lock orders all who change what follows: it is taken after the locks
-- of lanes and cursors, and before those of dead letters.
CREATE TABLE {schema}.tally_state (
    bucket int PRIMARY KEY,
    since_s bigint NOT NULL, -- changes stamped well before this, in seconds, are counted
    walked uuid -- lanes up to this one were counted for the first time; null = all
) WITH (fillfactor = 50);

-- What of a lane is in the sums.
CREATE TABLE {schema}.lane_tallies (
    bucket int NOT NULL,
    lane_id uuid NOT NULL,
    queue_id uuid NOT NULL,
    head bigint NOT NULL,
    tail bigint NOT NULL,
    PRIMARY KEY (bucket, lane_id)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05, vacuum_truncate = off);
CREATE INDEX lane_tallies_queue ON {schema}.lane_tallies (queue_id, bucket);

-- What of a cursor is in the sums, and the values it was computed from.
CREATE TABLE {schema}.cursor_tallies (
    bucket int NOT NULL,
    lane_id uuid NOT NULL,
    group_name text COLLATE "C" NOT NULL,
    queue_id uuid NOT NULL,
    committed bigint NOT NULL,
    consumed bigint NOT NULL,
    served_at bigint NOT NULL,
    lease_until bigint,
    lease_end bigint,
    passed bigint NOT NULL,
    finished bigint NOT NULL,
    leased bigint NOT NULL,
    PRIMARY KEY (bucket, lane_id, group_name)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05, vacuum_truncate = off);
CREATE INDEX cursor_tallies_lease ON {schema}.cursor_tallies (lease_until, bucket) WHERE lease_until IS NOT NULL;

-- The sums.
CREATE TABLE {schema}.queue_tallies (
    bucket int NOT NULL,
    queue_id uuid NOT NULL,
    lanes bigint NOT NULL,
    filled bigint NOT NULL,
    kept bigint NOT NULL,
    appended bigint NOT NULL,
    dead bigint NOT NULL,
    PRIMARY KEY (bucket, queue_id)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, vacuum_truncate = off);

CREATE TABLE {schema}.group_tallies (
    bucket int NOT NULL,
    queue_id uuid NOT NULL,
    group_name text COLLATE "C" NOT NULL,
    cursors bigint NOT NULL,
    passed bigint NOT NULL,
    finished bigint NOT NULL,
    consumed bigint NOT NULL,
    served_at bigint NOT NULL,
    PRIMARY KEY (bucket, queue_id, group_name)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, vacuum_truncate = off);
