-- The first offset stamped after a time, by bisection: stamps never decrease along a lane, so no index on them is
-- needed. Invariant: everything below lo is stamped at or before the time, everything from hi on after it.
WITH RECURSIVE search (n, lane_id, at, lo, hi) AS (
    SELECT u.n, u.lane_id, u.at, l.tail, l.head
    FROM unnest($2::uuid[], $3::bigint[]) WITH ORDINALITY AS u (lane_id, at, n)
    {lane_by_key}
    UNION ALL
    SELECT s.n, s.lane_id, s.at,
           CASE WHEN g.created_at <= s.at THEN g.base + g.count ELSE s.lo END,
           CASE WHEN g.created_at <= s.at THEN s.hi ELSE g.base END
    FROM search s
    CROSS JOIN LATERAL (
        SELECT p.base, p.count, p.created_at
        FROM {schema}.segments p
        WHERE p.bucket = $1 AND p.lane_id = s.lane_id AND p.base <= s.lo + (s.hi - s.lo) / 2
        ORDER BY p.base DESC
        LIMIT 1
    ) g
    WHERE s.lo < s.hi
)
SELECT s.n::int, s.lo FROM search s WHERE s.lo >= s.hi
