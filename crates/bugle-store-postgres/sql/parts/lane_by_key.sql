-- The lane u.lane_id as l. Looked up as the first one in key order from its id on, which no other index can answer: a plan
-- that was made while the table was small does not turn into a walk when it has grown.
JOIN LATERAL (
    SELECT k.* FROM {schema}.lanes k
    WHERE k.bucket = $1 AND k.lane_id >= u.lane_id
    ORDER BY k.lane_id
    LIMIT 1
) l ON l.lane_id = u.lane_id
