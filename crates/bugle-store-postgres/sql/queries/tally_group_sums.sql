-- Sums of the groups of the queues in a range of ids, as columns.
SELECT coalesce(array_agg(t.queue_id), '{}'), coalesce(array_agg(t.group_name), '{}'),
       coalesce(array_agg(t.cursors), '{}'), coalesce(array_agg(t.passed), '{}'), coalesce(array_agg(t.finished), '{}'),
       coalesce(array_agg(t.consumed), '{}'), coalesce(array_agg(t.served_at), '{}')
FROM {schema}.group_tallies t WHERE t.bucket = $1 AND t.queue_id BETWEEN $2 AND $3 AND t.cursors > 0
