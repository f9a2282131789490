-- Forget what of lanes was in the sums.
DELETE FROM {schema}.lane_tallies WHERE bucket = $1 AND lane_id = ANY ($2::uuid[])
