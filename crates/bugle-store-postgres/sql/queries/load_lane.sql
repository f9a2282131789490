-- Lanes, each with one group's cursor.
SELECT u.n::int, {lane}, {cursor}
FROM unnest($2::uuid[], $3::text[]) WITH ORDINALITY AS u (lane_id, group_name, n)
JOIN {schema}.lanes l ON l.bucket = $1 AND l.lane_id = u.lane_id
LEFT JOIN {schema}.cursors c ON c.bucket = $1 AND c.lane_id = u.lane_id AND c.group_name = u.group_name
ORDER BY u.n
