-- Lanes by id.
SELECT {lane}
FROM {schema}.lanes l
WHERE l.bucket = $1 AND l.lane_id = ANY ($2::uuid[])
