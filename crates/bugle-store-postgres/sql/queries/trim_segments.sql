-- Remove the segments that will lie wholly below their lane's tail when it is moved. Needs the lanes locked by an earlier statement,
-- and comes before trim_lanes: the tail of before says where to begin, so that nobody walks over what earlier trims have removed,
-- which is still there while somebody holds a snapshot.
WITH s AS MATERIALIZED (
    SELECT l.lane_id, least(u.target, l.head) AS next, coalesce((
               SELECT p.base FROM {schema}.segments p
               WHERE p.bucket = $1 AND p.lane_id = l.lane_id AND p.base <= l.tail
               ORDER BY p.base DESC LIMIT 1), 0) AS first
    FROM unnest($2::uuid[], $3::bigint[]) AS u (lane_id, target)
    {lane_moved}
    WHERE l.bucket = $1 AND l.tail < least(u.target, l.head)
)
DELETE FROM {schema}.segments g
USING s
WHERE g.bucket = $1 AND g.lane_id = s.lane_id AND g.base >= s.first AND g.base < s.next AND g.base + g.count <= s.next
