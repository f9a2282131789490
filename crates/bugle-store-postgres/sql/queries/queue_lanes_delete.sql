-- Delete a queue's lanes.
DELETE FROM {schema}.lanes WHERE bucket = $1 AND queue_id = $2
