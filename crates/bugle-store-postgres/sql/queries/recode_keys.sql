-- Segments after one of them, with the length of their bodies.
SELECT g.lane_id, g.base, octet_length(g.body)::bigint
FROM {schema}.segments g
WHERE g.bucket = $1 AND (g.lane_id, g.base) > ($2, $3)
ORDER BY g.lane_id, g.base
LIMIT $4
