-- Sums of the groups of the queues in a range of ids.
SELECT {group_sums}
FROM {schema}.group_tallies t WHERE t.bucket = $1 AND t.queue_id BETWEEN $2 AND $3 AND t.cursors > 0
