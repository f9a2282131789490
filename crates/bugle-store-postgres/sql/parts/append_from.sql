-- What append_whole and append_early have in common: lock, move the heads, insert the segments. Bodies are taken from their array at the
-- very end: each step on the way would copy them.
    FROM unnest($3::uuid[], $4::bigint[], $5::int[], $6::int[], $7::bigint[], $8::uuid[], $10::bigint[], $13::int[], $14::int[])
         WITH ORDINALITY AS u (lane_id, known, guard, count, at, greatest, segment_id, a, b, n)
    {lane_to_lock}
    ORDER BY l.lane_id
    FOR NO KEY UPDATE OF l
), moved AS (
    {append}
      AND (s.guard = 0 OR s.head = s.known)
    RETURNING l.lane_id, s.head, s.count, s.stamp, s.segment_id, s.n, s.a, s.b
)
INSERT INTO {schema}.segments (bucket, lane_id, base, count, created_at, segment_id, fingerprints, body)
SELECT $1, m.lane_id, m.head, m.count, m.stamp, m.segment_id, ($12::bigint[])[m.a:m.b], ($11::bytea[])[m.n]
FROM moved m
RETURNING lane_id, base, created_at
