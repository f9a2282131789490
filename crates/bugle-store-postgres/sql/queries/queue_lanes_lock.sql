-- Lock a queue's lanes, in ascending order, before they are deleted.
SELECT l.lane_id FROM {schema}.lanes l WHERE l.bucket = $1 AND l.queue_id = $2 ORDER BY l.lane_id FOR UPDATE
