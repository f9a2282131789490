-- Lanes by id.
SELECT {lane}
FROM unnest($2::uuid[]) AS u (lane_id)
{lane_by_key}
