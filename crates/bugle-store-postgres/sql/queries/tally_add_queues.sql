-- Add to the sums of queues.
INSERT INTO {schema}.queue_tallies AS q (bucket, queue_id, lanes, filled, kept, appended, dead, version)
SELECT $1, u.*, {this_version}
FROM unnest($2::uuid[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[])
     AS u (queue_id, lanes, filled, kept, appended, dead)
ON CONFLICT (bucket, queue_id) DO UPDATE
SET lanes = q.lanes + excluded.lanes,
    filled = q.filled + excluded.filled,
    kept = q.kept + excluded.kept,
    appended = q.appended + excluded.appended,
    dead = q.dead + excluded.dead,
    version = excluded.version
