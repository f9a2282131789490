-- Sums of the queues in a range of ids.
SELECT {lane_sums}
FROM {schema}.queue_tallies t WHERE t.bucket = $1 AND t.queue_id BETWEEN $2 AND $3
