-- What leases hold in a bucket, each on the lane in a narrow range of ids, see lease_id.rs of bugle-store.
SELECT u.n::int, {lane}, {cursor}
FROM unnest((SELECT $2::uuid[]), (SELECT $3::uuid[]), (SELECT $4::uuid[])) WITH ORDINALITY AS u (lease_id, first, last, n)
JOIN {schema}.cursors c ON c.bucket = $1 AND c.lane_id BETWEEN u.first AND u.last AND c.lease_id = u.lease_id
JOIN {schema}.lanes l ON l.bucket = $1 AND l.lane_id = c.lane_id
ORDER BY u.n, c.lane_id, c.group_name
