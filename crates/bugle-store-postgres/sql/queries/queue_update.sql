-- Replace a queue of the version before.
UPDATE {schema}.queues
SET namespace = $2, task = $3, version = $4, options = $5
WHERE queue_id = $1 AND version = $4 - 1
RETURNING queue_id
