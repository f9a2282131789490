-- Delete a queue's traces.
DELETE FROM {schema}.traces WHERE queue_id = $1
