-- Store the segments of the lanes that this call has just moved, and of no others.
INSERT INTO {schema}.segments (bucket, lane_id, base, count, created_at, segment_id, fingerprints, body)
SELECT $1, u.lane_id, l.head - u.count, u.count, l.written_at, u.segment_id, ($7::bigint[])[u.a:u.b], u.body
FROM unnest($3::uuid[], $4::int[], $5::bigint[], $6::bytea[], $8::int[], $9::int[])
     AS u (lane_id, count, segment_id, body, a, b)
{lane_moved}
WHERE l.bucket = $1 AND l.writer = $2
