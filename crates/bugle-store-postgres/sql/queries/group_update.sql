-- Replace a group's record.
UPDATE {schema}.groups SET start_kind = $3, start_at = $4, conflation = $5, created_at = $6
WHERE queue_id = $1 AND group_name = $2
RETURNING queue_id
