-- Which queues there are in a range of ids.
SELECT coalesce(array_agg(q.queue_id ORDER BY q.queue_id), '{}')
FROM {schema}.queues q WHERE q.queue_id BETWEEN $1 AND $2
