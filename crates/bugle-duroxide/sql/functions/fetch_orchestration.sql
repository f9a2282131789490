-- Take one instance that is due, with all of its visible messages, and read what its turn needs. Rows that somebody
-- else is taking are skipped. With nothing to take, `instance` is NULL. `more` tells whether there is more to do now, and
-- if there is not, `next` when to look again.
CREATE OR REPLACE FUNCTION {schema}.fetch_orchestration(
    _token uuid, _lease interval, _pin_min bigint, _pin_max bigint,
    OUT now bigint, OUT next bigint, OUT more boolean,
    OUT instance text, OUT name text, OUT version text, OUT execution bigint, OUT attempts integer,
    OUT messages text[], OUT history text[],
    OUT kv_keys text[], OUT kv_values text[], OUT kv_updated bigint[])
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE
    _now timestamptz := clock_timestamp();
    _row record;
    _ids bigint[];
    _until timestamptz;
    _droppable boolean;
BEGIN
    LOOP
        SELECT i.instance_id, i.name, i.version, i.execution_id, i.lock_token, i.taken INTO _row
        FROM {schema}.instances i
        WHERE i.due_at <= _now AND (_pin_min IS NULL OR i.pin IS NULL OR i.pin BETWEEN _pin_min AND _pin_max)
        ORDER BY i.due_at LIMIT 1 FOR UPDATE SKIP LOCKED;
        EXIT WHEN NOT FOUND;

        -- A lease ended without a word: that attempt counts.
        IF _row.lock_token IS NOT NULL THEN
            UPDATE {schema}.messages m SET attempts = m.attempts + 1 WHERE m.id = ANY (_row.taken);
        END IF;
        SELECT array_agg(m.id ORDER BY m.id), array_agg(m.item ORDER BY m.id), max(m.attempts) + 1, bool_and(m.droppable)
        INTO _ids, messages, attempts, _droppable
        FROM {schema}.messages m WHERE m.instance_id = _row.instance_id AND m.visible_at <= _now;

        IF _ids IS NULL THEN
            PERFORM {schema}.release(_row.instance_id);
            CONTINUE;
        ELSIF _droppable AND _row.execution_id IS NULL THEN
            DELETE FROM {schema}.messages m WHERE m.id = ANY (_ids);
            IF {schema}.release(_row.instance_id) IS NULL THEN
                DELETE FROM {schema}.instances i WHERE i.instance_id = _row.instance_id;
            END IF;
            CONTINUE;
        END IF;

        _until := clock_timestamp() + _lease;
        UPDATE {schema}.instances i SET lock_token = _token, due_at = _until, taken = _ids
        WHERE i.instance_id = _row.instance_id;
        instance := _row.instance_id;
        name := _row.name;
        version := _row.version;
        execution := _row.execution_id;
        IF execution IS NOT NULL THEN
            SELECT array_agg(h.event ORDER BY h.event_id) INTO history
            FROM {schema}.history h WHERE h.instance_id = _row.instance_id AND h.execution_id = _row.execution_id;
            SELECT array_agg(k.key), array_agg(k.value), array_agg(k.updated_at_ms)
            INTO kv_keys, kv_values, kv_updated
            FROM {schema}.kv_store k WHERE k.instance_id = _row.instance_id;
        END IF;
        EXIT;
    END LOOP;

    now := {schema}.micros(clock_timestamp());
    -- Others may be taking these right now. Then nobody can say yet when they will be due again.
    more := EXISTS (
        SELECT FROM {schema}.instances i
        WHERE i.due_at <= _now AND (_pin_min IS NULL OR i.pin IS NULL OR i.pin BETWEEN _pin_min AND _pin_max));
    IF instance IS NULL OR NOT more THEN
        SELECT {schema}.micros(min(i.due_at)) INTO next FROM {schema}.instances i WHERE i.due_at > _now;
    END IF;
END $$;
