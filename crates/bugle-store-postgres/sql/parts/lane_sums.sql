-- Sums of queues (t) as columns: a row for each would take longer to send than to read.
coalesce(array_agg(t.queue_id), '{}'), coalesce(array_agg(t.lanes), '{}'), coalesce(array_agg(t.filled), '{}'),
coalesce(array_agg(t.kept), '{}'), coalesce(array_agg(t.appended), '{}'), coalesce(array_agg(t.dead), '{}')
