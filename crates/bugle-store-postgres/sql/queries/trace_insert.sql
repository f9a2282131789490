-- Record a trace of a queue that exists.
INSERT INTO {schema}.traces (id, queue_id, lane_id, transaction_id, event_type, data, group_name, names, worker, created_at)
SELECT $1, q.queue_id, $3, $4, $5, $6, $7, $8, $9, $10
FROM {schema}.queues q WHERE q.queue_id = $2 FOR KEY SHARE
ON CONFLICT (id) DO NOTHING
