-- Bodies of segments by key. Whoever changes one must find the id that is read here.
SELECT g.lane_id, g.base, g.segment_id, g.body
FROM unnest($2::uuid[], $3::bigint[]) AS u (lane_id, base)
JOIN {schema}.segments g ON g.bucket = $1 AND g.lane_id = u.lane_id AND g.base = u.base
WHERE g.bucket = $1
