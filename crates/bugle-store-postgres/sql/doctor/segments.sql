-- Where the segments of lanes are.
SELECT s.lane_id, s.base, s.count FROM {schema}.segments s
WHERE s.bucket = $1 AND s.lane_id = ANY ($2::uuid[]) ORDER BY s.lane_id, s.base
