-- The next lanes of a bucket, with their queues.
SELECT l.lane_id, l.queue_id, l.name, l.head, l.tail, q.name
FROM {schema}.lanes l LEFT JOIN {schema}.queues q ON q.queue_id = l.queue_id
WHERE l.bucket = $1 AND l.lane_id > $2
ORDER BY l.lane_id LIMIT 500
