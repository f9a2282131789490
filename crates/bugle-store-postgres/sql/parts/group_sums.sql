-- Sums of groups (t) as columns.
coalesce(array_agg(t.queue_id), '{}'), coalesce(array_agg(t.group_name), '{}'),
coalesce(array_agg(t.cursors), '{}'), coalesce(array_agg(t.passed), '{}'), coalesce(array_agg(t.finished), '{}'),
coalesce(array_agg(t.consumed), '{}'), coalesce(array_agg(t.served_at), '{}')
