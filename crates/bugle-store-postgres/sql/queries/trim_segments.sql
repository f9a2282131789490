-- Remove the segments that lie wholly below their lane's tail.
DELETE FROM {schema}.segments g
USING unnest($2::uuid[]) AS u (lane_id)
{lane_moved}
WHERE l.bucket = $1
  AND g.bucket = $1 AND g.lane_id = l.lane_id AND g.base < l.tail AND g.base + g.count <= l.tail
