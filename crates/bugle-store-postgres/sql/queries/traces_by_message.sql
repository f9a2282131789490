-- Traces of a message, oldest first.
SELECT {trace} FROM {schema}.traces t
WHERE t.lane_id = $1 AND t.transaction_id = $2
ORDER BY t.created_at, t.id OFFSET $3 LIMIT $4
