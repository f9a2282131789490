-- Delete a queue's sums.
DELETE FROM {schema}.queue_tallies WHERE bucket = $1 AND queue_id = $2
