-- A session that is held is in use.
CREATE OR REPLACE FUNCTION {schema}.touch_session(_session text) RETURNS void
LANGUAGE sql AS $$
    UPDATE {schema}.sessions SET last_activity_at = clock_timestamp()
    WHERE session_id = _session AND locked_until > clock_timestamp()
$$;
