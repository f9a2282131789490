-- Lanes whose oldest kept segment is older than a time, and their slowest group, for many queues. Queues with nothing
-- old are told by one step into an index, however many lanes they have.
SELECT u.n::int, a.*
FROM unnest($2::uuid[], $3::bigint[], $4::uuid[], $5::bigint[]) WITH ORDINALITY
     AS u (queue_id, before, after, most, n)
CROSS JOIN LATERAL (
    SELECT {lane}, ({slowest})
    FROM {schema}.lanes l
    WHERE l.bucket = $1 AND l.queue_id = u.queue_id AND l.tail_at < u.before
      AND (u.after IS NULL OR l.lane_id > u.after)
      AND u.before > (SELECT min(o.tail_at) FROM {schema}.lanes o WHERE o.bucket = $1 AND o.queue_id = u.queue_id)
    ORDER BY l.lane_id
    LIMIT u.most
) a
ORDER BY u.n
