-- Segments of ranges. Arrays in sub-selects: one plan for any number of them, see survey.sql.
SELECT u.n::int, g.base, g.count, g.created_at, g.segment_id, g.body
FROM unnest((SELECT $2::uuid[]), (SELECT $3::bigint[]), (SELECT $4::bigint[]), (SELECT $5::bigint[]))
     WITH ORDINALITY AS u (lane_id, lo, hi, bytes, n)
{segments}
