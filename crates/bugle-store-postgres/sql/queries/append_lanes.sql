-- Move heads forward under the lanes' locks, where the guard holds (0 free, 1 head). The values compared are those of
-- the locked rows, not of the statement's snapshot. Answers base and stamp of each segment to come.
-- A lane that somebody else trims meanwhile is passed by, see is_free in append.rs; where the guard is free the lanes are locked before.
WITH s AS MATERIALIZED (
    SELECT l.lane_id, l.head, u.known, u.guard, u.count, u.greatest,
           greatest(l.written_at, u.at) AS stamp,
           CASE WHEN greatest(l.written_at, u.at) / 1000000 < $9 - 30 THEN $9 END AS touched{lane_place}
    FROM unnest($3::uuid[], $4::bigint[], $5::int[], $6::int[], $7::bigint[], $8::uuid[])
         AS u (lane_id, known, guard, count, at, greatest)
    {lane_to_lock}
    ORDER BY l.lane_id
    FOR NO KEY UPDATE OF l
)
{append}
  AND (s.guard = 0 OR s.head = s.known)
RETURNING l.lane_id, s.head, s.stamp
