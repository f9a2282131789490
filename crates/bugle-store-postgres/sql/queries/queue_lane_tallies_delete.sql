-- Delete what of a queue's lanes was in the sums.
DELETE FROM {schema}.lane_tallies WHERE bucket = $1 AND queue_id = $2
