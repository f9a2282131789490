-- The cursor of u.group_name on u.lane_id as c, if this call has just exchanged it; looked up as in cursor_by_key.
JOIN LATERAL (
    SELECT k.group_name, k.writer FROM {schema}.cursors k
    WHERE k.bucket = $1 AND k.lane_id = u.lane_id AND k.group_name <= u.group_name
    ORDER BY k.group_name DESC
    LIMIT 1
) c ON c.group_name = u.group_name AND c.writer = $2
