-- Delete the sums of a queue's groups.
DELETE FROM {schema}.group_tallies WHERE bucket = $1 AND queue_id = $2
