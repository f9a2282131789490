-- The cursors of lanes.
SELECT c.lane_id, c.group_name, c.epoch, c.committed, c.lease_id, c.lease_until, c.lease_end, c.attempts, c.deliveries,
    c.not_before, c.served_at, c.consumed
FROM {schema}.cursors c WHERE c.bucket = $1 AND c.lane_id = ANY ($2::uuid[])
