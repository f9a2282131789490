-- Apply a turn's changes of values, and keep them for good when the execution ends.
CREATE OR REPLACE FUNCTION {schema}.change_kv(
    _instance text, _ended boolean, _clear boolean, _keys text[], _values text[], _updated bigint[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF _clear THEN
        UPDATE {schema}.kv_delta d SET value = NULL WHERE d.instance_id = _instance;
        INSERT INTO {schema}.kv_delta (instance_id, key, value, updated_at_ms)
        SELECT _instance, k.key, NULL, k.updated_at_ms FROM {schema}.kv_store k WHERE k.instance_id = _instance
        ON CONFLICT (instance_id, key) DO NOTHING;
    END IF;
    INSERT INTO {schema}.kv_delta AS d (instance_id, key, value, updated_at_ms)
    SELECT _instance, k.key, k.value, k.updated FROM unnest(_keys, _values, _updated) AS k (key, value, updated)
    ON CONFLICT (instance_id, key) DO UPDATE SET value = excluded.value, updated_at_ms = excluded.updated_at_ms;
    IF _ended THEN
        DELETE FROM {schema}.kv_store k USING {schema}.kv_delta d
        WHERE k.instance_id = _instance AND d.instance_id = _instance AND d.key = k.key AND d.value IS NULL;
        INSERT INTO {schema}.kv_store (instance_id, key, value, updated_at_ms)
        SELECT d.instance_id, d.key, d.value, d.updated_at_ms FROM {schema}.kv_delta d
        WHERE d.instance_id = _instance AND d.value IS NOT NULL
        ON CONFLICT (instance_id, key) DO UPDATE SET value = excluded.value, updated_at_ms = excluded.updated_at_ms;
        DELETE FROM {schema}.kv_delta d WHERE d.instance_id = _instance;
    END IF;
END $$;
