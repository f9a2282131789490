-- What leases hold in a bucket, each on the lane in a narrow range of ids, see lease_id.rs of bugle-store. A lease on one lane is one
-- group's, so one row is all there is; backwards, as in lane_by_key.
SELECT u.n::int, {lane}, {cursor}
FROM unnest((SELECT $2::uuid[]), (SELECT $3::uuid[]), (SELECT $4::uuid[])) WITH ORDINALITY AS u (lease_id, first, last, n)
CROSS JOIN LATERAL (
    SELECT k.* FROM {schema}.cursors k
    WHERE k.bucket = $1 AND k.lane_id >= u.first AND k.lane_id <= u.last AND k.lease_id = u.lease_id
    ORDER BY k.lane_id DESC, k.group_name DESC
    LIMIT 1
) c
JOIN LATERAL (
    SELECT k.* FROM {schema}.lanes k WHERE k.bucket = $1 AND k.lane_id <= c.lane_id ORDER BY k.lane_id DESC LIMIT 1
) l ON l.lane_id = c.lane_id
ORDER BY u.n, c.lane_id, c.group_name
