-- Let go of an instance whose row the caller has locked: its next instant is that of its first message. Answers that
-- instant in microseconds, zero for now, NULL for none.
CREATE OR REPLACE FUNCTION {schema}.release(_instance text) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    _due timestamptz;
BEGIN
    SELECT min(m.visible_at) INTO _due FROM {schema}.messages m WHERE m.instance_id = _instance;
    UPDATE {schema}.instances SET lock_token = NULL, taken = NULL, due_at = _due WHERE instance_id = _instance;
    RETURN CASE WHEN _due <= clock_timestamp() THEN 0 ELSE {schema}.micros(_due) END;
END $$;
