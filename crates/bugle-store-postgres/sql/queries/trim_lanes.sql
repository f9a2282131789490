-- Move tails forward. Needs the lanes locked by an earlier statement, so that the oldest kept segment is seen. Who counts finds lanes by
-- when they were written, and those that were not of late by the mark: an append would have to take it away again.
WITH s AS MATERIALIZED (
    SELECT l.lane_id, l.head, l.tail, least(greatest(l.tail, u.target), l.head) AS next{lane_place}
    FROM unnest($2::uuid[], $3::bigint[]) AS u (lane_id, target)
    {lane_to_lock}
    ORDER BY l.lane_id
    FOR NO KEY UPDATE OF l
)
UPDATE {schema}.lanes l
SET tail = s.next,
    touched_s = CASE WHEN l.written_s < $4 - 30 THEN $4 END,
    tail_at = CASE WHEN s.next < s.head THEN (
        SELECT g.created_at FROM {schema}.segments g
        WHERE g.bucket = $1 AND g.lane_id = s.lane_id AND g.base <= s.next
        ORDER BY g.base DESC LIMIT 1) END
FROM s
WHERE {locked_lane} AND s.next > s.tail
RETURNING l.lane_id, s.next - s.tail
