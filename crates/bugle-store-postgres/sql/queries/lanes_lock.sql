-- Lock lanes in ascending order, so that later statements of the transaction see all that was committed to them.
SELECT l.lane_id
FROM unnest($2::uuid[]) AS u (lane_id)
{lane_to_lock}
ORDER BY l.lane_id
FOR NO KEY UPDATE OF l
