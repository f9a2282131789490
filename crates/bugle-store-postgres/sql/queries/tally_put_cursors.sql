-- What of cursors is in the sums now.
INSERT INTO {schema}.cursor_tallies (bucket, lane_id, group_name, queue_id, committed, consumed, served_at,
                                     lease_until, lease_end, passed, finished, leased)
SELECT $1, u.*
FROM unnest($2::uuid[], $3::text[], $4::uuid[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[],
            $10::bigint[], $11::bigint[], $12::bigint[])
     AS u (lane_id, group_name, queue_id, committed, consumed, served_at, lease_until, lease_end, passed, finished, leased)
ON CONFLICT (bucket, lane_id, group_name) DO UPDATE
SET committed = excluded.committed,
    consumed = excluded.consumed,
    served_at = excluded.served_at,
    lease_until = excluded.lease_until,
    lease_end = excluded.lease_end,
    passed = excluded.passed,
    finished = excluded.finished,
    leased = excluded.leased
