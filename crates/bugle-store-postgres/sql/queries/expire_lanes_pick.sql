-- Lock lanes that are empty and were last written before a time, in ascending order.
SELECT l.lane_id FROM {schema}.lanes l
WHERE l.bucket = $1 AND l.tail_at IS NULL AND l.head = l.tail
  AND l.written_s <= $2::bigint / 1000000 AND l.written_at < $2
ORDER BY l.lane_id
LIMIT $3
FOR UPDATE{skip_locked}
