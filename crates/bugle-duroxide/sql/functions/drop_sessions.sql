-- Forget sessions that nobody holds and nothing waits for.
CREATE OR REPLACE FUNCTION {schema}.drop_sessions() RETURNS bigint
LANGUAGE sql AS $$
    WITH dropped AS (
        DELETE FROM {schema}.sessions s
        WHERE s.locked_until <= clock_timestamp()
            AND NOT EXISTS (SELECT FROM {schema}.activities a WHERE a.session_id = s.session_id)
        RETURNING 1
    )
    SELECT count(*) FROM dropped
$$;
