-- The lane u.lane_id as l, to be locked; see cursor_by_place.
CROSS JOIN LATERAL (
    SELECT k.ctid AS place, k.lane_id FROM {schema}.lanes k
    WHERE k.bucket = $1 AND k.lane_id <= u.lane_id
    ORDER BY k.lane_id DESC
    LIMIT 1
) f
JOIN {schema}.lanes l ON l.ctid = f.place AND f.lane_id = u.lane_id
