-- What append_whole and append_early have in common: lock, move the heads that are the known ones, insert the segments. Bodies are taken
-- from their array at the very end: each step on the way would copy them.
    FROM unnest($3::uuid[], $4::bigint[], $5::int[], $6::bigint[], $7::uuid[], $9::bigint[], $12::int[], $13::int[])
         WITH ORDINALITY AS u (lane_id, known, count, at, greatest, segment_id, a, b, n)
    {lane_to_lock}
    ORDER BY l.lane_id
    FOR NO KEY UPDATE OF l
), moved AS (
    {append}
      AND s.head = s.known
    RETURNING l.lane_id, s.head, s.count, s.stamp, s.segment_id, s.n, s.a, s.b
)
INSERT INTO {schema}.segments (bucket, lane_id, base, count, created_at, segment_id, fingerprints, body)
SELECT $1, m.lane_id, m.head, m.count, m.stamp, m.segment_id, ($11::bigint[])[m.a:m.b], ($10::bytea[])[m.n]
FROM moved m
RETURNING lane_id, base, created_at
