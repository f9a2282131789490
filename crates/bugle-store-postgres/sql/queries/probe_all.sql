-- Lanes of a queue with messages for a group: walk all.
SELECT {lane}, {cursor}
FROM {schema}.lanes l
CROSS JOIN LATERAL (SELECT l.lane_id, $3::text AS group_name) u
{cursor_by_key}
WHERE l.bucket = $1 AND l.queue_id = $2 AND ($4::uuid IS NULL OR l.lane_id > $4)
  AND l.head > greatest(l.tail, coalesce(c.committed, 0))
ORDER BY l.lane_id
LIMIT $5
