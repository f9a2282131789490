-- The first lanes of a queue by name.
SELECT {lane} FROM {schema}.lanes l WHERE l.queue_id = $1 ORDER BY l.name LIMIT $2
