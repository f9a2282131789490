-- Remove the runs that lie wholly below their lane's tail.
DELETE FROM {schema}.fingerprint_runs r
USING unnest($2::uuid[]) AS u (lane_id)
{lane_moved}
WHERE l.bucket = $1 AND l.indexed > 0
  AND r.bucket = $1 AND r.lane_id = l.lane_id AND r.part = ANY (ARRAY(SELECT generate_series(0, 127)))
  AND r.run < l.tail / 16384
