-- The queue with this id, or by this name.
SELECT {queue} FROM {schema}.queues q WHERE q.queue_id = $1 OR q.name = $2 ORDER BY q.queue_id = $1 LIMIT 1
