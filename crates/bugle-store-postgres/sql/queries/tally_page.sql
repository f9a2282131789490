-- The last lane of a page of $3 after the lane $2.
SELECT l.lane_id FROM {schema}.lanes l
WHERE l.bucket = $1 AND l.lane_id > $2
ORDER BY l.lane_id
OFFSET $3 - 1 LIMIT 1
