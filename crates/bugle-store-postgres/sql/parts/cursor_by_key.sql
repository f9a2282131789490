-- The cursor of u.group_name on u.lane_id as c, if there is one; looked up as in lane_by_key.
LEFT JOIN LATERAL (
    SELECT k.* FROM {schema}.cursors k
    WHERE k.bucket = $1 AND k.lane_id = u.lane_id AND k.group_name <= u.group_name
    ORDER BY k.group_name DESC
    LIMIT 1
) c ON c.group_name = u.group_name
