-- Delete what of a queue's cursors was in the sums.
DELETE FROM {schema}.cursor_tallies x USING {schema}.lane_tallies t
WHERE t.bucket = $1 AND t.queue_id = $2 AND x.bucket = $1 AND x.lane_id = t.lane_id
