-- The lane u.lane_id as l. Looked up as the last one in key order up to its id, which no other index can answer: a plan
-- that was made while the table was small does not turn into a walk when it has grown. Backwards, because the newest version
-- of a row is mostly the last of its entries: where old versions cannot be removed, for somebody holds a snapshot, the first
-- one found is the right one.
JOIN LATERAL (
    SELECT k.* FROM {schema}.lanes k
    WHERE k.bucket = $1 AND k.lane_id <= u.lane_id
    ORDER BY k.lane_id DESC
    LIMIT 1
) l ON l.lane_id = u.lane_id
