-- Delete a group's record.
DELETE FROM {schema}.groups WHERE queue_id = $1 AND group_name = $2 RETURNING queue_id
