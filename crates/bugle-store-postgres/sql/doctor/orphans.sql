-- Rows of lanes that are not there: kind, lane, number.
SELECT 'segments', s.lane_id, count(*) FROM {schema}.segments s
WHERE NOT EXISTS (SELECT FROM {schema}.lanes l WHERE l.bucket = s.bucket AND l.lane_id = s.lane_id)
GROUP BY s.lane_id
UNION ALL
SELECT 'cursors', c.lane_id, count(*) FROM {schema}.cursors c
WHERE NOT EXISTS (SELECT FROM {schema}.lanes l WHERE l.bucket = c.bucket AND l.lane_id = c.lane_id)
GROUP BY c.lane_id
LIMIT 100
