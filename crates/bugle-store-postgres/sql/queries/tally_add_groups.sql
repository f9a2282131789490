-- Add to the sums of groups.
INSERT INTO {schema}.group_tallies AS g (bucket, queue_id, group_name, cursors, passed, finished, consumed, served_at, version)
SELECT $1, u.*, {this_version}
FROM unnest($2::uuid[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[])
     AS u (queue_id, group_name, cursors, passed, finished, consumed, served_at)
ON CONFLICT (bucket, queue_id, group_name) DO UPDATE
SET cursors = g.cursors + excluded.cursors,
    passed = g.passed + excluded.passed,
    finished = g.finished + excluded.finished,
    consumed = g.consumed + excluded.consumed,
    served_at = greatest(g.served_at, excluded.served_at),
    version = excluded.version
