-- Take or keep a session for an owner; false if another holds it.
CREATE OR REPLACE FUNCTION {schema}.hold_session(_session text, _owner text, _lease interval) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO {schema}.sessions AS s (session_id, owner_id, locked_until, last_activity_at)
    VALUES (_session, _owner, clock_timestamp() + _lease, clock_timestamp())
    ON CONFLICT (session_id) DO UPDATE SET
        owner_id = _owner,
        locked_until = clock_timestamp() + _lease,
        last_activity_at = clock_timestamp()
    WHERE s.owner_id = _owner OR s.locked_until <= clock_timestamp();
    RETURN FOUND;
END $$;
