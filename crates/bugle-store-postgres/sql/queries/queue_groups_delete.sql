-- Delete a queue's groups.
DELETE FROM {schema}.groups WHERE queue_id = $1
