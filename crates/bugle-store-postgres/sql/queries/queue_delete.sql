-- Delete a queue. Its row's lock keeps new lanes and groups out.
DELETE FROM {schema}.queues WHERE queue_id = $1 RETURNING queue_id
