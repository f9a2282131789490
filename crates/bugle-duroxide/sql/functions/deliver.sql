-- Put messages into the queue of their instances. Answers how many instances can be taken now because of it, and when
-- the first of the others can (microseconds). An instance that could be taken before counts for neither, and is not
-- written: whoever made it so has told. Nor does one that is locked: its release will tell; nor the `_holder`, whose
-- row the caller is about to release. Instances are locked in the order of their names and after everything else, here
-- and everywhere, so that no two callers wait for each other.
CREATE OR REPLACE FUNCTION {schema}.deliver(
    _holder text, _instances text[], _items text[], _visible timestamptz[], _droppable boolean[],
    OUT ready bigint, OUT later bigint)
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE
    _now timestamptz := clock_timestamp();
BEGIN
    INSERT INTO {schema}.messages (instance_id, item, visible_at, droppable, announced)
    SELECT m.instance_id, m.item, coalesce(m.visible_at, _now), m.droppable, true
    FROM unnest(_instances, _items, _visible, _droppable) WITH ORDINALITY
        AS m (instance_id, item, visible_at, droppable, place)
    ORDER BY m.place;

    WITH touched AS (
        INSERT INTO {schema}.instances AS i (instance_id, due_at)
        SELECT m.instance_id, min(coalesce(m.visible_at, _now))
        FROM unnest(_instances, _visible) AS m (instance_id, visible_at)
        WHERE m.instance_id IS DISTINCT FROM _holder
        GROUP BY m.instance_id ORDER BY m.instance_id
        ON CONFLICT (instance_id) DO UPDATE SET due_at = excluded.due_at
        WHERE i.lock_token IS NULL AND (i.due_at IS NULL OR i.due_at > excluded.due_at)
        RETURNING i.due_at
    )
    SELECT count(*) FILTER (WHERE t.due_at <= _now),
           {schema}.micros(min(t.due_at) FILTER (WHERE t.due_at > _now))
    INTO ready, later
    FROM touched t;
END $$;
