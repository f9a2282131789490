-- Segments of ranges, only for cursors that this call has just exchanged.
SELECT u.n::int, g.base, g.count, g.created_at, g.segment_id, g.body
FROM unnest($3::uuid[], $4::text[], $5::bigint[], $6::bigint[], $7::bigint[]) WITH ORDINALITY
     AS u (lane_id, group_name, lo, hi, bytes, n)
JOIN LATERAL (
    SELECT k.group_name, k.writer FROM {schema}.cursors k
    WHERE k.bucket = $1 AND k.lane_id = u.lane_id AND k.group_name <= u.group_name
    ORDER BY k.group_name DESC
    LIMIT 1
) c ON c.group_name = u.group_name AND c.writer = $2
{segments}
