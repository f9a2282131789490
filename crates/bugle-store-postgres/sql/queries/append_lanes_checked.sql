-- Like append_lanes, with guard 2: none of the new fingerprints occurs at or above the known head. Needs the lanes
-- locked by an earlier statement of the transaction, or segments committed meanwhile would not be seen.
WITH s AS MATERIALIZED (
    SELECT l.lane_id, l.head, l.tail, u.known, u.guard, u.count, u.greatest, u.a, u.b,
           greatest(l.written_at, u.at) AS stamp,
           CASE WHEN greatest(l.written_at, u.at) / 1000000 < $12 - 30 THEN $12 END AS touched{lane_place}
    FROM unnest($3::uuid[], $4::bigint[], $5::int[], $6::int[], $7::bigint[], $8::uuid[], $10::int[], $11::int[])
         AS u (lane_id, known, guard, count, at, greatest, a, b)
    {lane_to_lock}
    ORDER BY l.lane_id
    FOR NO KEY UPDATE OF l
)
{append}
  AND CASE s.guard
      WHEN 0 THEN true
      WHEN 1 THEN s.head = s.known
      ELSE s.head >= s.known AND (s.head = greatest(s.known, s.tail) OR NOT EXISTS (
          SELECT f.print
          FROM {schema}.segments g
          CROSS JOIN LATERAL unnest(g.fingerprints) WITH ORDINALITY AS f (print, n)
          WHERE g.bucket = $1 AND g.lane_id = s.lane_id
            AND g.base >= coalesce((
                SELECT p.base FROM {schema}.segments p
                WHERE p.bucket = $1 AND p.lane_id = s.lane_id AND p.base <= greatest(s.known, s.tail)
                ORDER BY p.base DESC LIMIT 1), 0)
            AND g.base + f.n - 1 >= greatest(s.known, s.tail)
          INTERSECT -- hashed: the cost is the sum of both sides, not their product
          SELECT unnest(($9::bigint[])[s.a:s.b])))
      END
RETURNING l.lane_id, s.head, s.stamp
