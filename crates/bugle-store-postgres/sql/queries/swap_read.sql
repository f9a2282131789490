-- Segments of ranges, only for cursors that this call has just exchanged.
SELECT u.n::int, g.base, g.count, g.created_at, g.segment_id, g.body
FROM unnest($3::uuid[], $4::text[], $5::bigint[], $6::bigint[], $7::bigint[]) WITH ORDINALITY
     AS u (lane_id, group_name, lo, hi, bytes, n)
JOIN {schema}.cursors c ON c.bucket = $1 AND c.lane_id = u.lane_id AND c.group_name = u.group_name AND c.writer = $2
{segments}
