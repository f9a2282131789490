-- The least that a group has committed on the lane l. From group to group, each found by its newest version: a walk over all cursors of
-- the lane would meet every version that cannot be removed.
WITH RECURSIVE c (group_name, committed) AS (
    (SELECT k.group_name, k.committed FROM {schema}.cursors k
     WHERE k.bucket = $1 AND k.lane_id = l.lane_id
     ORDER BY k.group_name DESC LIMIT 1)
    UNION ALL
    SELECT n.group_name, n.committed
    FROM c
    CROSS JOIN LATERAL (
        SELECT k.group_name, k.committed FROM {schema}.cursors k
        WHERE k.bucket = $1 AND k.lane_id = l.lane_id AND k.group_name < c.group_name
        ORDER BY k.group_name DESC LIMIT 1
    ) n
)
SELECT min(c.committed) FROM c
