-- Where fingerprints occur in ranges of lanes. The wanted ones of item n are elements a to b of the flat list.
SELECT u.n::int, f.print, s.base + f.i - 1
FROM unnest($2::uuid[], $3::bigint[], $4::bigint[], $5::bigint[], $6::int[], $7::int[]) WITH ORDINALITY
     AS u (lane_id, lo, hi, since, a, b, n)
JOIN {schema}.lanes l ON l.bucket = $1 AND l.lane_id = u.lane_id
CROSS JOIN LATERAL (SELECT ($8::bigint[])[u.a:u.b] AS prints) w
CROSS JOIN LATERAL (
    SELECT g.base, g.fingerprints
    FROM {schema}.segments g
    WHERE g.bucket = $1 AND g.lane_id = u.lane_id AND g.base < u.hi
      AND g.base >= coalesce((
          SELECT p.base FROM {schema}.segments p
          WHERE p.bucket = $1 AND p.lane_id = u.lane_id AND p.base <= greatest(u.lo, l.tail)
          ORDER BY p.base DESC LIMIT 1), 0)
      AND g.created_at >= u.since
      AND g.fingerprints && w.prints
) s
CROSS JOIN LATERAL unnest(s.fingerprints) WITH ORDINALITY AS f (print, i)
WHERE f.print = ANY (w.prints)
  AND s.base + f.i - 1 >= greatest(u.lo, l.tail) AND s.base + f.i - 1 < u.hi
