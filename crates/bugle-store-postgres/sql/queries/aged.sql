-- Lanes whose oldest kept segment is older than a time, and their slowest group.
SELECT {lane},
       (SELECT min(c.committed) FROM {schema}.cursors c WHERE c.bucket = $1 AND c.lane_id = l.lane_id)
FROM {schema}.lanes l
WHERE l.bucket = $1 AND l.queue_id = $2 AND l.tail_at < $3 AND ($4::uuid IS NULL OR l.lane_id > $4)
ORDER BY l.lane_id
LIMIT $5
