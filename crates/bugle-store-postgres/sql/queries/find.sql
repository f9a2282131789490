-- Where fingerprints occur in ranges of lanes. The wanted ones of item n are elements a to b of the flat list. Below
-- `indexed` the runs are searched, from there on the segments. Only for what matched is the segment's stamp looked up.
WITH u AS MATERIALIZED (
    SELECT u.n, u.lane_id, u.hi, u.since, ($8::bigint[])[u.a:u.b] AS prints, l.indexed, greatest(u.lo, l.tail) AS lo
    FROM unnest($2::uuid[], $3::bigint[], $4::bigint[], $5::bigint[], $6::int[], $7::int[]) WITH ORDINALITY
         AS u (lane_id, lo, hi, since, a, b, n)
    {lane_by_key}
)
SELECT u.n::int, f.print, s.base + f.i - 1
FROM u
CROSS JOIN LATERAL (
    SELECT g.base, g.fingerprints
    FROM {schema}.segments g
    WHERE g.bucket = $1 AND g.lane_id = u.lane_id AND g.base < u.hi
      AND greatest(u.lo, u.indexed) < u.hi
      AND g.base >= coalesce((
          SELECT p.base FROM {schema}.segments p
          WHERE p.bucket = $1 AND p.lane_id = u.lane_id AND p.base <= greatest(u.lo, u.indexed)
          ORDER BY p.base DESC LIMIT 1), 0)
      AND g.created_at >= u.since
      AND g.fingerprints && u.prints
) s
CROSS JOIN LATERAL unnest(s.fingerprints) WITH ORDINALITY AS f (print, i)
WHERE f.print = ANY (u.prints)
  AND s.base + f.i - 1 >= greatest(u.lo, u.indexed) AND s.base + f.i - 1 < u.hi
UNION ALL
SELECT u.n::int, q.print, r.run * 16384 + x.at
FROM u
CROSS JOIN LATERAL (SELECT DISTINCT d.print FROM unnest(u.prints) AS d (print)) q
CROSS JOIN LATERAL (
    SELECT c.run, c.prints, c.offsets
    FROM {schema}.fingerprint_runs c
    WHERE c.bucket = $1 AND c.lane_id = u.lane_id AND c.part = (q.print & 127)::int
      AND c.run >= u.lo / 16384 AND c.run <= (least(u.hi, u.indexed) - 1) / 16384
      AND u.lo < least(u.hi, u.indexed)
      AND c.newest >= u.since
      AND q.print = ANY (c.prints)
) r
CROSS JOIN LATERAL unnest(r.prints, r.offsets) AS x (print, at)
WHERE x.print = q.print
  AND r.run * 16384 + x.at >= u.lo AND r.run * 16384 + x.at < least(u.hi, u.indexed)
  AND u.since <= (
      SELECT p.created_at FROM {schema}.segments p
      WHERE p.bucket = $1 AND p.lane_id = u.lane_id AND p.base <= r.run * 16384 + x.at
      ORDER BY p.base DESC LIMIT 1)
