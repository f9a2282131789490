-- What is held longest in the source, if anything still is. Its locks are in milliseconds.
SELECT held.what, to_timestamp(held.until::float8 / 1000)::text FROM (
    SELECT 'instance ' || l.instance_id, l.locked_until FROM {source}.instance_locks l
    UNION ALL
    SELECT 'a message of instance ' || q.instance_id, q.locked_until FROM {source}.orchestrator_queue q
    WHERE q.lock_token IS NOT NULL
    UNION ALL
    SELECT 'activity ' || q.id || coalesce(' of instance ' || q.instance_id, ''), q.locked_until FROM {source}.worker_queue q
    WHERE q.lock_token IS NOT NULL
    UNION ALL
    SELECT 'session ' || s.session_id, s.locked_until FROM {source}.sessions s
) AS held (what, until)
WHERE held.until > extract(epoch FROM clock_timestamp()) * 1000
ORDER BY held.until DESC LIMIT 1
