-- First cursors of groups. Sharing the lanes' keys keeps them from being collected meanwhile.
INSERT INTO {schema}.cursors (bucket, lane_id, group_name, epoch, committed, lease_id, lease_until, lease_end,
                              attempts, deliveries, not_before, served_at, consumed, writer, changed_s)
SELECT $1, u.lane_id, u.group_name, u.epoch, u.committed, u.lease_id, u.lease_until, u.lease_end,
       u.attempts, u.deliveries, u.not_before, u.served_at, u.consumed, $2, $16
FROM unnest($3::uuid[], $4::text[], $5::bigint[], $6::bigint[], $7::bigint[], $8::uuid[], $9::bigint[], $10::bigint[],
            $11::bigint[], $12::bigint[], $13::bigint[], $14::bigint[], $15::bigint[])
     AS u (lane_id, group_name, expect, epoch, committed, lease_id, lease_until, lease_end,
            attempts, deliveries, not_before, served_at, consumed)
JOIN {schema}.lanes l ON l.lane_id = u.lane_id
WHERE l.bucket = $1 AND u.expect = 0
ORDER BY u.lane_id, u.group_name
FOR KEY SHARE OF l
ON CONFLICT (bucket, lane_id, group_name) DO NOTHING
RETURNING lane_id, group_name
