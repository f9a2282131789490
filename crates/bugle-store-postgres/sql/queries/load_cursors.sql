-- All cursors of lanes.
SELECT u.n::int, {lane}, {cursor}
FROM unnest($2::uuid[]) WITH ORDINALITY AS u (lane_id, n)
{lane_by_key}
JOIN {schema}.cursors c ON c.bucket = $1 AND c.lane_id = u.lane_id
ORDER BY u.n, c.group_name
