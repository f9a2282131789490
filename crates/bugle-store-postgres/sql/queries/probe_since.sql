-- Lanes of a queue with messages for a group: those written since a time, and some named ones.
SELECT {lane}, {cursor}
FROM {schema}.lanes l
LEFT JOIN {schema}.cursors c ON c.bucket = $1 AND c.lane_id = l.lane_id AND c.group_name = $3
WHERE l.bucket = $1 AND l.queue_id = $2 AND ($4::uuid IS NULL OR l.lane_id > $4)
  AND l.head > greatest(l.tail, coalesce(c.committed, 0))
  AND l.lane_id IN (
      SELECT w.lane_id
      FROM {schema}.lanes w
      WHERE w.bucket = $1 AND w.queue_id = $2 AND w.written_s >= $6::bigint / 1000000 AND w.written_at >= $6
      UNION ALL
      SELECT unnest($7::uuid[]))
ORDER BY l.lane_id
LIMIT $5
