-- What leases hold in a bucket, among the cursors changed since a second: an index over leases would change with every claim and
-- acknowledgement. How a kept plan is held to the one over seconds is told by survey.sql.
SELECT u.n::int, {lane}, {cursor}
FROM unnest((SELECT $2::uuid[]), (SELECT $3::bigint[])) WITH ORDINALITY AS u (lease_id, since, n)
CROSS JOIN LATERAL (
    SELECT k.* FROM {schema}.cursors k
    WHERE k.bucket = $1 AND k.changed_s BETWEEN u.since AND (SELECT 9223372036854775807) AND k.lease_id = u.lease_id
    ORDER BY k.changed_s
    LIMIT (SELECT 9223372036854775807)
) c
JOIN LATERAL (
    SELECT k.* FROM {schema}.lanes k WHERE k.bucket = $1 AND k.lane_id <= c.lane_id ORDER BY k.lane_id DESC LIMIT 1
) l ON l.lane_id = c.lane_id
ORDER BY u.n, c.lane_id, c.group_name
