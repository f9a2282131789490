-- Lock lanes in ascending order, so that later statements of the transaction see all that was committed to them.
SELECT l.lane_id
FROM {schema}.lanes l
WHERE l.bucket = $1 AND l.lane_id = ANY ($2::uuid[])
ORDER BY l.lane_id
FOR NO KEY UPDATE
