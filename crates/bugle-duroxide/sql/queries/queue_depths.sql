-- What waits and is not being worked on.
SELECT
    (SELECT count(*) FROM {schema}.messages m WHERE NOT EXISTS (
        SELECT FROM {schema}.instances i
        WHERE i.instance_id = m.instance_id AND i.due_at > clock_timestamp() AND m.id = ANY (i.taken))),
    (SELECT count(*) FROM {schema}.activities a WHERE a.lock_token IS NULL OR a.due_at <= clock_timestamp())
