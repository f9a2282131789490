-- Commit a turn: everything or nothing. `own` is when the instance can be taken again (zero: now), `ready` and `later`
-- are what the messages to others did (see deliver). `held` is false if the lease is not the caller's any more.
CREATE OR REPLACE FUNCTION {schema}.ack_orchestration(
    _instance text, _token uuid, _execution bigint,
    _event_ids bigint[], _events text[],
    _name text, _version text, _parent text, _pin bigint, _status text, _output text,
    _has_custom_status boolean, _custom_status text,
    _kv_clear boolean, _kv_keys text[], _kv_values text[], _kv_updated bigint[],
    _act_instances text[], _act_executions bigint[], _act_ids bigint[], _act_items text[], _act_sessions text[], _act_tags text[],
    _cancel_instances text[], _cancel_executions bigint[], _cancel_ids bigint[],
    _to text[], _items text[], _visible timestamptz[], _droppable boolean[],
    OUT held boolean, OUT own bigint, OUT ready bigint, OUT later bigint)
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE
    _now timestamptz;
    _row record;
    _due timestamptz;
    _ended boolean := _status IN ('Completed', 'Failed', 'ContinuedAsNew');
BEGIN
    -- Activities before instances, like everywhere; instances in the order of their names.
    IF cardinality(_cancel_ids) > 0 THEN
        PERFORM FROM {schema}.activities a
        JOIN unnest(_cancel_instances, _cancel_executions, _cancel_ids) AS c (instance_id, execution_id, id)
            ON a.instance_id = c.instance_id AND a.execution_id = c.execution_id AND a.activity_id = c.id
        ORDER BY a.id FOR UPDATE OF a;
    END IF;
    IF cardinality(_to) > 0 THEN
        PERFORM FROM {schema}.instances i WHERE i.instance_id = ANY (_to || _instance)
        ORDER BY i.instance_id FOR UPDATE;
    END IF;
    SELECT i.lock_token, i.due_at, i.taken, i.execution_id INTO _row
    FROM {schema}.instances i WHERE i.instance_id = _instance FOR UPDATE;
    _now := clock_timestamp();
    held := FOUND AND _row.lock_token IS NOT DISTINCT FROM _token AND _row.due_at > _now;
    IF NOT held THEN
        RETURN;
    END IF;

    INSERT INTO {schema}.history (instance_id, execution_id, event_id, event)
    SELECT _instance, _execution, e.id, e.event FROM unnest(_event_ids, _events) AS e (id, event);
    DELETE FROM {schema}.messages m WHERE m.id = ANY (_row.taken);

    IF _row.execution_id IS DISTINCT FROM _execution OR _status IS NOT NULL OR _pin IS NOT NULL THEN
        INSERT INTO {schema}.executions AS x (instance_id, execution_id, status, output, pin, completed_at)
        VALUES (_instance, _execution, coalesce(_status, 'Running'), _output, _pin, CASE WHEN _ended THEN _now END)
        ON CONFLICT (instance_id, execution_id) DO UPDATE SET
            status = coalesce(_status, x.status),
            output = CASE WHEN _status IS NULL THEN x.output ELSE _output END,
            pin = coalesce(_pin, x.pin),
            completed_at = CASE WHEN _ended THEN _now ELSE x.completed_at END;
    END IF;

    IF _kv_clear OR cardinality(_kv_keys) > 0 OR _ended THEN
        PERFORM {schema}.change_kv(_instance, _ended, _kv_clear, _kv_keys, _kv_values, _kv_updated);
    END IF;
    IF cardinality(_act_ids) > 0 THEN
        INSERT INTO {schema}.activities
            (instance_id, execution_id, activity_id, item, session_id, tag, due_at, queued_at)
        SELECT a.instance_id, a.execution_id, a.id, a.item, a.session_id, a.tag, _now, _now
        FROM unnest(_act_instances, _act_executions, _act_ids, _act_items, _act_sessions, _act_tags) WITH ORDINALITY
            AS a (instance_id, execution_id, id, item, session_id, tag, place)
        ORDER BY a.place;
    END IF;
    -- After the new ones: an activity may be scheduled and cancelled in one turn.
    IF cardinality(_cancel_ids) > 0 THEN
        DELETE FROM {schema}.activities a
        USING unnest(_cancel_instances, _cancel_executions, _cancel_ids) AS c (instance_id, execution_id, id)
        WHERE a.instance_id = c.instance_id AND a.execution_id = c.execution_id AND a.activity_id = c.id;
    END IF;
    IF cardinality(_to) > 0 THEN
        SELECT d.ready, d.later INTO ready, later
        FROM {schema}.deliver(_instance, _to, _items, _visible, _droppable) d;
    END IF;

    SELECT min(m.visible_at) INTO _due FROM {schema}.messages m WHERE m.instance_id = _instance;
    own := CASE WHEN _due <= clock_timestamp() THEN 0 ELSE {schema}.micros(_due) END;
    UPDATE {schema}.instances i SET
        lock_token = NULL,
        taken = NULL,
        due_at = _due,
        name = coalesce(i.name, _name),
        version = coalesce(i.version, _version),
        execution_id = greatest(i.execution_id, _execution),
        pin = CASE WHEN _execution > i.execution_id THEN _pin ELSE coalesce(_pin, i.pin) END,
        parent_instance_id = coalesce(i.parent_instance_id, _parent),
        custom_status = CASE WHEN _has_custom_status THEN _custom_status ELSE i.custom_status END,
        custom_status_version = i.custom_status_version + _has_custom_status::integer,
        created_at = coalesce(i.created_at, _now),
        updated_at = _now
    WHERE i.instance_id = _instance;
END $$;
