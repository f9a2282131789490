-- Segments of the ranges u (n, lane_id, lo, hi, bytes): each up to the one that reaches its number of bytes, a page at
-- most.
{lane_by_key}
CROSS JOIN LATERAL (
    SELECT w.base, w.count, w.created_at, w.segment_id, w.body,
           row_number() OVER (ORDER BY w.base) AS nth,
           sum(octet_length(w.body)) OVER (ORDER BY w.base) - octet_length(w.body) AS before
    FROM (
        SELECT s.*
        FROM {schema}.segments s
        WHERE s.bucket = $1 AND s.lane_id = u.lane_id AND s.base < u.hi
          AND s.base >= coalesce((
              SELECT p.base FROM {schema}.segments p
              WHERE p.bucket = $1 AND p.lane_id = u.lane_id AND p.base <= greatest(u.lo, l.tail)
              ORDER BY p.base DESC LIMIT 1), 0)
          AND s.base + s.count > greatest(u.lo, l.tail)
          AND greatest(u.lo, l.tail) < u.hi
        ORDER BY s.base
        LIMIT {page}
    ) w
) g
WHERE g.nth = 1 OR g.before < u.bytes
ORDER BY u.n, g.base
