-- The fallback: take account of messages that were inserted by hand, and tell when there is something to do next.
CREATE OR REPLACE FUNCTION {schema}.look(OUT now bigint, OUT adopted bigint, OUT orchestrations bigint, OUT activities bigint)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    _found record;
BEGIN
    adopted := 0;
    FOR _found IN
        WITH unknown AS (
            SELECT m.id FROM {schema}.messages m WHERE NOT m.announced ORDER BY m.id LIMIT 10000 FOR UPDATE SKIP LOCKED
        ), known AS (
            UPDATE {schema}.messages m SET announced = true FROM unknown WHERE m.id = unknown.id
            RETURNING m.instance_id, m.visible_at
        )
        SELECT instance_id, min(visible_at) AS visible_at, count(*) AS n FROM known GROUP BY instance_id ORDER BY instance_id
    LOOP
        INSERT INTO {schema}.instances AS i (instance_id, due_at) VALUES (_found.instance_id, _found.visible_at)
        ON CONFLICT (instance_id) DO UPDATE SET due_at = excluded.due_at
        WHERE i.lock_token IS NULL AND (i.due_at IS NULL OR i.due_at > excluded.due_at);
        adopted := adopted + _found.n;
    END LOOP;
    now := {schema}.micros(clock_timestamp());
    SELECT {schema}.micros(min(i.due_at)) INTO orchestrations FROM {schema}.instances i;
    SELECT {schema}.micros(least(
        (SELECT min(a.due_at) FROM {schema}.activities a WHERE a.tag IS NULL),
        (SELECT min(a.due_at) FROM {schema}.activities a WHERE a.tag IS NOT NULL))) INTO activities;
END $$;
