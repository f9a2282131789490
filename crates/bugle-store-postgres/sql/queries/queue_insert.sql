-- Create a queue unless its name or id is taken.
INSERT INTO {schema}.queues (queue_id, name, namespace, task, created_at, version, options)
VALUES ($1, $2, $3, $4, $5, $6, $7)
ON CONFLICT DO NOTHING
RETURNING queue_id
