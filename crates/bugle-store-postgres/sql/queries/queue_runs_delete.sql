-- Delete a queue's fingerprint runs.
DELETE FROM {schema}.fingerprint_runs x USING {schema}.lanes l
WHERE l.bucket = $1 AND l.queue_id = $2 AND x.bucket = $1 AND x.lane_id = l.lane_id
