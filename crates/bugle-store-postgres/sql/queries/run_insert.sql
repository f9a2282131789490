-- Make one run, which begins at offset $3. Everything in it is committed and never changes.
INSERT INTO {schema}.fingerprint_runs (bucket, lane_id, part, run, newest, prints, offsets)
SELECT $1, $2, (f.print & 127)::int, $3 / 16384, max(g.created_at),
       array_agg(f.print ORDER BY g.base, f.n), array_agg((g.base + f.n - 1 - $3)::int ORDER BY g.base, f.n)
FROM {schema}.segments g
CROSS JOIN LATERAL unnest(g.fingerprints) WITH ORDINALITY AS f (print, n)
WHERE g.bucket = $1 AND g.lane_id = $2 AND g.base < $3 + 16384
  AND g.base >= coalesce((
      SELECT p.base FROM {schema}.segments p
      WHERE p.bucket = $1 AND p.lane_id = $2 AND p.base <= $3
      ORDER BY p.base DESC LIMIT 1), 0)
  AND g.base + f.n - 1 >= $3 AND g.base + f.n - 1 < $3 + 16384
GROUP BY (f.print & 127)::int
ON CONFLICT (bucket, lane_id, part, run) DO NOTHING
