-- Forget old executions of an instance: beyond the newest `_keep`, and ended before `_before` (NULL: no such bound). The
-- current one and running ones stay.
CREATE OR REPLACE FUNCTION {schema}.prune_executions(
    _instance text, _keep bigint, _before bigint, OUT known boolean, OUT executions bigint, OUT events bigint)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    _old bigint[];
BEGIN
    PERFORM FROM {schema}.instances i WHERE i.instance_id = _instance AND i.name IS NOT NULL FOR UPDATE;
    known := FOUND;
    SELECT coalesce(array_agg(x.execution_id), '{}') INTO _old FROM (
        SELECT e.execution_id, e.status, e.completed_at, row_number() OVER (ORDER BY e.execution_id DESC) AS place
        FROM {schema}.executions e WHERE e.instance_id = _instance
    ) AS x
    WHERE x.place > greatest(_keep, 1) AND x.status <> 'Running'
        AND (_before IS NULL OR x.completed_at < to_timestamp(_before::float8 / 1000))
        AND x.execution_id <> (SELECT i.execution_id FROM {schema}.instances i WHERE i.instance_id = _instance);
    DELETE FROM {schema}.history WHERE instance_id = _instance AND execution_id = ANY (_old);
    GET DIAGNOSTICS events = ROW_COUNT;
    DELETE FROM {schema}.executions WHERE instance_id = _instance AND execution_id = ANY (_old);
    GET DIAGNOSTICS executions = ROW_COUNT;
END $$;
