-- Lanes of a queue with messages for a group: walk all.
SELECT {lane}, {cursor}
FROM {schema}.lanes l
LEFT JOIN {schema}.cursors c ON c.bucket = $1 AND c.lane_id = l.lane_id AND c.group_name = $3
WHERE l.bucket = $1 AND l.queue_id = $2 AND ($4::uuid IS NULL OR l.lane_id > $4)
  AND l.head > greatest(l.tail, coalesce(c.committed, 0))
ORDER BY l.lane_id
LIMIT $5
