-- Remove the segments that lie wholly below their lane's tail.
DELETE FROM {schema}.segments g
USING {schema}.lanes l
WHERE l.bucket = $1 AND l.lane_id = ANY ($2::uuid[])
  AND g.bucket = $1 AND g.lane_id = l.lane_id AND g.base < l.tail AND g.base + g.count <= l.tail
