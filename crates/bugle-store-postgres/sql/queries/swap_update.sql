-- Compare-and-set of cursors on their epoch, locked in ascending order. A row that was changed since the statement began has
-- another epoch: what is locked is what it sees.
WITH s AS MATERIALIZED (
    SELECT u.*{cursor_place}
    FROM unnest({lanes_given}, $4::text[], $5::bigint[], $6::bigint[], $7::bigint[], $8::uuid[], $9::bigint[], $10::bigint[],
            $11::bigint[], $12::bigint[], $13::bigint[], $14::bigint[], $15::bigint[])
         AS u (lane_id, group_name, expect, epoch, committed, lease_id, lease_until, lease_end,
            attempts, deliveries, not_before, served_at, consumed)
    {cursor_to_lock}
    WHERE c.epoch = u.expect
    ORDER BY c.lane_id, c.group_name
    FOR NO KEY UPDATE OF c
)
UPDATE {schema}.cursors c
SET epoch = s.epoch,
    committed = s.committed,
    lease_id = s.lease_id,
    lease_until = s.lease_until,
    lease_end = s.lease_end,
    attempts = s.attempts,
    deliveries = s.deliveries,
    not_before = s.not_before,
    served_at = s.served_at,
    consumed = s.consumed,
    writer = $2,
    changed_s = $16
FROM s
WHERE {locked_cursor}
RETURNING c.lane_id, c.group_name
