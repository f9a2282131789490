-- The cursor of u.group_name on u.lane_id as c, to be locked. Found by key as in cursor_by_key, which ends at the newest version, and
-- then by its place: a join by key would visit every version that cannot be removed. No bucket there, or a plan that was made while
-- the table was small could walk through all of it.
CROSS JOIN LATERAL (
    SELECT k.ctid AS place, k.group_name FROM {schema}.cursors k
    WHERE k.bucket = $1 AND k.lane_id = u.lane_id AND k.group_name <= u.group_name
    ORDER BY k.group_name DESC
    LIMIT 1
) f
JOIN {schema}.cursors c ON c.ctid = f.place AND f.group_name = u.group_name
