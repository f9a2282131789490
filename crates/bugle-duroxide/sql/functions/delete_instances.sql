-- Delete instances with all that is theirs, or nothing. `refused` names the first one that stands in the way and
-- `child` the child that would be left behind.
CREATE OR REPLACE FUNCTION {schema}.delete_instances(
    _ids text[], _force boolean,
    OUT refused text, OUT child text,
    OUT instances bigint, OUT executions bigint, OUT events bigint, OUT queued bigint)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    _activities bigint;
BEGIN
    -- Activities before instances, like everywhere; instances in the order of their names.
    PERFORM FROM {schema}.activities a WHERE a.instance_id = ANY (_ids) ORDER BY a.id FOR UPDATE;
    PERFORM FROM {schema}.instances i WHERE i.instance_id = ANY (_ids) ORDER BY i.instance_id FOR UPDATE;
    IF NOT _force THEN
        SELECT i.instance_id INTO refused FROM {schema}.instances i
        JOIN {schema}.executions x ON x.instance_id = i.instance_id AND x.execution_id = i.execution_id
        WHERE i.instance_id = ANY (_ids) AND x.status = 'Running' ORDER BY i.instance_id LIMIT 1;
        IF FOUND THEN
            RETURN;
        END IF;
    END IF;
    SELECT i.parent_instance_id, i.instance_id INTO refused, child FROM {schema}.instances i
    WHERE i.parent_instance_id = ANY (_ids) AND i.instance_id <> ALL (_ids) ORDER BY i.instance_id LIMIT 1;
    IF FOUND THEN
        RETURN;
    END IF;
    DELETE FROM {schema}.history WHERE instance_id = ANY (_ids);
    GET DIAGNOSTICS events = ROW_COUNT;
    DELETE FROM {schema}.executions WHERE instance_id = ANY (_ids);
    GET DIAGNOSTICS executions = ROW_COUNT;
    DELETE FROM {schema}.activities WHERE instance_id = ANY (_ids);
    GET DIAGNOSTICS _activities = ROW_COUNT;
    DELETE FROM {schema}.messages WHERE instance_id = ANY (_ids);
    GET DIAGNOSTICS queued = ROW_COUNT;
    queued := queued + _activities;
    DELETE FROM {schema}.kv_store WHERE instance_id = ANY (_ids);
    DELETE FROM {schema}.kv_delta WHERE instance_id = ANY (_ids);
    WITH gone AS (DELETE FROM {schema}.instances WHERE instance_id = ANY (_ids) RETURNING name)
    SELECT count(*) FILTER (WHERE name IS NOT NULL) INTO instances FROM gone;
END $$;
