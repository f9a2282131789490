-- Sums of the queues in a range of ids, as columns: a row for each would take longer to send than to read.
SELECT coalesce(array_agg(t.queue_id), '{}'), coalesce(array_agg(t.lanes), '{}'), coalesce(array_agg(t.filled), '{}'),
       coalesce(array_agg(t.kept), '{}'), coalesce(array_agg(t.appended), '{}'), coalesce(array_agg(t.dead), '{}')
FROM {schema}.queue_tallies t WHERE t.bucket = $1 AND t.queue_id BETWEEN $2 AND $3
