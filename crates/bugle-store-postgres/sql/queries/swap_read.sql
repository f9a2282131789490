-- Segments of ranges, only for cursors that this call has just exchanged.
SELECT u.n::int, g.base, g.count, g.created_at, g.segment_id, g.body
FROM unnest($3::uuid[], $4::text[], $5::bigint[], $6::bigint[], $7::bigint[]) WITH ORDINALITY
     AS u (lane_id, group_name, lo, hi, bytes, n)
{cursor_moved}
{segments}
