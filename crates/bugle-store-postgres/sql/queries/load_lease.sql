-- Everything that leases hold in a bucket.
SELECT u.n::int, {lane}, {cursor}
FROM unnest($2::uuid[]) WITH ORDINALITY AS u (lease_id, n)
JOIN {schema}.cursors c ON c.bucket = $1 AND c.lease_id = u.lease_id
JOIN {schema}.lanes l ON l.bucket = $1 AND l.lane_id = c.lane_id
ORDER BY u.n, c.lane_id, c.group_name
