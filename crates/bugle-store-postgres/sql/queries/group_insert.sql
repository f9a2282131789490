-- Store a group of a queue that exists, unless it is there.
INSERT INTO {schema}.groups (queue_id, group_name, start_kind, start_at, conflation, created_at)
SELECT q.queue_id, $2, $3, $4, $5, $6 FROM {schema}.queues q WHERE q.queue_id = $1 FOR KEY SHARE
ON CONFLICT (queue_id, group_name) DO NOTHING
RETURNING queue_id
