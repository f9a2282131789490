-- Dead letters after one of them.
SELECT d.id, d.lane_id, d.message FROM {schema}.dead_letters d
WHERE d.bucket = $1 AND d.id > $2
ORDER BY d.id
LIMIT $3
