-- Extend the live leases of these owners whose sessions were used lately.
CREATE OR REPLACE FUNCTION {schema}.renew_sessions(_owners text[], _lease interval, _idle interval) RETURNS bigint
LANGUAGE sql AS $$
    WITH renewed AS (
        UPDATE {schema}.sessions s SET locked_until = clock_timestamp() + _lease
        WHERE s.owner_id = ANY (_owners) AND s.locked_until > clock_timestamp()
            AND s.last_activity_at + _idle > clock_timestamp()
        RETURNING 1
    )
    SELECT count(*) FROM renewed
$$;
